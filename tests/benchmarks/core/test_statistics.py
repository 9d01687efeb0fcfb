"""Summaries of repeated measurements."""

from benchmarks.core.statistics import quartiles


def test_quartiles_come_with_all_samples() -> None:
    samples = [3.0, 1.0, 2.0, 5.0, 4.0]
    assert quartiles(samples) == {"median": 3.0, "quartiles": [2.0, 4.0], "samples": samples}
    assert quartiles([1.0, 2.0])["quartiles"] == [1.25, 1.75]
