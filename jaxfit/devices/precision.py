"""Matrix products of full precision on any device.

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
