"""Several devices of a CPU, on which programs for several devices run as they do elsewhere."""

import os

SIMULATED = 64  # devices at most: XLA gives up on hundreds of them that wait for each other


def simulate_devices(number: int) -> None:
    """Make a CPU into several devices, if JAX has not begun yet; `jaxfit.devices.sharding` reports too few of them."""
    import jax  # here: the help of a command is shown without it

    if 1 < number <= SIMULATED and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        try:
            jax.config.update("jax_num_cpu_devices", number)
        except RuntimeError:  # JAX has begun, with the devices it has
            return
