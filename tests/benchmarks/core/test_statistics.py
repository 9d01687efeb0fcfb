"""Summaries of repeated measurements."""

import numpy as np
import pytest

from benchmarks.core import statistics


def test_quartiles_come_with_all_samples() -> None:
    samples = [3.0, 1.0, 2.0, 5.0, 4.0]
    assert statistics.quartiles(samples) == {"median": 3.0, "quartiles": [2.0, 4.0], "samples": samples}
    assert statistics.quartiles([1.0, 2.0])["quartiles"] == [1.25, 1.75]
    assert statistics.quartiles([1.0, np.inf, np.inf]) == {
        "median": None, "quartiles": [None, None], "samples": [1.0, None, None],
    }  # fmt: skip


def test_holm_corrects_for_the_number_of_comparisons() -> None:
    """Against the worked example of Holm's method: each p by the number of those not below it, and never falling."""
    np.testing.assert_allclose(statistics.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.9, 0.8]) == [1.0, 1.0]
    assert statistics.holm([]) == []


def test_a_cell_over_rounds_shows_their_median_and_keeps_all() -> None:
    cell = statistics.over_rounds([1.0, 2.0, 9.0])
    assert (cell["mean"], cell["values"], cell["over"]) == (2.0, [1.0, 2.0, 9.0], "rounds")
    assert cell["sd"] == pytest.approx(np.std([1, 2, 9], ddof=1))
