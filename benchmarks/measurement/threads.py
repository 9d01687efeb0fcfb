"""How many cores this process may use."""

import os


def threads() -> int:
    """Return how many cores this process may use; XLA takes a thread for each, and peers are given as many."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
