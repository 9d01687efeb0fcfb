"""Bins of words of about equal mass, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from jaxlm.tasks.frequency import equal_mass_bins, previous_words


def test_bins_of_a_text_counted_by_hand() -> None:
    counts = [6, 4, 2, 1, 2, 1, 4]  # 20 in all, 5 in each of 4 bins
    # words and their middles, of equal counts in the order of ids: 3: 0.5, 5: 1.5, 2: 3, 4: 5, 1: 8, 6: 12, 0: 17
    assert equal_mass_bins(counts, 4).tolist() == [3, 1, 0, 0, 1, 0, 2]


@pytest.mark.parametrize("num_bins", [1, 3, 10])
def test_bins_equal_exact_fractions(num_bins: int) -> None:
    counts = np.random.default_rng(num_bins).zipf(1.3, 300) % 5000
    total, before, expected = int(counts.sum()), 0, {}
    for word in sorted(range(300), key=lambda word: (counts[word], word)):
        count = int(counts[word])
        expected[word] = int((before + Fraction(count, 2)) / total * num_bins)
        before += count
    bins = equal_mass_bins(counts, num_bins)
    assert bins.tolist() == [expected[word] for word in range(300)]
    mass = np.bincount(bins, counts, num_bins)
    largest = counts.max()
    ends = np.cumsum(mass)
    for number, end in enumerate(ends[:-1], 1):
        assert abs(end - total * number / num_bins) <= largest / 2, "limits are off by half a word at most"


def test_a_word_of_most_of_the_text_leaves_bins_empty() -> None:
    assert equal_mass_bins([1, 1, 98], 10).tolist() == [0, 0, 5]


def test_as_many_words_as_bins_have_one_each() -> None:
    assert equal_mass_bins([7] * 10, 10).tolist() == list(range(10))
    assert equal_mass_bins([0, 0, 7, 7], 2).tolist() == [0, 0, 0, 1], "words that do not occur are the rarest"


def test_the_last_context_word_of_the_first_event_is_a_line_end() -> None:
    ids = np.array([4, 5, 0, 6, 0], np.int32)
    assert previous_words(ids, 0).tolist() == [0, 4, 5, 0, 6]
    assert previous_words(ids, 9).tolist() == [9, 4, 5, 0, 6]
    assert previous_words(ids, 0).dtype == np.int32
