"""The coherence of words: by its formula, at its ends, and of planted topics."""

import numpy as np
import pytest

from jaxlm.data.documents.collection import Documents, counted
from jaxlm.tasks.coherence import coherence, npmi


def documents_of(rows):
    rows = np.asarray(rows)
    return Documents(counted(*np.nonzero(rows), rows.shape, rows[rows > 0]), ((),) * len(rows))


def test_npmi_is_that_of_shares_of_documents():
    """Words 0 and 1 share one of four documents; how often they occur in a document does not matter."""
    documents = documents_of([[3, 1, 0], [1, 0, 0], [0, 0, 1], [0, 2, 5]])
    found = npmi(documents, [0, 1, 0], [1, 2, 2])
    assert found[0] == pytest.approx(np.log(0.25 / (0.5 * 0.5)) / -np.log(0.25))
    assert found[1] == pytest.approx(0)
    assert found[2] == -1, "never together"


def test_npmi_is_one_for_words_that_occur_together_only_and_zero_where_it_is_undefined():
    documents = documents_of([[1, 2, 0, 1, 1], [0, 0, 0, 1, 1], [1, 1, 0, 1, 1]])
    found = npmi(documents, [0, 0, 2, 3, 3, 0], [1, 2, 2, 4, 0, 0])
    np.testing.assert_allclose(found, [1, 0, 0, 0, 0, 1], atol=1e-12)


def test_words_of_a_topic_are_more_coherent_than_words_of_several():
    rng = np.random.default_rng(0)
    topic = rng.integers(3, size=300)
    rates = np.where(np.arange(12)[None] // 4 == topic[:, None], 1.0, 0.1)
    documents = documents_of(rng.poisson(rates))
    alike, mixed = coherence(documents, [[0, 1, 2, 3], [0, 4, 8, 5]])
    assert alike > 0.2
    assert mixed < 0.05
    pairs = [npmi(documents, [i], [j])[0] for i, j in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))]
    assert alike == pytest.approx(np.mean(pairs))
