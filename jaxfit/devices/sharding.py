"""Devices: one training step, on one device or on many, of one process or of several.

A minibatch is split into one shard for each device; parameters are replicated, but for tables that are split by rows
(`jaxfit.devices.split_tables`). Each device differentiates its shard; gradients of whole parameters are summed over
devices, gradients of rows are gathered with their row ids, and every device makes the same update. This is `jax.jit`
over `jax.shard_map` with explicit collectives, and the same for a mesh over the devices of several processes
(`jaxfit.devices.distributed`). Where tables are split that every step reads whole, a step is written as for one device,
and the compiler splits it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxfit.devices.platform import default_device
from jaxfit.errors import UserError
from jaxfit.tables import Head, Part, Rows
from jaxfit.wording import quantity

DATA, ROWS = AXES = ("data", "rows")  # of a mesh; minibatches are split over both, tables over the second
WHOLE = PartitionSpec()  # the same on all devices
SHARDED = PartitionSpec(AXES)  # the first axis split over devices


def make(num_devices: int, row_shards: int = 1) -> Mesh | None:
    """Return a mesh over the first `num_devices` devices of each process; None for a single device.

    Args:
        num_devices: of each process.
        row_shards: the number of devices over which tables are split by rows.

    Raises:
        UserError: a process has fewer devices, or all devices are fewer than `row_shards` or do not divide into groups
            of that size.
    """
    devices = [jax.local_devices(process_index=k) for k in range(jax.process_count())]
    fewest, process = min((len(own), k) for k, own in enumerate(devices))
    if num_devices < 1 or num_devices > fewest:
        where = f" by process {process}" if len(devices) > 1 else ""
        advice = "to simulate more on a CPU, set XLA_FLAGS=--xla_force_host_platform_device_count=N before JAX begins"
        raise UserError(f"{num_devices} devices asked for, {fewest} found{where}", "--devices", advice)
    chosen = [device for own in devices for device in own[:num_devices]]
    if row_shards > len(chosen):
        what = f"training on {quantity(len(chosen), 'device')} cannot split tables over {row_shards}"
        each = row_shards // math.gcd(row_shards, len(devices))  # of each process
        raise UserError(what, "--row-shards", f"give --devices a multiple of {each}")
    return over(chosen, row_shards)


def over(devices: Sequence[Any], row_shards: int = 1) -> Mesh | None:
    """Return the mesh over these devices, in groups of neighbours that share the rows of tables; None for one.

    Raises:
        UserError: they do not divide into groups of `row_shards`.
    """
    if len(devices) % row_shards:
        what = f"the number of all devices, {len(devices)}, is no multiple of {row_shards}"
        raise UserError(what, "--row-shards", "give a divisor of the number of devices")
    return Mesh(np.array(devices).reshape(-1, row_shards), AXES) if len(devices) > 1 else None


def shards(mesh: Mesh | None) -> int:
    """Return the number of shards of a minibatch."""
    return 1 if mesh is None else mesh.size


def row_shards(mesh: Mesh | None) -> int:
    """Return the number of devices over which the rows of a table are split."""
    return 1 if mesh is None else mesh.shape[ROWS]


def described(mesh: Mesh | None) -> dict[str, int]:
    """Return the numbers of devices and of row shards, which must be equal on all processes."""
    return {"number of devices": shards(mesh), "number of row shards": row_shards(mesh)}


def replicate(tree: Any, mesh: Mesh | None) -> Any:
    """Put arrays on every device; all processes give equal ones."""
    if mesh is None:
        return _on_one_device(tree)
    everywhere = NamedSharding(mesh, WHOLE)
    if not mesh.is_multi_process:
        return jax.device_put(tree, everywhere)

    def place(array: Any) -> jax.Array:
        if isinstance(array, jax.Array) and not array.is_fully_addressable:  # already on all devices
            return array
        copies = [jax.device_put(array, device) for device in mesh.local_devices]
        return jax.make_array_from_single_device_arrays(np.shape(array), everywhere, copies)

    return jax.tree.map(place, tree)


def _on_one_device(tree: Any) -> Any:
    """Put arrays on JAX's default device, committed as restored arrays are: a resume compiles nothing anew."""
    return jax.device_put(tree, default_device())


def split(tree: Any, mesh: Mesh | None) -> Any:
    """Split the first axis of arrays over the devices; all processes give equal, whole arrays."""
    if mesh is None:
        return _on_one_device(tree)
    parts = NamedSharding(mesh, SHARDED)

    def place(array: Any) -> jax.Array:
        return jax.make_array_from_callback(np.shape(array), parts, lambda index: np.asarray(array)[index])

    return jax.tree.map(place, tree)


def whole(tree: Any, mesh: Mesh | None) -> Any:
    """Invert `split`: put the whole arrays on every device."""
    if mesh is None or not jax.tree.leaves(tree):
        return tree
    return jax.jit(_same, out_shardings=NamedSharding(mesh, WHOLE))(tree)


def _same(tree: Any) -> Any:
    return tree


def one_copy(tree: Any) -> Any:
    """Return the copy of replicated arrays on this process' first device."""
    return jax.tree.map(lambda array: array.addressable_data(0), tree)


def everywhere(
    function: Callable[..., Any], mesh: Mesh | None, arguments: Any = WHOLE, results: Any = WHOLE
) -> Callable[..., Any]:
    """Return `function` mapped over the devices of the mesh; it may call `shard` and the collectives below.

    Args:
        function: takes and returns pytrees of arrays.
        mesh: devices; None for one.
        arguments: `WHOLE` or `SHARDED`, or trees of these.
        results: `WHOLE` or `SHARDED`, or trees of these.
    """
    if mesh is None:
        return function
    # results are equal on all devices by construction, which the checker cannot infer through all_gather
    return jax.shard_map(function, mesh=mesh, in_specs=arguments, out_specs=results, check_vma=False)


def varying_alike(*arrays: jax.Array) -> list[jax.Array]:
    """Return the arrays such that all vary over those axes of a user's `shard_map` over which any of them varies.

    The arguments of a custom gradient, and the values that a loop carries, must agree in this; JAX sums the gradients
    of replicated parameters. Outside of `shard_map` the arrays are returned as given.
    """

    def axes(x: jax.Array) -> frozenset[str]:
        kind = jax.typeof(x)
        return getattr(getattr(kind, "mat", kind), "varying", getattr(kind, "vma", frozenset()))

    every = frozenset().union(*map(axes, arrays))
    missing = [tuple(every - axes(x)) for x in arrays]
    return [lax.pcast(x, m, to="varying") if m else x for x, m in zip(arrays, missing, strict=True)]


def along_data(x: jax.Array, mesh: Mesh) -> jax.Array:
    """Split the first axis over the mesh's data axis, if it divides; for programs that the compiler splits."""
    if x.shape[0] % mesh.shape[DATA]:
        return x
    return lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(DATA)))


def shard(mesh: Mesh | None) -> jax.Array | int:
    """Return the number of this device's shard."""
    return 0 if mesh is None else lax.axis_index(AXES)


@jax.named_scope("all_reduce")
def total(tree: Any, mesh: Mesh | None) -> Any:
    """Compute the sum over all devices."""
    return tree if mesh is None else lax.psum(tree, AXES)


@jax.named_scope("all_gather")
def collect(tree: Any, mesh: Mesh | None) -> Any:
    """Concatenate the shards of arrays on every device."""
    return tree if mesh is None else jax.tree.map(lambda x: lax.all_gather(x, AXES, tiled=True), tree)


def gather_parts(parts: tuple[Part, ...], mesh: Mesh | None) -> tuple[Part, ...]:
    """Combine the parts of a table's gradient over all devices."""
    if mesh is None:
        return parts
    gathered: list[Part] = []
    for part in parts:
        if isinstance(part, Head):
            gathered.append(Head(total(part.grad, mesh)))
        elif isinstance(part, Rows):
            gathered.append(collect(part, mesh))
        else:
            owner = part.owner + shard(mesh) * part.vectors.shape[0]
            gathered.append(collect(part._replace(owner=owner), mesh))
    return tuple(gathered)
