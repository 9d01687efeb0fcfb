"""The LSTM: cells with a memory that gates write, keep and read.

Source: Hochreiter and Schmidhuber 1997; as a language model, Zaremba, Sutskever and Vinyals 2014.
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

    return nn.OptimizedLSTMCell(num_hidden, param_dtype=jnp.result_type(float))


def step(state: tuple[Array, Array], inputs: Array, products: Array) -> tuple[Array, Array]:
    """Compute the memory and the units after an event, [B, N_h] each.

    Args:
        state: memory and hidden units, [B, N_h] each, before it.
        inputs: products of the gates with the layer's input, [B, 4 N_h].
        products: products of the gates with the state, [B, 4 N_h].
    """
    c, _ = state
    i, f, g, o = jnp.split(inputs + products, 4, axis=1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return c, jax.nn.sigmoid(o) * jnp.tanh(c)


@dataclass(frozen=True)
class Config(network.Config):
    """What shapes the program."""

    cell: ClassVar[Cell] = Cell(module, ("i", "f", "g", "o"), step)


RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(optimizer="adam", batch_size=32, epochs=40, rate={"*": 3e-3}, decay={"*": 1e-2}, anneal=True),
        {
            "num_hidden": 300, "tied": True, "dropout": 0.5, "feature_dropout": 0.3, "recurrent_dropout": 0.3,
            "word_dropout": 0.1, "objective": "importance", "num_noise": 1000, "shared_noise": True,
        },
    ),
}  # fmt: skip

MODEL = record.model("lstm", "a long short-term memory network", "Hochreiter and Schmidhuber 1997", Config, RECIPES)
