"""How many cores and threads this process uses; without JAX, for processes that do without it."""

import os

NPROC = "NPROC"  # the variable from which XLA reads the number of its threads on a CPU, when JAX begins


def cores() -> int:
    """Return how many cores this process may use; on a CPU, XLA takes a thread for each by default."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_threads(number: int) -> None:
    """Make XLA take so many threads on a CPU, if JAX has not begun yet."""
    import jax  # here: the help of a command is shown without it

    devices = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
    try:  # another number is refused once JAX has begun
        jax.config.update("jax_num_cpu_devices", 1 if devices != 1 else 2)
    except RuntimeError:
        return
    jax.config.update("jax_num_cpu_devices", devices)
    os.environ[NPROC] = str(number)


def chosen_threads() -> str:
    """Return how many threads XLA is to take, by the environment; "" for its default."""
    return os.environ.get(NPROC, "")
