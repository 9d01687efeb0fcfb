"""`python -m benchmarks lower`: the programs of workloads as a device's compiler makes them, without the device.

JAX compiles for a described topology where the platform's compiler is installed: for TPUs, the package libtpu, which
needs no chip. Nothing runs, so that there are no times, but operations, memory, collectives and padding, without noise.
"""

import importlib.util
import os
import re
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from benchmarks.core import record
from benchmarks.profiling import work
from benchmarks.profiling.hlo import Module
from benchmarks.speed import page
from benchmarks.workloads import sweeps
from benchmarks.workloads.registry import PRECISIONS, VERSION, WORKLOADS, Workload
from benchmarks.workloads.setup import Setup, SweepsSetup, set_up
from jaxfit import loop, state
from jaxfit.checks import check
from jaxfit.devices import sharding
from jaxfit.devices.platform import tracing_for
from jaxfit.errors import UserError
from jaxfit.minibatches.bucketing import Capacity, buckets, plan
from jaxfit.minibatches.division import Order
from jaxfit.minibatches.epochs import group_size
from jaxfit.optimizer import transform
from jaxfit.state import Rates
from jaxfit.trainer import batch_shards, layout

SAMPLE = 1_000_000  # words or ratings, from which the capacities of minibatches are computed
OF_SWEEPS = 10_000_000  # ratings of sweeps, which lay them out in larger pieces
SECONDS = ("lowering, s", "compilation, s")
SPLIT = "row shards"


# bytes of memory of a chip, by the name of its kind
MEMORY = {"TPU v4": 32 << 30, "TPU v5 lite": 16 << 30, "TPU v5": 95 << 30, "TPU v6 lite": 32 << 30}


class Devices(NamedTuple):
    """Devices of a described topology, which programs are compiled for, and the mesh over them; None for one."""

    each: tuple[Any, ...]
    mesh: Mesh | None

    def whole(self) -> Any:
        """Return the sharding of what all devices hold."""
        return SingleDeviceSharding(self.each[0]) if self.mesh is None else NamedSharding(self.mesh, sharding.WHOLE)


def described(platform: str, topology: str, number: int, row_shards: int = 1) -> Devices:
    """Return `number` devices of a topology, such as "v5e:2x2" of the platform tpu.

    Raises:
        UserError: the platform's compiler is not installed, or there is no such topology, or it has fewer devices, or
            they do not divide into groups of `row_shards`, which share the rows of tables.
    """
    from jax.experimental import topologies

    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # a machine without a TPU has no metadata server to query
    try:
        found = topologies.get_topology_desc(platform=platform, topology_name=topology).devices
    except RuntimeError as error:
        said = str(error).splitlines()[0]
        if platform != "tpu":
            what = f"`lower` cannot compile for {platform}: {said}"
            raise UserError(what, "--platform", "give tpu") from None
        if importlib.util.find_spec("libtpu") is None:
            raise UserError("the compiler for TPUs is not installed", "--platform", "pip install libtpu") from None
        raise UserError(f"cannot compile for {topology}: {said}", "--topology", "name one such as v5e:2x2") from None
    if number > len(found):
        raise UserError(f"{topology} has {len(found)} devices", "--chips", f"give at most {len(found)}")
    return Devices(tuple(found[:number]), sharding.over(found[:number], row_shards))


def measure(
    names: Sequence[str], platform: str, topology: str, number: int, precision: str | None = None, row_shards: int = 1
) -> dict[str, dict[str, Any]]:
    """Compile workloads for some devices, in a precision, or each in its own; return what each program takes."""
    devices, rows = described(platform, topology, number, row_shards), {}
    kind = devices.each[0].device_kind
    with tracing_for(platform):
        for name in names:
            alone = WORKLOADS[name].on_one_device
            rows[name] = {"precision": sweeps.PRECISIONS[0] if alone else precision or WORKLOADS[name].precision}
            if alone and number > 1:
                rows[name]["does not compile"] = sweeps.REFUSED
                continue
            begin = time.perf_counter()
            setup = set_up(WORKLOADS[name], OF_SWEEPS if alone else SAMPLE)
            with jax.default_matmul_precision(PRECISIONS[rows[name]["precision"]]):
                program = lowered(WORKLOADS[name], devices, setup)
            ready = time.perf_counter()
            try:
                compiled = program.compile()
            except jax.errors.JaxRuntimeError as error:
                rows[name]["does not compile"] = str(error).splitlines()[0]
                continue
            times = 1 / setup.share if isinstance(setup, SweepsSetup) else 1.0
            rows[name] |= _row(compiled, _growth(WORKLOADS[name], setup), kind, times) | {
                SECONDS[0]: ready - begin, SECONDS[1]: time.perf_counter() - ready,
            }  # fmt: skip
    return rows


def save(folder: Path, rows: Mapping[str, Mapping[str, Any]], compiled_for: Mapping[str, Any]) -> None:
    """Record workloads' rows without their times, so that equal programs give equal files.

    Rows of other workloads are kept if the same compiler made them.

    Args:
        folder: of the record, `lower.PLATFORM.TOPOLOGY.CHIPS.json`.
        rows: of `measure`.
        compiled_for: platform, topology, chips and, if tables are split, the number of chips that share them.
    """
    words = [re.sub(r"\W", "-", str(each)) for each in compiled_for.values()]
    path = folder / f"lower.{'.'.join(words)}.json"
    by = {name: _version(name) for name in ("jax", "jaxlib", "libtpu")}
    about = {**compiled_for, "version": f"workloads {VERSION}", "compiled by": by}
    known = record.read(path) or {}
    old = known.get("workloads", {}) if {**known, "workloads": {}} == {**about, "workloads": {}} else {}
    new = {name: {what: _rounded(row[what]) for what in row if what not in SECONDS} for name, row in rows.items()}
    kept = {name: {**old, **new}[name] for name in WORKLOADS if name in old or name in new}
    result = {**about, "workloads": kept}
    lines = ["# lower", "", described_by(result), "", *page.table(*page.cells(kept)), ""]
    record.write(path, result, "\n".join(lines))


def described_by(result: Mapping[str, Any]) -> str:
    """Say what a record's programs are compiled for, and by which versions."""
    by = ", ".join(f"{name} {version}" for name, version in result["compiled by"].items() if version)
    split = f", tables split over {result[SPLIT]}" if SPLIT in result else ""
    return "Compiled for {platform}, topology {topology}, chips {chips}{split}, by {by}.".format(
        **result, by=by, split=split
    )


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _growth(workload: Workload, setup: Setup | SweepsSetup) -> float:
    """Estimate by how many bytes the whole data exceed those set up, from a comparison with half of these.

    Not all data grow with the number of words or ratings: the paths of words in a tree do not. Data of sweeps all do;
    they are in pieces so large that a comparison with half of them would be less accurate.
    """
    if isinstance(setup, SweepsSetup):
        return _bytes(setup.data) * (1 / setup.share - 1)
    if setup.share == 1:
        return 0.0
    half = set_up(workload, SAMPLE // 2)
    return (_bytes(setup.data) - _bytes(half.data)) / (setup.share - half.share) * (1 - setup.share)


def _bytes(data: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(data))


def _row(compiled: Any, growth: float, kind: str, times: float) -> dict[str, Any]:
    """Read a compiled program.

    Args:
        compiled: the program.
        growth: bytes by which the whole data exceed those it was compiled with, in arrays without padding.
        kind: of the device.
        times: ratio of a sweep over the whole data to the compiled one; 1 for a step.
    """
    memory, module = compiled.memory_analysis(), Module(compiled.as_text())
    needed = memory.argument_size_in_bytes + memory.temp_size_in_bytes + growth
    there = MEMORY.get(kind)
    arrays, temporaries = module.arrays(), module.temporaries()
    return {
        "memory, GB": needed / 1e9,
        "fits": None if there is None else needed <= there,
        "temporaries, GB": memory.temp_size_in_bytes / 1e9,
        "padding": (arrays.padded + growth + temporaries.padded) / max(1, arrays.plain + growth + temporaries.plain),
        "padding of arguments": (arrays.padded + growth) / max(1, arrays.plain + growth),
        "padding of temporaries": temporaries.padded / max(1, temporaries.plain),
        "GFLOP of products a step": times * _products(module) / 1e9,
        "collectives, MB a step": sum(module.collectives().values()) / 1e6,
        "cycles a step, at least": round(times * module.cycles()),
        "instructions a step": round(times * sum(module.operations().values())),
    }


def _products(module: Module) -> float:
    """Count the operations of matrix products in a step, where the text has their shapes."""
    walked = ((one, often) for one, often in module.walk(module.step) if one.kind != "call")  # its instructions follow
    return sum(often * (work.operations(module, one) or 0.0) for one, often in walked)


def lowered(workload: Workload, devices: Devices, setup: Setup | SweepsSetup) -> Any:
    """Lower the loop of training steps of a workload, or a sweep, for these devices, from shapes alone."""
    if isinstance(setup, SweepsSetup):
        run, given = sweeps.program(setup)
        return run.lower(*_placed(given, devices.whole()))
    run, given = _loop(workload, devices, setup)
    return run.lower(*given)


def _loop(workload: Workload, devices: Devices, setup: Setup) -> tuple[Any, tuple[Any, ...]]:
    """Return the loop of training steps, and the shapes and shardings of its arguments."""
    program, recipe = setup.program, workload.recipe()
    params = jax.eval_shape(setup.init, jax.random.key(0))
    check(program, recipe, devices.mesh)
    batch, direction = recipe.batch_size, transform(recipe.optimizer)
    size = program.size(setup.data)
    costs = None if program.ragged is None else program.ragged.costs(setup.data)
    lists = None if costs is None or costs.ndim == 1 else costs.shape[1]
    by_rows = state.by_rows(params, program, setup.data, lists)
    split = layout(params, by_rows, devices.mesh)
    shards = batch_shards(split, devices.mesh)
    bucketed = None if costs is None else buckets(costs, batch, shards)
    group = group_size(program, size, batch)
    capacity: Capacity = 0
    if bucketed is not None:
        order = np.random.default_rng(0).permutation(size).astype(np.int32)
        stretches = plan(bucketed, order, batch, shards, jax.random.key(0)).stretches
        capacity = max(stretches, key=lambda stretch: stretch.end - stretch.begin).capacity
    before = jax.eval_shape(lambda x: state.start(x, program, direction, by_rows, batch), params)
    scalar = jax.ShapeDtypeStruct((), np.float32)
    like = jax.tree.map(lambda _: scalar, params)
    rates = Rates(like, like, jax.ShapeDtypeStruct((), np.bool_), scalar)
    key, count = jax.eval_shape(lambda: jax.random.key(0)), jax.ShapeDtypeStruct((), np.int32)
    visits = Order(jax.ShapeDtypeStruct((-(-size // group),), np.int32), count)
    run: Any = loop.make_run(program, direction, batch, capacity, True, devices.mesh, group, split)
    rest = _placed((setup.data, visits, rates, key, count, count, count), devices.whole())
    start = _placed(before, devices.whole())
    if split is not None and devices.mesh is not None:
        of_streams = _placed(before.carry, NamedSharding(devices.mesh, sharding.SHARDED))
        start = start._replace(weights=split.shapes(before.weights, direction, devices.mesh), carry=of_streams)
    return run, (start, *rest)


def _placed(tree: Any, where: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=where), tree)
