"""Drawing sentences from a model, word by word."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlm.trained_model import Model


def sentence(key: jax.Array, model: Model, most: int = 100) -> tuple[list[str], bool]:
    """Draw the words of one line, each from log P(w | words before); history begins afresh.

    Returns the words, and whether the line came to its end within `most` words.
    """
    eos = model.vocabulary.eos
    ids = np.array([eos], np.int32)
    for number in range(most):
        log_p = jnp.asarray(model.distribution(ids), jnp.float32)
        word = int(jax.random.categorical(jax.random.fold_in(key, number), log_p))
        if word == eos:
            return [model.vocabulary.words[i] for i in ids[1:]], True
        ids = np.append(ids, np.int32(word))
    return [model.vocabulary.words[i] for i in ids[1:]], False
