"""The machine and the programs that a speed was measured with."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from benchmarks.core import record
from jaxfit.devices.cores import chosen_threads, cores

PACKAGES = ("jax", "jaxlib", "numpy", "scipy")
PEERS = ("torch", "libmf", "cornac", "scikit-surprise", "cmfrec", "implicit", "lenskit", "gensim")
CPU, DRIVER = Path("/proc/cpuinfo"), Path("/proc/driver/nvidia/version")


def environment(peers: bool) -> dict[str, Any]:
    """Return a record's environment, with all that speed depends on (processor, memory, threads), and the date.

    Args:
        peers: whether other programs are measured, so that their versions are included.
    """
    packages = (*PACKAGES, *(PEERS if peers else ()))
    versions = {name: found for name in packages if (found := _version(name)) is not None}
    accelerator = jax.devices()[0].platform != "cpu"
    return {
        **record.environment(),
        "cpu": _cpu(),
        **({"driver": _driver()} if accelerator else {}),
        "memory": _memory(),
        "threads": cores(),
        "versions": versions,
        "os": platform.platform(),
        "date": record.today(),
    }


def threads(ours: str) -> str:
    """Say how many threads of a CPU our program and other programs use."""
    return f"{ours} {chosen_threads() or cores()}; other programs {cores()}, where they have threads"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    """Return the processor's model if the system names it, or else its architecture."""
    try:
        lines = [line.partition(":") for line in CPU.read_text().splitlines()]
    except OSError:
        lines = []
    models = [value.strip() for key, _, value in lines if key.strip() == "model name"]
    return models[0] if models else platform.processor() or platform.machine()


def _driver() -> str:
    """Return the version of an accelerator's driver and libraries, as far as they are known."""
    try:
        driver = DRIVER.read_text().splitlines()[0]
    except OSError:
        driver = ""
    return " ".join(filter(None, (driver, jax.devices()[0].client.platform_version)))


def _memory() -> int | None:
    """Return the bytes of physical memory, or of the accelerator's memory if that is the device."""
    stats = jax.devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
