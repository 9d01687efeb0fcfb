"""The recurrent network with sigmoid units: z_t = σ(W z_{t-1} + U w_t).

Source: Mikolov, Karafiát, Burget, Černocký and Khudanpur 2010; Mirowski 2014, "Recurrent Neural Net".
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

    return nn.SimpleCell(num_hidden, activation_fn=jax.nn.sigmoid, param_dtype=jnp.result_type(float))


def step(state: Array, inputs: Array, products: Array) -> Array:
    """Compute the hidden units after an event, [B, N_h].

    Args:
        state: hidden units, [B, N_h], before it.
        inputs: products of the gates with the layer's input, [B, N_h].
        products: products of the gates with the state, [B, N_h].
    """
    return jax.nn.sigmoid(inputs + products)


@dataclass(frozen=True)
class Config(network.Config):
    """What shapes the program."""

    cell: ClassVar[Cell] = Cell(module, ("",), step)


RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(optimizer="adam", batch_size=32, epochs=24, rate={"*": 3e-3}, decay={"*": 1e-2}, anneal=True),
        {
            "num_hidden": 400, "tied": True, "dropout": 0.35, "feature_dropout": 0.2, "word_dropout": 0.1,
            "objective": "importance", "num_noise": 1000, "shared_noise": True,
        },
    ),
}  # fmt: skip

MODEL = record.model("rnn", "a recurrent network of sigmoid units", "Mikolov et al. 2010", Config, RECIPES)
