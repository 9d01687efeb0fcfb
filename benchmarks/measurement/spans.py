"""Spans of time, which may overlap, as (begin, end) in seconds."""

from collections.abc import Sequence

Spans = Sequence[tuple[float, float]]


def covered(spans: Spans, begin: float = float("-inf"), end: float = float("inf")) -> float:
    """Sum the seconds between `begin` and `end` that spans cover: once where one lies within another."""
    total = 0.0
    for first, last in sorted(spans):
        last = min(last, end)
        total += max(0.0, last - max(first, begin))
        begin = max(begin, last)
    return total
