"""The optimizers that a recipe names: directions of steps, to which the engine applies rates and decay."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp


class Transform(NamedTuple):
    """The two functions of an `optax.GradientTransformation`, as a type of our own, so that SGD needs no optax.

    Attributes:
        init: array -> the optimizer's memory of it, a pytree; without leaves, the optimizer has no memory.
        update: (gradient, memory) -> the direction of the step, and the new memory.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


@functools.cache
def transform(optimizer: str) -> Transform:
    """Return the direction of a recipe's optimizer; rates and decay are applied by the engine."""
    if optimizer == "sgd":
        return Transform(lambda array: (), lambda gradient, memory: (gradient, memory))
    if optimizer == "rowwise-adagrad":
        return Transform(_row_sums, _rowwise_adagrad)
    import optax  # here, as it takes a tenth of a second

    if optimizer == "adagrad":
        return Transform(*optax.scale_by_rss(initial_accumulator_value=0.0, eps=1e-10))
    return Transform(*optax.scale_by_adam(b1=0.9, b2=0.999))


def _row_sums(array: Any) -> Any:
    return jnp.zeros(array.shape[:1], array.dtype)


def _rowwise_adagrad(gradient: Any, memory: Any) -> tuple[Any, Any]:
    """Apply AdaGrad with one number for each row, the sum of the means of its gradients' squares.

    A row is what the first axis counts; of a vector or a scalar this is AdaGrad. Source: Lerer et al. 2019,
    "PyTorch-BigGraph". Differs: 1e-10 is added under the root, as by optax, not to the root.
    """
    within = tuple(range(1, gradient.ndim))
    memory = memory + jnp.mean(gradient * gradient, axis=within)
    scale = jnp.where(memory > 0, (memory + 1e-10) ** -0.5, 0)
    return gradient * jnp.expand_dims(scale, within), memory
