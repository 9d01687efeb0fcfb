"""Masks of dropout in recurrent networks: of words, features, each layer's units, and what it reads of its own state.

Each is drawn once for a window, and is the same for all of its events; a word is dropped wherever it occurs in the
window.

Source: Gal and Ghahramani 2016, "A theoretically grounded application of dropout in recurrent neural networks".
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxfit.draws import uniform
from jaxlm.objectives.dropout import dropout

STATES = 1  # folded into a layer's key for what is dropped of its state
WORDS = 1  # folded into the features' key for the words that are dropped


class Masks(NamedTuple):
    """The dropout masks of a window.

    Attributes:
        features: [N_f], of the features.
        units: [layers, N_h], of each layer's units, as the next layer reads them.
        states: [layers, N_h], of each layer's units, as the layer itself reads them at the next event.
    """

    features: Array
    units: Array
    states: Array


def draw_masks(key: Array | None, config: Any) -> Masks:
    """Draw the masks of a window; without a key, nothing is dropped.

    Args:
        key: of the window.
        config: of the network.
    """
    number = 1 + config.num_layers
    of_features, *of_units = [None] * number if key is None else jax.random.split(key, number)
    of_states = [None if each is None else jax.random.fold_in(each, STATES) for each in of_units]
    units = jnp.ones(config.num_hidden)
    return Masks(
        features=dropout(jnp.ones(config.num_features), of_features, config.feature_dropout),
        units=jnp.stack([dropout(units, each, config.dropout) for each in of_units]),
        states=jnp.stack([dropout(units, each, config.recurrent_dropout) for each in of_states]),
    )


def word_mask(key: Array | None, before: Array, config: Any) -> Array:
    """Return the factors of the feature vectors of a window's words `before`, int32 [...]: 0 for dropped words."""
    if key is None:
        return jnp.ones(before.shape)
    of_features, *_ = jax.random.split(key, 1 + config.num_layers)
    kept = uniform(jax.random.fold_in(of_features, WORDS), before) < 1 - config.word_dropout
    return jnp.where(kept, 1 / (1 - config.word_dropout), 0.0)


def mask_state(p: Any, kept: Array, config: Any) -> Any:
    """Return a cell's parameters such that it reads its units times `kept`, [N_h], at the next event."""
    of_state = {name: p[name] for name in (f"h{gate}" for gate in config.cell.gates)}
    return {**p, **{name: {**each, "kernel": kept[:, None] * each["kernel"]} for name, each in of_state.items()}}
