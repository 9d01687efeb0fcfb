"""Documents laid out in orders that are drawn, and the running sum of Eq. 7 against that of Eq. 6."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import Documents, counted

COUNTS = np.array([[2, 0, 1, 0], [0, 3, 1, 1], [1, 0, 0, 0], [0, 2, 2, 0]])
DOCUMENTS = Documents(counted(*np.nonzero(COUNTS), COUNTS.shape, COUNTS[COUNTS > 0]), ((),) * 4)


def words_of(data):
    """Return the words of each document, as lists."""
    offsets, word = np.asarray(data.offsets), np.asarray(data.word)
    return [word[a:b].tolist() for a, b in itertools.pairwise(offsets)]


def test_an_order_holds_the_words_of_each_document():
    for seed in range(3):
        found = words_of(ordered.ordered(DOCUMENTS, jax.random.key(seed)))
        assert [np.bincount(words, minlength=4).tolist() for words in found] == COUNTS.tolist()


def test_every_order_is_as_likely():
    """χ² of the six orders of three words, 2,000 draws: 20.5 is its 0.1 % point with 5 degrees of freedom."""
    counts = np.tile([1, 1, 1], (2000, 1))
    documents = Documents(counted(*np.nonzero(counts), counts.shape, counts[counts > 0]), ((),) * 2000)
    data = ordered.redraw(ordered.ordered(documents, jax.random.key(0)), jax.random.key(5))
    _, found = np.unique(words_of(data), axis=0, return_counts=True)
    assert len(found) == 6
    assert np.sum((found - 2000 / 6) ** 2 / (2000 / 6)) < 20.5


def test_draws_depend_on_the_key_and_not_on_earlier_ones():
    one, other = (ordered.ordered(DOCUMENTS, jax.random.key(seed)) for seed in (0, 1))
    again = [ordered.redraw(ordered.redraw(one, jax.random.key(seed)), jax.random.key(9)) for seed in (3, 3)]
    assert words_of(again[0]) == words_of(again[1])
    assert words_of(one) != words_of(other)
    assert words_of(ordered.redraw(one, jax.random.key(3))) != words_of(one)


def test_a_minibatch_holds_its_documents_and_padding():
    data = ordered.ordered(DOCUMENTS, jax.random.key(0))
    found = ordered.gather(data, jnp.array([3, 0], jnp.int32), 9, 4)
    words = words_of(data)
    assert found.owner.tolist() == [0] * 4 + [1] * 3 + [2] * 2
    assert found.word.tolist() == [*words[3], *words[0], 4, 4]
    assert found.length.tolist() == [4, 3]


@pytest.mark.parametrize(
    "lengths",
    [
        [3, 1, 40, 7, 2],
        [ordered.SPAN, 2 * ordered.SPAN, 1, 3 * ordered.SPAN + 2, ordered.SPAN - 3],  # ends of spans and documents meet
        [1, 2],
    ],
)
@pytest.mark.parametrize("descending", [False, True])
def test_running_sums_are_sums_over_the_words_before_in_the_document(lengths, descending):
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    owner = owner[::-1] if descending else owner
    rows = rng.normal(size=(len(owner), 6)).astype(np.float32)
    rows[owner == owner[0]] = 1e6  # what other documents sum to costs no digits
    expected = [rows[np.arange(len(owner)) < i][owner[:i] == owner[i]].sum(axis=0) for i in range(len(owner))]
    found = jax.jit(ordered.running_sums)(rows, owner)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
