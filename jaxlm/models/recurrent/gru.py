"""The GRU: cells whose gates mix the previous state with a new one.

Source: Cho et al. 2014, in whose first version the reset gate multiplies U h, the product of the weights and the state,
as here; in later versions, and in Chung et al. 2014, it multiplies h.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from jaxfit.recipe import Recipe
from jaxlm.models.recurrent import network, record
from jaxlm.models.recurrent.layer import Cell


def module(num_hidden: int) -> Any:
    """Return flax's cell."""
    import flax.linen as nn  # here: options are read without it, and it takes a third of a second

    return nn.GRUCell(num_hidden, param_dtype=jnp.result_type(float))


def step(state: Array, inputs: Array, products: Array) -> Array:
    """Compute the hidden units after an event, [B, N_h].

    Args:
        state: hidden units, [B, N_h], before it.
        inputs: products of the gates with the layer's input, [B, 3 N_h].
        products: products of the gates with the state, [B, 3 N_h].
    """
    (r, z, n), (of_r, of_z, of_n) = (jnp.split(x, 3, axis=1) for x in (inputs, products))
    new = jnp.tanh(n + jax.nn.sigmoid(r + of_r) * of_n)
    kept = jax.nn.sigmoid(z + of_z)
    return (1 - kept) * new + kept * state


@dataclass(frozen=True)
class Config(network.Config):
    """What shapes the program."""

    cell: ClassVar[Cell] = Cell(module, ("r", "z", "n"), step)


RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(optimizer="adam", batch_size=32, epochs=40, rate={"*": 3e-3}, decay={"*": 1e-2}, anneal=True),
        {
            "num_hidden": 300, "tied": True, "dropout": 0.45, "feature_dropout": 0.3, "recurrent_dropout": 0.2,
            "word_dropout": 0.1, "objective": "importance", "num_noise": 1000, "shared_noise": True,
        },
    ),
}  # fmt: skip

MODEL = record.model("gru", "a network of gated recurrent units", "Cho et al. 2014", Config, RECIPES)
