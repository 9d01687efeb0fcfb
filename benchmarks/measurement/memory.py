"""Peak memory, by phase of a measurement."""

import resource
import sys
from pathlib import Path

import jax

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory() -> int:
    """Return the peak of bytes in use so far, on the accelerator, or by this process if the CPU is the device.

    Where Linux counts the bytes of the process, the peak is since the last `restart_peak`.
    """
    if (stats := _of_accelerator()) is not None:
        return stats["peak_bytes_in_use"]
    if (since := _of_process("VmHWM")) is not None:
        return since
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory_in_use() -> int | None:
    """Return the bytes in use now, likewise; None if not known."""
    stats = _of_accelerator()
    return _of_process("VmRSS") if stats is None else stats.get("bytes_in_use")


def restart_peak() -> str:
    """Reset the peak to the bytes in use now, if possible, and return in words what `peak_memory` counts."""
    if _of_accelerator() is not None:
        return "of the accelerator, since this process began"
    try:
        CLEAR.write_text("5")  # see proc_pid_clear_refs(5)
    except OSError:
        return "of this process, since it began"
    return "of this process, in each phase"


def _of_accelerator() -> dict[str, int] | None:
    stats = jax.devices()[0].memory_stats()
    return stats if stats and "peak_bytes_in_use" in stats else None


def _of_process(name: str) -> int | None:
    """Read a count of bytes from the process' status, where Linux keeps one."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)
