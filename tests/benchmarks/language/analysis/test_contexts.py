"""Which contexts Tables 3.7 to 3.9 take: the rule by loops, on a text of which much is in the training text."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.language import scales
from benchmarks.language.analysis import contexts
from benchmarks.language.store import LanguageStore, Spec
from jaxfit.errors import UserError
from jaxlm.data.vocabulary import UNK, Vocabulary

NEURAL, NGRAM = Spec("lbl"), Spec("kn", config=(("order", 5),))
WORDS = Vocabulary(("<eos>", UNK, *(f"w{i}" for i in range(20))))


def _lines(seed: int, number: int) -> np.ndarray:
    """Draw lines of four to nine words, some of them unknown."""
    rng = np.random.default_rng(seed)
    return np.concatenate([[*rng.integers(1, 22, rng.integers(4, 10)), 0] for _ in range(number)]).astype(np.int32)


def _store(train: np.ndarray, test: np.ndarray) -> LanguageStore:
    tiny = scales.SCALES["tiny"]
    corpus = scales.text("planted", tiny)._replace(train=train, test=test, vocabulary=WORDS)
    rng = np.random.default_rng(len(test))
    predictions = {spec: np.log(rng.uniform(1e-4, 0.5, len(test))) for spec in (NEURAL, NGRAM)}
    known = contexts.differences.longest_seen(train, test, len(WORDS), 0, 6)
    predictions[NGRAM][(known == 6) | (np.roll(known, 1) >= 5)] = np.log(0.9)  # sure of what it has seen

    class Store(LanguageStore):
        def get(self, spec: Spec) -> SimpleNamespace:
            return SimpleNamespace(predictions=lambda part: predictions[spec])

    return Store(corpus, tiny, "tuned", Path("never-written"))


@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.75, 1.0])
def test_the_chosen_context_is_new_and_on_one_line(quantile: float) -> None:
    train = _lines(0, 200)
    copied, rng = train[:600].copy(), np.random.default_rng(3)
    changed = (copied != 0) & (rng.random(600) < 0.1)
    copied[changed] = rng.integers(2, 22, changed.sum())
    store = _store(train, np.concatenate([copied, _lines(1, 200)]))
    test = store.corpus.test
    neural, ngram = (store.get(spec).predictions("test") for spec in (NEURAL, NGRAM))
    known = {tuple(train[i : i + 5]) for i in range(len(train))}
    found = []
    for event in range(5, len(test)):
        context = test[event - 5 : event]
        if 0 not in context and test[event] not in (0, 1) and tuple(context) not in known:
            found.append(event)
    least = np.quantile([ngram[event] for event in found], 1 - contexts.SURE)
    order = sorted((event for event in found if ngram[event] >= least), key=lambda event: neural[event])
    assert len(order) > 5
    assert contexts.chosen(store, (NEURAL, NGRAM), quantile) == order[int(quantile * (len(order) - 1))]


def test_a_test_without_new_contexts_is_one_line() -> None:
    train = _lines(2, 50)
    with pytest.raises(UserError, match="no new context"):
        contexts.chosen(_store(train, train), (NEURAL, NGRAM), 0.5)
