"""Matrix products with factors rounded to bfloat16, as accelerators can multiply, on any device.

XLA's products on a CPU are of full precision whatever is asked for, so that the rounding is written into the program.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from jax import Array, lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxfit.devices.platform import tracing_for


def _round(x: Array) -> Array:
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


# As `lax.reduce_precision`, which would round the gradient as well: that is a sum, and its own products round.
_rounded = Primitive("round_to_bfloat16")
_rounded.def_impl(_round)
_rounded.def_abstract_eval(lambda x: x)
ad.deflinear(_rounded, lambda gradient: [gradient])
batching.defvectorized(_rounded)
mlir.register_lowering(_rounded, mlir.lower_fun(_round, multiple_results=False))


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """Trace programs as for an accelerator, and round the factors of all their float32 matrix products; sums are not.

    Where a product is differentiated, the products of its gradient are rounded as well: rounding twice is rounding
    once.
    """
    bind = lax.dot_general_p.bind

    def bind_rounded(*factors: Array, **parameters: Any) -> Any:
        return bind(*(_rounded.bind(x) if x.dtype == "float32" else x for x in factors), **parameters)

    with tracing_for("tpu"), patch.object(lax.dot_general_p, "bind", bind_rounded):
        yield
