"""Spans of time."""

import pytest

from benchmarks.measurement.spans import covered, divided


def test_spans_that_overlap_count_once():
    assert covered([], 1.0, 9.0) == 0.0
    assert covered([(2.0, 4.0), (3.0, 5.0)]) == pytest.approx(3.0)
    assert covered([(2.0, 4.0), (3.0, 5.0), (2.5, 3.0), (7.0, 8.0)], 1.0, 9.0) == pytest.approx(4.0)
    assert covered([(0.0, 2.0)], 1.0, 9.0) == pytest.approx(1.0)
    assert covered([(0.0, 2.0), (3.0, 9.0)], 1.0, 4.0) == pytest.approx(2.0)
    assert covered([(5.0, 6.0)], 1.0, 4.0) == 0.0


def test_time_that_names_share_is_divided_among_them():
    spans = {"a": [(0.0, 4.0), (1.0, 3.0)], "b": [(2.0, 6.0)], "c": [(5.0, 6.0), (8.0, 9.0)], "d": [(7.0, 7.0)]}
    assert divided(spans) == pytest.approx({"a": 3.0, "b": 2.5, "c": 1.5, "d": 0.0})
    assert sum(divided(spans).values()) == pytest.approx(covered([span for each in spans.values() for span in each]))
    assert divided({}) == {}
