"""A synthetic language drawn from a planted log-bilinear model, so that its true perplexity is known."""

import functools
import hashlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.devices.precision import full_float32
from jaxlm.data.corpus import Corpus
from jaxlm.data.files import EOS
from jaxlm.data.vocabulary import Vocabulary


class Language(NamedTuple):
    """The planted model; word ids are those of the corpus' vocabulary."""

    R: jax.Array  # [N_w, N_f]: word feature vectors
    C: jax.Array  # [c, N_f]: diagonal context matrices, oldest context word first
    b: jax.Array  # [N_w]: word biases


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def language(key: jax.Array, num_words: int, num_features: int, context_size: int, strength: float) -> Language:
    """Draw a planted model: Gaussian features, biases of Zipf's law, weaker influence of older words.

    Word 0 is the line end; its bias makes it about one event in twelve. `strength` is the standard deviation of
    the bilinear term r̂·r over words and contexts: the larger, the more a context says about the next word.
    """
    features, diagonals = jax.random.split(key)
    R = jax.random.normal(features, (num_words, num_features))
    age = jnp.arange(context_size - 1, -1, -1)
    C = jax.random.normal(diagonals, (context_size, num_features)) * 0.7 ** age[:, None]
    C = C * strength / jnp.sqrt(jnp.sum(C**2))
    zipf = -jnp.log(jnp.arange(1.0, num_words))
    return Language(R, C, jnp.concatenate([jax.nn.logsumexp(zipf)[None] - jnp.log(11.0), zipf]))


def log_prob(model: Language, context: jax.Array) -> jax.Array:
    """Return the log-distribution of the next word, log softmax(R r̂ + b), r̂ = Σ_i C_i r_{w_i} (Eq. 3.16-3.17).

    Args:
        context: int32 [c], oldest first.

    Returns:
        float32 [N_w].
    """
    predicted = jnp.sum(model.C * model.R[context], axis=0)
    return jax.nn.log_softmax(model.R @ predicted + model.b)


@functools.partial(jax.jit, static_argnums=2)
def draw(key: jax.Array, model: Language, events: int) -> jax.Array:
    """Draw a text that begins after a context of line ends: ids, int32 [events]."""

    def step(context: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        word = jax.random.categorical(jax.random.fold_in(key, number), log_prob(model, context)).astype(jnp.int32)
        return jnp.concatenate([context[1:], word[None]]), word

    start = jnp.zeros(model.C.shape[0], jnp.int32)
    return jax.lax.scan(step, start, jnp.arange(events))[1]


@full_float32()
def planted(
    key: jax.Array,
    events: tuple[int, int, int] = (60_000, 6_000, 6_000),
    num_words: int = 300,
    num_features: int = 8,
    context_size: int = 2,
    strength: float = 1.5,
) -> tuple[Corpus, Language]:
    """Draw training, validation and test text from one planted model, and return the model as well.

    Each text begins after a context of line ends, and contexts continue across line ends. Each has at most the
    given number of events and ends with a line end. The vocabulary holds all words, drawn or not.
    """
    model_key, *keys = jax.random.split(key, 4)
    model = language(model_key, num_words, num_features, context_size, strength)
    drawn = [np.asarray(draw(text_key, model, count)) for text_key, count in zip(keys, events, strict=True)]
    train, valid, test = (ids[: 1 + np.flatnonzero(ids == 0)[-1]] for ids in drawn)
    width = len(str(num_words - 1))
    names = [EOS, *(f"w{i:0{width}}" for i in range(1, num_words))]
    counts = np.bincount(train, minlength=num_words)
    vocabulary = Vocabulary.from_words(names, dict(zip(names, counts.tolist(), strict=True)))
    new_id = np.array([vocabulary.ids[name] for name in names], np.int32)
    order = np.argsort(new_id)
    train, valid, test = new_id[train], new_id[valid], new_id[test]
    sha256 = hashlib.sha256(b"\0".join(x.astype("<i4").tobytes() for x in (train, valid, test))).hexdigest()
    note = f"drawn from a planted LBL of {num_words} words, {num_features} features, context {context_size}"
    corpus = Corpus("planted", train, valid, test, vocabulary, sha256, note)
    return corpus, Language(model.R[order], model.C, model.b[order])
