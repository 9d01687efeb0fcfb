"""Matrix products of full precision on any device, and models' numbers whatever the caller has set.

By default a GPU rounds float32 factors to 10 bits and a TPU to 7, so that figures would depend on the device.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply float32 matrices in full precision, whatever the caller's default; also a decorator of functions."""
    with jax.default_matmul_precision("highest"):
        yield


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute in float32, also where JAX is set to make float64, and in full precision; also a decorator."""
    with jax.enable_x64(False), full_precision():
        yield
