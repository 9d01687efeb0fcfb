"""Spans of time."""

import pytest

from benchmarks.measurement.spans import covered


def test_spans_that_overlap_count_once():
    assert covered([], 1.0, 9.0) == 0.0
    assert covered([(2.0, 4.0), (3.0, 5.0)]) == pytest.approx(3.0)
    assert covered([(2.0, 4.0), (3.0, 5.0), (2.5, 3.0), (7.0, 8.0)], 1.0, 9.0) == pytest.approx(4.0)
    assert covered([(0.0, 2.0)], 1.0, 9.0) == pytest.approx(1.0)
    assert covered([(0.0, 2.0), (3.0, 9.0)], 1.0, 4.0) == pytest.approx(2.0)
    assert covered([(5.0, 6.0)], 1.0, 4.0) == 0.0
