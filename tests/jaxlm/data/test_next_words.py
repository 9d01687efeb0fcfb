"""The distributions of what follows each context, against counting by hand."""

from collections import Counter, defaultdict

import jax.numpy as jnp
import numpy as np

from jaxlm.context_model import examples
from jaxlm.data import next_words


def test_distributions_equal_counting():
    ids = np.random.default_rng(0).integers(0, 4, 300).astype(np.int32)
    contexts, words = (np.asarray(x) for x in examples(ids, 2, 0))
    found = next_words.count(contexts, words)
    expected = defaultdict(Counter)
    for context, word in zip(contexts.tolist(), words.tolist(), strict=True):
        expected[tuple(context)][word] += 1
    costs = next_words.costs(found, len(ids))
    index = np.array([0, 7, 7, 299, 31], np.int32)
    batch = next_words.gather(found, jnp.asarray(index), int(costs[index].sum()) + 3)  # and padding
    assert np.all(np.asarray(batch.share)[costs[index].sum() :] == 0)
    for place, event in enumerate(index):
        mine = np.asarray(batch.owner) == place
        counts = expected[tuple(contexts[event].tolist())]
        assert costs[event] == len(counts) == mine.sum()
        for word, share in zip(np.asarray(batch.word)[mine], np.asarray(batch.share)[mine], strict=True):
            assert np.isclose(share, counts[int(word)] / counts.total())
    table = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    means = next_words.expected(jnp.asarray(table), batch, len(index))
    counts = expected[tuple(contexts[7].tolist())]
    np.testing.assert_allclose(means[1], sum(n * table[w] for w, n in counts.items()) / counts.total(), rtol=1e-5)
    np.testing.assert_allclose(next_words.expected(jnp.ones(4), batch, len(index)), 1, rtol=1e-6)
