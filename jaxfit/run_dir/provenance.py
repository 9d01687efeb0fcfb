"""On what a result was made: versions, devices, precision."""

import os
import platform
from importlib import metadata
from typing import Any

import jax


def environment() -> dict[str, Any]:
    """What besides the program and its input a figure depends on, for records."""
    device = jax.devices()[0]
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "device": f"{device.platform}: {device.device_kind}",
        "devices": jax.device_count(),
        "cores": os.cpu_count(),
        "matmul_precision": jax.config.jax_default_matmul_precision,  # type: ignore[attr-defined]
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }
