"""Estimate the memory of a training from its parameters' shapes, before any is allocated."""

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from jaxfit.errors import UserError
from jaxfit.optimizer import transform

COPIES = 3  # of the parameters: those trained, the best so far, and one while they are saved
# of tables that are split over accelerators: those trained, and those validated; the best are in the host's memory
COPIES_IF_SPLIT = 2
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def available() -> int | None:
    """Return the bytes of memory of the first device, of a CPU those that this process may use; None if not known."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return (device.memory_stats() or {}).get("bytes_limit")
    return min([*_of_machine(), *_of_control_groups()], default=None)


def _of_machine() -> Iterator[int]:
    """Yield the physical memory, and the address space that this process may use, where they are known."""
    with suppress(AttributeError, ValueError, OSError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):  # not POSIX
        import resource

        size, _ = resource.getrlimit(resource.RLIMIT_AS)
        if size != resource.RLIM_INFINITY:
            yield size


def _of_control_groups() -> Iterator[int]:
    """Yield the limits that containers and batch systems set, of versions 1 and 2, also to groups around this one."""
    own = {"": "/", "memory": "/"}  # a container may not see its own group's name, only its limit at the top
    with suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            own |= dict.fromkeys(controllers.split(","), group)
    for top, name, group in (
        (CGROUPS, "memory.max", own[""]),
        (CGROUPS / "memory", "memory.limit_in_bytes", own["memory"]),
    ):
        folder = top / group.lstrip("/")
        for each in (folder, *folder.parents):
            with suppress(OSError, ValueError):  # no such group; "max"
                yield int((each / name).read_text())


def require(shapes: Any, optimizer: str | None, where: str, row_shards: int = 1) -> None:
    """Raise a UserError where a training takes more memory than there is.

    Of tables that are split over accelerators, a device must have memory for its part; all are taken to be split.

    Args:
        shapes: of the parameters, a pytree of `jax.ShapeDtypeStruct`.
        optimizer: of a `Recipe`; None for parameters that are not fitted by one.
        where: the options that decide the shapes, for the message.
        row_shards: the devices over which tables are split; those of a CPU share its memory.
    """
    leaves = jax.tree.leaves(shapes)
    size, more = _bytes(leaves), 0 if optimizer is None else sum(_memory(leaf, optimizer) for leaf in leaves)
    needed, there, device = size * COPIES + more, available(), "this machine"
    advice = "make the model smaller"
    if jax.local_devices()[0].platform != "cpu" and row_shards > 1:
        needed, device = (size * COPIES_IF_SPLIT + more) // row_shards, f"each of {row_shards} devices"
        advice += ", or give more --row-shards"
    if there is not None and needed > there:
        what = f"training needs {show(needed)} for the parameters and their copies, and {device} has {show(there)}"
        raise UserError(what, where, advice)


def _bytes(arrays: Iterable[Any]) -> int:
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)


def _memory(shape: Any, optimizer: str) -> int:
    """Return the bytes of what an optimizer keeps of an array, without what is smaller than that array."""
    kept = jax.tree.leaves(jax.eval_shape(transform(optimizer).init, shape))
    return _bytes(array for array in kept if array.shape == shape.shape)


def show(number: float) -> str:
    """Write a number of bytes as people read it: "4.1 TB"."""
    for unit in UNITS:
        if round(number) < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number * 1000:,.0f} {UNITS[-1]}"
