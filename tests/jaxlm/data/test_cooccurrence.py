"""Counts of pairs within a window, against a loop over all positions."""

import numpy as np
import pytest

from jaxfit.files.large_arrays import stored_in
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


def counted(ids, num_words, window, eos):
    """Return the matrix X of the counts, which are in order, of each pair once, and above zero."""
    found = [np.concatenate(parts) for parts in zip(*cooccurrence.count(ids, num_words, window, eos), strict=True)]
    X = np.zeros((num_words, num_words))
    if found:
        i, j, count = found
        assert (i.dtype, j.dtype) == (np.int32, np.int32)
        assert np.all(np.diff(i.astype(np.int64) * num_words + j) > 0)
        assert np.all(i <= j)
        assert np.all(count > 0)
        X[i, j] = X[j, i] = count
    return X


def random_text(events, seed=0):
    return np.random.default_rng(seed).integers(0, N_W, events).astype(np.int32)


@pytest.mark.parametrize("across_lines", [False, True])
@pytest.mark.parametrize("window", [1, 3, 10])
@pytest.mark.parametrize("events", [0, 1, 2, 4, 150])
def test_counts_equal_a_loop_over_pairs_of_positions(events, window, across_lines):
    ids = random_text(events)
    found = counted(ids, N_W, window, None if across_lines else EOS)
    np.testing.assert_allclose(found, by_loop(ids, window, across_lines), rtol=1e-12)


@pytest.mark.parametrize(("chunk", "largest", "piece"), [(1, 100, 1), (7, 100, 5), (40, 1, 100), (299, 3, 4)])
@pytest.mark.parametrize("in_files", [False, True])
def test_counts_do_not_depend_on_how_the_text_is_cut_and_where_they_are(
    tmp_path, monkeypatch, chunk, largest, piece, in_files
):
    ids = random_text(120)
    monkeypatch.setattr(cooccurrence, "CHUNK", chunk)
    monkeypatch.setattr(cooccurrence, "LARGEST", largest)
    monkeypatch.setattr(cooccurrence, "PIECE", piece)
    with stored_in(tmp_path if in_files else None, 0):
        for eos, across_lines in ((EOS, False), (None, True)):
            found = counted(ids, N_W, 5, eos)
            np.testing.assert_allclose(found, by_loop(ids, 5, across_lines), rtol=1e-12)
