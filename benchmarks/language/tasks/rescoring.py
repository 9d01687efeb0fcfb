"""Rescoring of n-best lists of a speech recogniser by several language models: rows, and claims."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.comparisons import Comparisons
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import Claim, Comparison, Scores
from benchmarks.data import task_sets
from benchmarks.language.scales import SCALES, LanguageScale
from benchmarks.language.store import Spec
from benchmarks.language.tables import kn
from benchmarks.language.tasks.store import FRESH, NOISE, PLANTED, SAMPLED, Novels, SentenceStore, TaskScale
from jaxlm.tasks import rescoring
from jaxlm.tasks.rescoring import Features

# the model's and the recogniser's are fitted between 0 and 3 times these, that of words up to as much
BOTH = Features(acoustic=1.0, model=8.0, words=0.0, recogniser=8.0)
FIRST, ACOUSTIC, LM8, ORACLE = "first hypothesis", "acoustic score alone", "recogniser's model × 8", "oracle"
RECOGNISER, ALL = "recogniser's model, fitted", "mixture of all"
SPOKEN = {"spoken": True}
_TINY = SCALES["tiny"]
_SMALL = {"batch_size": 500, "rate": {"*": 0.02}, "decay": {"*": 0.2, "b": 0.0}, "epochs": 6}

TASK_SCALES = {
    scale.name: scale
    for scale in (
        TaskScale(
            "tiny", "planted lists, for the tests: seconds", PLANTED, _TINY.dimensions, seeds=1, events=3000,
            epochs=2, window=0.01, tuned=_TINY.tuned,
        ),
        TaskScale(
            "smoke", "300,000 words of speech in novels: minutes on two cores", "holmes", (10, 20, 30, 40),
            novels=Novels((300_000, 20_000, 20_000), 2), tuned={"lbl": _SMALL},
        ),
        TaskScale(
            "cpu", "1.6 million words of speech in novels: hours on two cores", "holmes", (25, 50, 75, 100),
            novels=Novels((1_600_000, 50_000, 50_000), 2),
        ),
        TaskScale(
            "full", "4 million words of speech in novels: for a GPU", "holmes", (25, 50, 75, 100),
            novels=Novels((4_000_000, 100_000, 100_000), 2),
        ),
    )
}  # fmt: skip


class RescoringStore(SentenceStore):
    """Language models of conversation in novels, and n-best lists."""

    task_name = "nbest-switchboard"
    resampled = "utterances"
    planted = staticmethod(task_sets.planted_lists)
    reading = SPOKEN
    chapters = "rescoring"
    scales = TASK_SCALES

    @cached_property
    def _index(self) -> dict[tuple[str, ...], int]:
        """The place of each hypothesis among the sentences, of which there is one for equal ones."""
        return {words: i for i, words in enumerate(dict.fromkeys(tuple(w) for one in self.task.words for w in one))}

    def sentences(self) -> list[list[str]]:
        """Return all hypotheses, equal ones once."""
        return [list(words) for words in self._index]

    @cached_property
    def errors(self) -> list[NDArray[np.int64]]:
        """Word errors of each list's hypotheses."""
        return [rescoring.word_errors(*pair) for pair in zip(self.task.words, self.task.references, strict=True)]

    def tables(self, events: NDArray[np.float64] | None) -> list[NDArray[np.float64]]:
        """Return the features of each list.

        Args:
            events: nats of a model, None for none.
        """
        log10 = np.zeros(len(self._index)) if events is None else self.log10(events)
        return [
            rescoring.features(one, log10[[self._index[tuple(w)] for w in words]])
            for one, words in zip(self.task.hypotheses, self.task.words, strict=True)
        ]

    def judged(self, chosen: Sequence[int], seeded: bool = False) -> Scores:
        """Return the word errors of the hypotheses that are chosen, list by list: the figure is their number."""
        lengths = [len(reference) for reference in self.task.references]
        errors, words = rescoring.outcome(self.errors, lengths, chosen)
        total = float(words.sum())
        return Scores(errors.astype(float), words.astype(float), lambda rate: rate * total, seeded)

    def fitted(self, events: NDArray[np.float64] | None, most: Features, seeded: bool) -> Scores:
        """Choose from each list with the weights that have fewest errors on all others."""
        chosen, _ = rescoring.leave_one_out(self.tables(events), self.errors, rescoring.grid(most))
        return self.judged(chosen.tolist(), seeded)


def _weighted(weights: Features, store: RescoringStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Choose without a model, with weights that are given."""
    return {"errors": store.judged([int(rescoring.choose(table, [weights])[0]) for table in store.tables(None)])}


def _first(store: RescoringStore, specs: tuple[Spec, ...], part: str) -> Measured:
    return {"errors": store.judged([rescoring.first(one) for one in store.task.hypotheses])}


def _oracle(store: RescoringStore, specs: tuple[Spec, ...], part: str) -> Measured:
    return {"errors": store.judged([int(errors.argmin()) for errors in store.errors])}


def _recogniser(store: RescoringStore, specs: tuple[Spec, ...], part: str) -> Measured:
    return {"errors": store.fitted(None, BOTH._replace(model=0.0), False)}


def _models(store: RescoringStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Rescore by a model, or by a mixture of several, with the recogniser's model and without it."""
    seeded_ = any(not spec.counted for spec in specs)
    events = store.event_log_probs(specs[0]) if len(specs) == 1 else store.mixed(specs)
    return {
        "errors": store.fitted(events, BOTH, seeded_),
        "alone": store.fitted(events, BOTH._replace(recogniser=0.0), seeded_),
    }


def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the rows: of no model of ours, of each, of all."""
    models = {
        "KN5": kn(5),
        "class 5-gram": Spec("class-ngram", config=(("order", 5),)),
        "cache": Spec("cache"),
        "LBL": Spec("lbl", config=(FRESH,) if scale.name == "tiny" else (*SAMPLED, FRESH)),
    }
    given: dict[str, Callable[..., Measured]] = {
        FIRST: _first,
        ACOUSTIC: partial(_weighted, Features(1.0, 0.0, 0.0, 0.0)),
        LM8: partial(_weighted, Features(1.0, 0.0, 0.0, 8.0)),
        ORACLE: _oracle,
        RECOGNISER: _recogniser,
    }
    drawn = {name: seeded(1 if spec.counted else seeds or scale.seeds, spec) for name, spec in models.items()}
    drawn[ALL] = seeded(seeds or scale.seeds, *models.values())
    return [
        *(Row((name,), ((),), {}, measure) for name, measure in given.items()),
        *(Row((name,), draws, {}, _models) for name, draws in drawn.items()),
    ]


def claims(store: RescoringStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return what a language model is expected to do for a recogniser."""
    found = Comparisons(store, rows, part)
    models = [name for name, row in found.rows.items() if row.measure is _models]

    def pair(one: str, other: str, columns: tuple[str, str] = ("errors", "errors")) -> Comparison:
        return found.compare(f"{one} and {other}", list(zip((one, other), columns, strict=True)))

    claim = partial(Claim, "our target")
    return [
        claim("every model, with the recogniser's own, has fewer errors than the first hypothesis",
              [pair(name, FIRST) for name in models]),
        claim("every model has fewer errors with the recogniser's own than without it",
              [pair(name, name, ("errors", "alone")) for name in models]),
        claim("every model, with the recogniser's own, has fewer errors than the recogniser's own alone",
              [pair(name, RECOGNISER) for name in models]),
        claim("without the recogniser's own, the mixture of all has fewer errors than each model",
              [pair(ALL, name, ("alone", "alone")) for name in models if name != ALL]),
    ]  # fmt: skip


TABLE = Table(
    RescoringStore, "nbest-switchboard", "", "N-best lists rescored by language models: word errors", ("model",),
    (Column("errors", "word errors", 0), Column("alone", "without the recogniser's model", 0)), rows,
    "Errors are substitutions, deletions and insertions, without noises. Weights of models and of the number of words "
    "are fitted to all other lists; ± is of lists. The last rows are of language models of what is spoken in novels, "
    "beside the recogniser's own and in its place; the mixture's proportions are of their validation text. The LBL is "
    f"trained on sentences by themselves, as hypotheses are, by importance sampling with {NOISE} words that a "
    "minibatch shares. It is a small set, of conversations by telephone, and no text here is like them. SRILM's test "
    "suite has 210 errors by weights that are given, and 197 by weights fitted to these lists themselves, "
    "pronunciation scores among them.",
    claims,
)  # fmt: skip
