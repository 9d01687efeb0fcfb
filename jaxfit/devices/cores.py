"""How many cores, threads and simulated devices of a CPU this process uses; without JAX, for processes without it."""

import os

SIMULATED = 64  # devices at most: XLA gives up on hundreds of them that wait for each other
NPROC = "NPROC"  # the variable from which XLA reads the number of its threads on a CPU, when JAX begins


def cores() -> int:
    """Return how many cores this process may use; on a CPU, XLA takes a thread for each by default."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def simulate_devices(number: int) -> None:
    """Make a CPU into several devices, if JAX has not begun yet; `jaxfit.devices.sharding` reports too few of them."""
    import jax  # here: the help of a command is shown without it

    if 1 < number <= SIMULATED and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        try:
            jax.config.update("jax_num_cpu_devices", number)
        except RuntimeError:  # JAX has begun, with the devices it has
            return


def use_threads(number: int) -> bool:
    """Make XLA take so many threads on a CPU, if JAX has not begun yet; return whether it takes so many."""
    import jax

    devices = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
    try:  # another number is refused once JAX has begun
        jax.config.update("jax_num_cpu_devices", 1 if devices != 1 else 2)
    except RuntimeError:
        return chosen_threads() == str(number)
    jax.config.update("jax_num_cpu_devices", devices)
    os.environ[NPROC] = str(number)
    return True


def chosen_threads() -> str:
    """Return how many threads XLA is to take, by the environment; "" for its default."""
    return os.environ.get(NPROC, "")
