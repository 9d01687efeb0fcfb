"""Differences of predictions, and what of a text the training text has: against loops."""

import math

import numpy as np
import pytest

from jaxlm.tasks.differences import decades, longest_seen, most_in_favour

EOS, NUM_WORDS = 0, 5


def _text(seed: int, lines: int) -> np.ndarray:
    """Draw lines of one to six words of four."""
    rng = np.random.default_rng(seed)
    return np.concatenate([[*rng.integers(1, NUM_WORDS, rng.integers(1, 7)), EOS] for _ in range(lines)]).astype(
        np.int32
    )


def test_probabilities_of_each_order_of_magnitude() -> None:
    p = [1.0, 0.5, 0.11, 0.099, 0.011, 0.009, 2e-4, 2e-5, 2e-6, 2e-7, 9e-8, 1e-30]
    assert decades(np.log(p)).tolist() == [0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 7]
    assert decades([-math.inf, 1e-9]).tolist() == [7, 0], "no probability, and 1 with a rounding error"
    assert decades(np.log(p), 3).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2]


def test_bins_of_probabilities_equal_comparisons_with_powers_of_ten() -> None:
    log_probs = -np.random.default_rng(0).exponential(7.0, 2000)
    bins = decades(log_probs)
    for number in range(8):
        p = np.exp(log_probs[bins == number])
        assert len(p), "every bin is tried"
        assert (p <= 10.0**-number * (1 + 1e-12)).all()
        if number < 7:
            assert (p > 10.0 ** -(number + 1) * (1 - 1e-12)).all()


def test_events_on_which_a_model_is_most_ahead() -> None:
    first, second = np.log([[0.5, 0.1, 0.2, 0.01], [0.1, 0.4, 0.2, 0.001]])
    assert most_in_favour(first, second, 2).tolist() == [3, 0]  # 10 and 5 times
    assert most_in_favour(second, first, 4).tolist() == [1, 2, 0, 3]
    assert most_in_favour(first, second, 9).tolist() == [3, 0, 2, 1], "of all there are"


def _on_lines(ids: np.ndarray) -> list[list[str]]:
    """Return each event with all that is before it on its line, and the line's beginning."""
    found, line = [], ["<s>"]
    for word in ids.tolist():
        line = [*line, str(word)]
        found.append(line)
        if word == EOS:
            line = ["<s>"]
    return found


@pytest.mark.parametrize("longest", [1, 2, 4, 6])
def test_longest_seen_equals_a_search_in_the_training_text(longest: int) -> None:
    train, test = _text(2, 12), _text(3, 30)
    pieces = {tuple(line[i:]) for line in _on_lines(train) for i in range(len(line))}
    expected = []
    for line in _on_lines(test):
        seen = 1
        while seen < min(longest, len(line)) and tuple(line[-seen - 1 :]) in pieces:
            seen += 1
        expected.append(seen)
    found = longest_seen(train, test, NUM_WORDS, EOS, longest)
    assert found.tolist() == expected
    assert set(expected) >= set(range(1, min(longest, 4) + 1)), "the lengths differ"


def test_all_of_the_training_text_is_seen() -> None:
    train = _text(4, 20)
    depth = [len(line) for line in _on_lines(train)]
    assert longest_seen(train, train, NUM_WORDS, EOS, 4).tolist() == [min(4, d) for d in depth]
