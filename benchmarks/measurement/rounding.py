"""Matrix products with factors rounded to bfloat16, as accelerators can multiply, on any device.

On a CPU, XLA's products have full precision whatever is asked for, so that the rounding is written into the program.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jax import Array, lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from benchmarks.core.source import digest
from jaxfit.devices.platform import tracing_for


def _round(x: Array) -> Array:
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


# The gradient passes unchanged, unlike that of `lax.reduce_precision`: it is a sum, rounded where a product reads it.
_rounded = Primitive("round_to_bfloat16")
_rounded.def_impl(_round)
_rounded.def_abstract_eval(lambda x: x)
ad.deflinear(_rounded, lambda gradient: [gradient])
batching.defvectorized(_rounded)
mlir.register_lowering(_rounded, mlir.lower_fun(_round, multiple_results=False))


@contextmanager
def accelerated(products: str) -> Iterator[None]:
    """Trace programs as for an accelerator whose matrix products are of this kind.

    Args:
        products: "float32"; "bfloat16", where the factors of all float32 products are rounded, also of those that
            differentiation makes, and sums are not; "" for programs as they are.
    """
    if not products:
        yield
        return
    bind = lax.dot_general_p.bind

    def bind_rounded(*factors: Array, **parameters: Any) -> Any:
        return bind(*(_rounded.bind(x) if x.dtype == "float32" else x for x in factors), **parameters)

    with tracing_for("tpu"), patch.object(lax.dot_general_p, "bind", bind_rounded if products == "bfloat16" else bind):
        yield


def identity(products: str) -> dict[str, str]:
    """Return what determines a model trained with such products: their kind, and the digest of this file."""
    return {"products": products, "rounding": digest(Path(__file__))} if products else {}
