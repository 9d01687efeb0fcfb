"""The hierarchical model's speed by vocabulary and by code length: what is compared with what."""

import numpy as np
import pytest

from benchmarks.measurement import limits
from benchmarks.speed import hlbl


def test_all_sizes_are_measured_in_the_same_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of made-up rates: a third of the bare loop's at 10 words, a quarter at 40."""
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)
    monkeypatch.setattr(hlbl, "WORDS", 30)
    monkeypatch.setattr(hlbl, "EVENTS", 500)
    monkeypatch.setattr(hlbl, "GROWING", (10, 40))
    monkeypatch.setattr(hlbl, "DEPTH", 6)
    monkeypatch.setattr(hlbl, "training", lambda tree, corpus: (lambda: 0.0, {hlbl.DECISIONS: len(tree.children)}))
    monkeypatch.setattr(hlbl, "bare_loop", lambda tree, ids: lambda: 0.0)
    monkeypatch.setattr(hlbl.plain_steps, "our_steps", lambda *given: lambda: 0.0)
    rates = {
        "LBL": 10.0, "HLBL, T1": 100.0, "HLBL, codes of 6": 80.0, "HLBL, T7": 40.0,
        "HLBL, 10 words": 100.0, "bare loop, 10 words": 300.0, "HLBL, 40 words": 50.0, "bare loop, 40 words": 200.0,
        **dict.fromkeys(limits.ABOUT, 1.0),
    }  # fmt: skip

    def interleaved(measures):
        assert measures.keys() == rates.keys()
        return {name: [rate, 2 * rate] for name, rate in rates.items()}

    monkeypatch.setattr(hlbl, "interleaved", interleaved)
    found = hlbl.measure()
    codes, words, device = found["tables"].values()
    assert device.keys() == limits.ABOUT.keys()
    assert [found["tables"][found["limits"][title]] for title in list(found["tables"])[:2]] == [device, device]
    assert codes["HLBL, T7"]["times LBL"]["samples"] == [4.0, 4.0]
    assert words["HLBL, 40 words"]["bare loop / this"]["samples"] == [4.0, 4.0]
    growth = words["HLBL, 40 words"]["that, relative to 10 words"]["samples"]
    assert growth == pytest.approx([4 / 3, 4 / 3])
    by_words, by_code = found["curves"].values()
    assert by_words["lines"] == {"HLBL": [[10, 150], [40, 75]], "bare loop": [[10, 450], [40, 300]]}
    ((name, line),) = by_code["lines"].items()
    assert name == "HLBL, 30 words"
    assert [rate for _, rate in line] == [150, 120, 60]


def test_codes_are_as_long_as_asked_for() -> None:
    counts = np.arange(1, 201)[::-1]
    tree = hlbl.tree_of_mean_depth(9, counts)
    assert hlbl.statistics(tree, counts).mean_code_length == pytest.approx(9, abs=0.3)
