"""How many cores this process may use; without JAX, for processes that do without it."""

import os


def cores() -> int:
    """Return how many cores this process may use; on a CPU, XLA takes a thread for each."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
