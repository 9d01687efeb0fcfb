"""The settings of JAX that results depend on, such as the precision of matrix products, whatever the caller has set.

By default a GPU rounds float32 factors to 10 bits and a TPU to 7, so that figures would depend on the device.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import jax

SETTINGS: dict[str, Callable[[Any], Any]] = {
    "jax_enable_x64": jax.enable_x64,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_default_prng_impl": jax.default_prng_impl,
    "jax_threefry_partitionable": jax.threefry_partitionable,
}
Result = TypeVar("Result")


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply float32 matrices in full precision, and let types be promoted; also a decorator of functions."""
    with jax.default_matmul_precision("highest"), jax.numpy_dtype_promotion("standard"):
        yield


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute in float32 and in full precision, and draw by JAX's default generator; also a decorator of functions.

    Keys are of that generator if they are made inside.
    """
    with (
        jax.enable_x64(False), jax.default_prng_impl("threefry2x32"), jax.threefry_partitionable(True), full_precision()
    ):  # fmt: skip
        yield


def for_thread(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function for another thread, where it has the settings and context variables of this one."""
    context, settings = copy_context(), {name: getattr(jax.config, name) for name in SETTINGS}

    def run(*args: Any) -> Result:
        with ExitStack() as stack:
            for name, value in settings.items():
                stack.enter_context(SETTINGS[name](value))
            return context.run(function, *args)

    return run
