"""On what a result was made: versions, devices, precision."""

import os
import platform
from importlib import metadata
from typing import Any

import jax

from jaxfit.devices.cores import NPROC, cores

VARIABLES = ("XLA_FLAGS", NPROC)  # of the environment, which XLA reads


def environment() -> dict[str, Any]:
    """Return what besides the program and its input a figure depends on, for records."""
    device = jax.devices()[0]
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "device": f"{device.platform}: {device.device_kind}",
        "devices": jax.device_count(),
        "cores": cores(),
        "matmul_precision": jax.config.jax_default_matmul_precision,  # type: ignore[attr-defined]
        **{name: os.environ.get(name, "") for name in VARIABLES},
    }
