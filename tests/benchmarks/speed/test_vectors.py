"""The speed benchmark of word vectors: whole epochs, in turn with gensim's."""

import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.language.scales import speed_text
from benchmarks.measurement import limits
from benchmarks.speed import vectors


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 2)
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    for name, size in {"MATRIX": 64, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)


@pytest.mark.peer
def test_epochs_are_timed_in_turn():
    pytest.importorskip("gensim")
    table = vectors.measure("cbow", peers=True, events=3000, num_words=50)["tables"][vectors.TITLE]
    assert list(table) == [vectors.OURS, vectors.THEIRS]
    ours, theirs = (np.array(table[name]["words/s"]["samples"]) for name in table)
    np.testing.assert_allclose(table[vectors.THEIRS]["jaxlm / this"]["samples"], ours / theirs)


def test_an_epoch_is_of_all_words_of_the_text(monkeypatch):
    """Words per second are of the text, whatever subsampling leaves out."""
    monkeypatch.setattr(vectors, "pass_seconds", lambda trainer, number: (2.0, 0.5))
    assert vectors.our_epochs("skipgram", speed_text(50, 3000), 1000)() == 500
