"""Shared fixture: a small text with frequent and rare words, short and empty lines."""

import jax
import numpy as np
import pytest

VOCAB_SIZE, EOS = 40, 0


@pytest.fixture(scope="session")
def text() -> np.ndarray:
    """Draw 4,000 events over 40 words; word 39, the last, never occurs, and word 0 is the line end."""
    rank = np.arange(1, VOCAB_SIZE)
    logits = -1.2 * np.log(rank)
    first = np.asarray(jax.random.categorical(jax.random.key(0), logits, shape=(4000,)))
    # Every second word, on average, is determined by the one before, so that histories are informative.
    follows = np.asarray(jax.random.bernoulli(jax.random.key(1), 0.5, (4000,)))
    ids = np.where(follows, (7 * np.roll(first, 1) + 3) % (VOCAB_SIZE - 1), first).astype(np.int32)
    ids[[10, 11]] = EOS  # an empty line
    ids[-1] = EOS
    return ids
