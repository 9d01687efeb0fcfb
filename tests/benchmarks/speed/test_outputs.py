"""The speed of output layers by vocabulary: what is measured, and what is compared with what."""

import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.measurement import limits
from benchmarks.speed import outputs


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    monkeypatch.setattr(outputs, "GROWING", (10, 40))
    monkeypatch.setattr(outputs, "EVENTS", 25_000)


def test_outputs_are_compared_with_the_softmax_of_the_same_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of made-up rates: the softmax' falls with the number of words, those of others do not."""
    rates = {
        f"{output}, {number} words": 1000 / number if output == outputs.SOFTMAX else 50.0
        for output in outputs.OUTPUTS for number in (10, 40)
    }  # fmt: skip
    rates |= dict.fromkeys(limits.ABOUT, 1.0)
    monkeypatch.setattr(outputs, "trainer", lambda *given: given[3])
    monkeypatch.setattr(outputs, "step_rate", lambda made, steps: lambda: 0.0)

    def interleaved(measures):
        assert measures.keys() == rates.keys()
        return {name: [rate, 2 * rate] for name, rate in rates.items()}

    monkeypatch.setattr(outputs, "interleaved", interleaved)
    found = outputs.measure()
    assert found["tables"]["NCE"]["40 words"]["times softmax"]["samples"] == [2, 2]
    assert found["tables"]["NCE"]["40 words"]["of that of 10 words"]["samples"] == [1, 1]
    assert found["tables"]["softmax"]["40 words"]["of that of 10 words"]["samples"] == [0.25, 0.25]
    (curve,) = found["curves"].values()
    assert curve["lines"]["softmax"] == [[10, 150], [40, 37.5]]
    assert curve["lines"]["tree"] == [[10, 75], [40, 75]]


@pytest.mark.extended
def test_every_output_takes_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def interleaved(measures):
        return {name: [rate(), rate()] for name, rate in measures.items()}

    monkeypatch.setattr(outputs, "interleaved", interleaved)
    monkeypatch.setattr(outputs, "GROWING", (40,))
    tables = outputs.measure()["tables"]
    for output in outputs.OUTPUTS:
        for row in tables[output].values():
            assert np.all(np.array(row[outputs.RATE]["samples"]) > 0)
