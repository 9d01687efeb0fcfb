"""Counts of pairs within a window, against a loop over all positions."""

import numpy as np
import pytest

from jaxlm.data import cooccurrence

N_W, EOS = 6, 2


def by_loop(ids, window, across_lines):
    """X_ij summed over ordered pairs of positions, one by one."""
    counts = np.zeros((N_W, N_W))
    for p, i in enumerate(ids):
        for q, j in enumerate(ids):
            between = ids[min(p, q) : max(p, q)]  # a line's end belongs to its line
            if 1 <= abs(p - q) <= window and (across_lines or EOS not in between):
                counts[i, j] += 1 / abs(p - q)
    return counts


def random_text(events, seed=0):
    return np.random.default_rng(seed).integers(0, N_W, events).astype(np.int32)


@pytest.mark.parametrize("across_lines", [False, True])
@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("events", [0, 1, 2, 4, 150])
def test_counts_equal_a_loop_over_pairs_of_positions(events, window, across_lines):
    ids = random_text(events)
    found = cooccurrence.count(ids, N_W, window, None if across_lines else EOS)
    np.testing.assert_allclose(found.toarray(), by_loop(ids, window, across_lines), rtol=1e-12)


@pytest.mark.parametrize("chunk", [1, 7, 40, 299])
def test_counts_do_not_depend_on_how_the_text_is_cut(chunk, monkeypatch):
    ids = random_text(120)
    monkeypatch.setattr(cooccurrence, "CHUNK", chunk)
    for eos, across_lines in ((EOS, False), (None, True)):
        found = cooccurrence.count(ids, N_W, 5, eos)
        np.testing.assert_allclose(found.toarray(), by_loop(ids, 5, across_lines), rtol=1e-12)


def test_counts_are_symmetric_without_zeros_and_in_order():
    found = cooccurrence.count(random_text(60, seed=4), 9, 2, EOS)
    np.testing.assert_array_equal(found.toarray(), found.toarray().T)
    assert found.shape == (9, 9)
    assert np.all(found.data > 0)
    assert all(
        np.all(np.diff(found.indices[a:b]) > 0) for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)
    )
