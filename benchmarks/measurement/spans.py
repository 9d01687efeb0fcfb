"""Spans of time, which may overlap, as (begin, end) in seconds."""

from collections import Counter
from collections.abc import Mapping, Sequence

Spans = Sequence[tuple[float, float]]


def covered(spans: Spans, begin: float = float("-inf"), end: float = float("inf")) -> float:
    """Sum the seconds between `begin` and `end` that spans cover, each once where spans overlap."""
    total = 0.0
    for first, last in sorted(spans):
        last = min(last, end)
        total += max(0.0, last - max(first, begin))
        begin = max(begin, last)
    return total


def divided(spans: Mapping[str, Spans]) -> dict[str, float]:
    """Divide the seconds that spans cover among their names; time that several names share is divided equally.

    The sum is what all spans cover, counted once.
    """
    begins = [(begin, 1, name) for name, each in spans.items() for begin, _ in each]
    ends = [(end, -1, name) for name, each in spans.items() for _, end in each]
    total, before = dict.fromkeys(spans, 0.0), 0.0
    running: Counter[str] = Counter()  # how many spans of a name are open
    for at, change, name in sorted(begins + ends):
        for each in running:
            total[each] += (at - before) / len(running)
        before = at
        running[name] += change
        if not running[name]:
            del running[name]
    return total
