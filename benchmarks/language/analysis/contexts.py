"""Tables 3.5 to 3.9: contexts on which two models differ most, and the next words that they predict."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

import jaxlm
from benchmarks.core.table import Measured
from benchmarks.language.store import LanguageStore, Spec
from jaxfit.errors import UserError
from jaxlm.context_model import examples
from jaxlm.tasks import differences

CONTEXT = 5  # words
SURE = 0.05  # share of the contexts in question whose next word counts as unambiguous
CHOICE = (
    f"The context is {CONTEXT} words of a line of the test, before a word other than `<unk>` and a line end. "
    f"Of the contexts that the training text does not have, take the {100 * SURE:g} % whose next word has the highest "
    "probability under the n-gram model, and sort them by its probability under the neural model"
)


@lru_cache(maxsize=4)
def seen(store: LanguageStore, part: str) -> np.ndarray:
    """Return the length, up to 6, of the longest sequence of the training text that ends at each event: [events]."""
    corpus = store.corpus
    vocabulary = corpus.vocabulary
    text = getattr(corpus, part)
    return differences.longest_seen(corpus.train, text, len(vocabulary), vocabulary.eos, CONTEXT + 1)


def mean_log_probs(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean log-probabilities of two models over seeds, float64 [events].

    Args:
        specs: one model's, then the other's.
    """
    first, second = np.split(np.array([store.get(spec).predictions(part) for spec in specs]), 2)
    return first.mean(axis=0), second.mean(axis=0)


def difference(rank: int, first_is_better: bool, store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the event of the test on which two models differ more than on all but `rank` others.

    Args:
        rank: from 0.
        first_is_better: whether to take events on which the first model gives the next word the higher probability.
        store: of the models.
        specs: one model with all seeds, then the other with as many.

    Returns:
        `ratio` of the probabilities, first over second; the probabilities, `first` and `second`; `seen`, as in the
        function `seen`; the `context` and the next `word`. Empty if the test has no event of this rank.
    """
    corpus = store.corpus
    first, second = mean_log_probs(store, specs, "test")
    better, worse = (first, second) if first_is_better else (second, first)
    found = differences.most_in_favour(better, worse, rank + 1)
    if len(found) <= rank:
        return {}
    event, words = found[rank], corpus.vocabulary.words
    before = examples(corpus.test, CONTEXT, corpus.vocabulary.eos)[0][event].tolist()
    return {
        "ratio": float(np.exp(first[event] - second[event])),
        "first": float(np.exp(first[event])),
        "second": float(np.exp(second[event])),
        "seen": float(seen(store, "test")[event]),
        "context": " ".join(words[i] for i in before),
        "word": words[corpus.test[event]],
    }


@lru_cache(maxsize=4)
def chosen(store: LanguageStore, specs: tuple[Spec, Spec], quantile: float) -> int:
    """Choose a context by the rule CHOICE, and return the position of its next word in the test.

    Args:
        store: of the models.
        specs: the neural model and the n-gram model.
        quantile: of the contexts, sorted by the neural model's probability of the next word; 0: the lowest.

    Raises:
        UserError: the test has no such context.
    """
    corpus, vocabulary = store.corpus, store.corpus.vocabulary
    context = np.asarray(examples(corpus.test, CONTEXT, vocabulary.eos)[0])
    whole = ~np.any(context == vocabulary.eos, axis=1)
    word = (corpus.test != vocabulary.eos) & (corpus.test != (-1 if vocabulary.unk is None else vocabulary.unk))
    new = np.concatenate([[False], seen(store, "test")[:-1] < CONTEXT])  # sequences that end before the event
    found = np.flatnonzero(whole & word & new)
    if not len(found):
        raise UserError(f"the test has no new context of {CONTEXT} words", store.name, "choose a larger --scale")
    first, second = (store.get(spec).predictions("test")[found] for spec in specs)
    sure = np.flatnonzero(second >= np.quantile(second, 1 - SURE))
    order = sure[np.argsort(first[sure], kind="stable")]
    return int(found[order[int(quantile * (len(order) - 1))]])


@lru_cache(maxsize=8)
def _distribution(store: LanguageStore, spec: Spec, context: tuple[str, ...]) -> np.ndarray:
    return jaxlm.load(store.get(spec).directory).log_prob(context)


def context_row(quantile: float, store: LanguageStore, specs: tuple[Spec, Spec], part: str) -> Measured:
    """Return the chosen context, in the column of the first model's words."""
    return {"first_word": " ".join(_words_before(store, chosen(store, specs, quantile)))}


def true_row(quantile: float, store: LanguageStore, specs: tuple[Spec, Spec], part: str) -> Measured:
    """Return the word that follows in the test, and its probability under each model."""
    event = chosen(store, specs, quantile)
    word = int(store.corpus.test[event])
    return _columns(store, specs, event, lambda log_p: word)


def next_word_row(rank: int, quantile: float, store: LanguageStore, specs: tuple[Spec, Spec], part: str) -> Measured:
    """Return the word of this rank, from 0, by each model's probabilities after the chosen context."""
    event = chosen(store, specs, quantile)
    return _columns(store, specs, event, lambda log_p: int(np.argsort(-log_p, kind="stable")[rank]))


def _columns(
    store: LanguageStore, specs: tuple[Spec, Spec], event: int, choose: Callable[[np.ndarray], int]
) -> Measured:
    """Return the columns of a row: for each model, a word chosen from its distribution, and the word's probability."""
    measured: dict[str, float | str] = {}
    for which, spec in zip(("first", "second"), specs, strict=True):
        log_p = _distribution(store, spec, _words_before(store, event))
        word = choose(log_p)
        measured[f"{which}_word"] = store.corpus.vocabulary.words[word]
        measured[which] = float(np.exp(log_p[word]))
    return measured


def _words_before(store: LanguageStore, event: int) -> tuple[str, ...]:
    return tuple(store.corpus.vocabulary.words[i] for i in store.corpus.test[event - CONTEXT : event])
