"""Claims about predictions, vectors and trees: of the thesis' own figures, and of planted predictions."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.core.verdict import Scores, judge, verdicts
from benchmarks.language import scales
from benchmarks.language.analysis import claims, clusters, codes, contexts, frequency
from benchmarks.language.analysis.tables import TABLES
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.data.vocabulary import Vocabulary

TINY = scales.SCALES["tiny"]
BY_FREQUENCY = ("table-3.3", "table-3.4", "table-4.10", "table-4.11", "table-4.12")
OF_PREDICTIONS = (*BY_FREQUENCY, "figure-3.2", "table-3.6")
LogProbs = Callable[[LanguageStore, Spec, str], np.ndarray]  # of a model, the events of a part


@pytest.mark.parametrize("name", BY_FREQUENCY)
def test_claims_hold_of_the_thesis_own_figures(name: str) -> None:
    def published(row):
        """Return the row, with the thesis' figures as what is measured, without noise."""
        scores = {
            column: Scores(np.full(50, figure), np.ones(50), np.positive) for column, figure in row.thesis.items()
        }
        return dataclasses.replace(row, measure=lambda store, specs, part: scores)

    store = SimpleNamespace(stepwise=lambda spec: spec.model != "kn")
    table = TABLES[name]
    rows = [published(row) for row in table.rows(scales.SCALES["cpu"], None)]
    for row in rows:
        figures = row.thesis
        assert figures["ratio"] == pytest.approx(figures["first"] / figures["second"], abs=0.01)
        assert figures["log_ratio"] == pytest.approx(np.log(figures["first"] / figures["second"]), abs=0.015)
    found = table.claims(store, rows, "test")
    assert len({claim.text for claim in found}) == len(found) > 1
    for verdict in verdicts(found, found):
        assert verdict["answer"] == "yes", verdict


class Planted(LanguageStore):
    """A store of models that are not trained: of their predictions, a function of model and part is given."""

    def __init__(self, log_probs: LogProbs, readable: tuple[str, ...] = ("valid", "test")) -> None:
        corpus = scales.text("planted", TINY)
        # as many lines as give narrow intervals
        corpus = corpus._replace(valid=np.tile(corpus.valid, 20), test=np.tile(corpus.test, 20))
        super().__init__(corpus, TINY, "tuned", Path("never-written"))
        self.log_probs, self.readable = log_probs, readable

    def get(self, spec: Spec) -> SimpleNamespace:
        return SimpleNamespace(predictions=lambda part: self._of_part(spec, part))

    def _of_part(self, spec: Spec, part: str) -> np.ndarray:
        assert part in self.readable, f"{part} is read"
        events = len(getattr(self.corpus, part))
        noise = np.random.default_rng([events, spec.seed]).normal(0, 0.01, events)
        return self.log_probs(self, spec, part) + noise


def _answers(name: str, log_probs: LogProbs, seeds: int = 3) -> dict[str, str]:
    table, store = TABLES[name], Planted(log_probs)
    rows = table.rows(TINY, seeds)
    on_test, on_valid = (table.claims(store, rows, part) for part in ("test", "valid"))
    return {verdict["claim"]: verdict["answer"] for verdict in verdicts(on_test, on_valid)}


def _by_bin(
    of_words: frequency.Words, is_first: Callable[[Spec], bool], ahead: Callable[[np.ndarray], np.ndarray]
) -> LogProbs:
    """Make predictions of which the first models lead others by so many nats in the bins 1 to 10 of words."""

    def log_probs(store: LanguageStore, spec: Spec, part: str) -> np.ndarray:
        text, counts = getattr(store.corpus, part), store.corpus.word_counts() + 1.0
        bins = 1 + frequency.bins(store)[of_words(text, store.corpus.vocabulary.eos)]
        common = 1.5 * np.log(counts[text] / counts.sum())  # the rarer a word, the less probable under all models
        return common + (ahead(bins) if is_first(spec) else 0.0)

    return log_probs


def _is_lbl(spec: Spec) -> bool:
    return spec.model == "lbl"


def _has_learned_tree(spec: Spec) -> bool:
    return spec.tree is not None and spec.tree[0] == "adaptive"


@pytest.mark.parametrize(("sign", "answer"), [(1, "yes"), (-1, "no")])
def test_the_ends_of_the_frequency_range(sign: int, answer: str) -> None:
    def ahead(bins: np.ndarray) -> np.ndarray:
        return sign * np.where((bins == 1) | (bins >= 6), 0.2, -0.2)

    frequent, *others = _answers("table-3.3", _by_bin(frequency.next_word, _is_lbl, ahead)).values()
    assert frequent == "yes"
    assert others == [answer] * 3


@pytest.mark.parametrize(("sign", "answer"), [(1, "yes"), (-1, "no")])
def test_the_ends_of_the_frequency_range_of_the_last_word(sign: int, answer: str) -> None:
    def ahead(bins: np.ndarray) -> np.ndarray:
        return sign * np.where((bins <= 3) | (bins >= 8), 0.2, -0.2)

    _, *others = _answers("table-3.4", _by_bin(frequency.last_context_word, _is_lbl, ahead)).values()
    assert others == [answer] * 3


@pytest.mark.parametrize(("slope", "answer"), [(0.05, "yes"), (-0.05, "no")])
def test_a_gap_that_shrinks_with_frequency(slope: float, answer: str) -> None:
    log_probs = _by_bin(frequency.next_word, _has_learned_tree, lambda bins: 1.0 - slope * bins)
    better, shrinks = _answers("table-4.11", log_probs).values()
    assert (better, shrinks) == ("yes", answer)


def test_the_rarest_words_are_the_weakest() -> None:
    weak = _by_bin(frequency.next_word, _has_learned_tree, lambda bins: np.where(bins < 3, -0.3 / bins, 0.1))
    assert set(_answers("table-4.10", weak).values()) == {"yes"}
    alike = _by_bin(frequency.next_word, _has_learned_tree, lambda bins: 0.1 + 0.0 * bins)
    better, worse_at_rare, weakest = _answers("table-4.10", alike).values()
    assert (better, worse_at_rare) == ("yes", "no")
    assert weakest in ("unresolved", "no")


def test_tables_of_the_last_context_word_sort_by_it() -> None:
    """Models that differ after rare words, and others that differ at them."""

    def ahead(bins: np.ndarray) -> np.ndarray:
        return np.where(bins == 1, -0.2, 0.2)

    after, at = (
        _answers("table-4.12", _by_bin(words, _has_learned_tree, ahead))
        for words in (frequency.last_context_word, frequency.next_word)
    )
    assert set(after.values()) == {"yes"}
    assert set(at.values()) != {"yes"}


@pytest.mark.parametrize(("part", "other"), [("test", "valid"), ("valid", "test")])
@pytest.mark.parametrize("name", OF_PREDICTIONS)
def test_claims_never_see_the_other_part(name: str, part: str, other: str) -> None:
    def log_probs(store: LanguageStore, spec: Spec, part: str) -> np.ndarray:
        return -np.random.default_rng(spec.seed + len(spec.model)).exponential(4.0, len(getattr(store.corpus, part)))

    table, store = TABLES[name], Planted(log_probs, readable=(part,))
    rows = table.rows(TINY, 3)
    made = table.claims(store, rows, part)
    assert any(claim.comparisons for claim in made)
    for claim in made:
        if claim.comparisons:
            judge(claim)
    with pytest.raises(AssertionError, match=f"{other} is read"):  # the double does raise
        table.claims(store, rows, other)


def test_probabilities_of_all_sizes() -> None:
    def log_probs(sharper: str) -> LogProbs:
        def of(store: LanguageStore, spec: Spec, part: str) -> np.ndarray:
            events = len(getattr(store.corpus, part))
            z = np.random.default_rng(events).normal(0, 1, events)  # of a word, whatever the model
            return np.log(10) * np.minimum(-0.02, -1.7 + (1.3 if spec.model == sharper else 1.0) * 1.4 * z)

        return of

    half, few, best, worst, dominate = _answers("figure-3.2", log_probs("lbl")).values()
    assert (half, best, worst, dominate) == ("yes", "yes", "yes", "yes")
    assert few in ("yes", "no", "unresolved")
    _, _, best, worst, _ = _answers("figure-3.2", log_probs("kn")).values()
    assert (best, worst) == ("no", "no")


@pytest.mark.parametrize(("ahead_where_seen", "answer"), [("kn", "yes"), ("lbl", "no")])
def test_sequences_of_the_training_text(ahead_where_seen: str, answer: str) -> None:
    def log_probs(store: LanguageStore, spec: Spec, part: str) -> np.ndarray:
        seen = contexts.seen(store, part) >= claims.SEQUENCE
        rng = np.random.default_rng(len(seen))
        usual = np.where(rng.random(len(seen)) < 0.9, seen, ~seen)  # with exceptions
        return np.where(usual == (spec.model == ahead_where_seen), -1.0, -5.0)

    (found,) = _answers("table-3.6", log_probs).values()
    assert found == answer


@pytest.mark.parametrize(("rare_have_most", "answer"), [(True, "yes"), (False, "no")])
def test_words_with_most_codes(monkeypatch: pytest.MonkeyPatch, rare_have_most: bool, answer: str) -> None:
    def num_codes(store: LanguageStore, spec: Spec) -> np.ndarray:
        counts = store.corpus.word_counts()
        order = np.argsort(np.argsort(counts if rare_have_most else -counts))
        return 1 + (order < 12).astype(int) * (1 + order % 3)

    monkeypatch.setattr(codes, "num_codes", num_codes)
    table, store = TABLES["word-codes"], Planted(lambda store, spec, part: np.zeros(0))
    (claim,) = table.claims(store, table.rows(TINY, 3), "test")
    assert len(claim.comparisons) == 4, "of each tree"
    assert judge(claim)["answer"] == answer
    assert table.claims(store, table.rows(TINY, 3), "valid") == []
    monkeypatch.setattr(codes, "num_codes", lambda store, spec: np.ones(60, int))
    (claim,) = table.claims(store, table.rows(TINY, 3), "test")
    assert not claim.comparisons, "trees of one code for each word say nothing"


def test_rarity_is_of_the_mean_logarithms_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    store, table = Planted(lambda store, spec, part: np.zeros(0)), TABLES["word-codes"]
    counts = store.corpus.word_counts()
    of_words = np.random.default_rng(0).permutation(len(counts)) // 3  # three words have each number of codes
    monkeypatch.setattr(codes, "num_codes", lambda store, spec: of_words)
    found = codes.rarity(store, table.rows(TINY, 1)[0].specs()[0])
    assert found is not None
    most = set(np.argsort(-of_words, kind="stable")[: len(counts) // 10])
    assert len({of_words[word] for word in most}) == len(most) / 3, "whole groups"
    for scores, own in zip(found, (most, set(range(len(counts))) - most), strict=True):
        assert scores.count.sum() == len(own)
        assert scores.value == pytest.approx(np.mean([np.log(max(1, counts[word])) for word in own]))


@pytest.mark.parametrize(
    ("name", "shares", "answer"),
    [
        ("figure-3.4", (0.2, 0.4), "yes"),
        ("figure-3.4", (0.4, 0.2), "no"),
        ("figure-4.1", (0.41, 0.4), "yes"),
        ("figure-4.1", (0.6, 0.4), "no"),
        ("figure-4.2", (0.2, 0.4), "yes"),
        ("figure-4.2", (0.4, 0.4), "unresolved"),
    ],
)
def test_vectors_that_two_seeds_agree_on(
    monkeypatch: pytest.MonkeyPatch, name: str, shares: tuple[float, float], answer: str
) -> None:
    rng = np.random.default_rng(0)
    table = TABLES[name]
    rows = [
        dataclasses.replace(
            row,
            measure=lambda store, specs, part, share=share: {
                "agreed": Scores(np.clip(rng.normal(share, 0.1, 500), 0, 1), np.ones(500), np.positive)
            },
        )
        for row, share in zip(table.rows(TINY, 6), shares, strict=True)
    ]
    monkeypatch.setattr(clusters, "among_their_kind", lambda store, spec, which, kind: None)
    claim, *others = table.claims(None, rows, "test")
    assert not any(other.comparisons for other in others)
    judged = judge(claim)
    assert judged["answer"] == answer
    assert judged["seeds"] == 3, "of six, pairs that have none in common"
    fewer = [dataclasses.replace(row, draws=row.draws[:3]) for row in rows]
    assert judge(table.claims(None, fewer, "test")[0])["seeds"] == 1
    assert table.claims(None, rows, "valid") == []


@pytest.mark.parametrize(("apart", "answer"), [(0.1, "yes"), (1000.0, "no")])
@pytest.mark.parametrize("name", ["figure-3.3", "figure-4.1"])
def test_words_of_a_kind_lie_together(monkeypatch: pytest.MonkeyPatch, name: str, apart: float, answer: str) -> None:
    """Days lie about one place and months about another, closely or so loosely that they are among all others."""
    store = Planted(lambda store, spec, part: np.zeros(0))
    kinds = [word.capitalize() for kind in clusters.KINDS.values() for word in kind]
    others = [f"w{i:02}" for i in range(80)]
    counts = {**dict.fromkeys([*kinds, *others[:30]], 9), **dict.fromkeys(others[30:], 1), "<eos>": 9}
    words = Vocabulary.from_words([*kinds, *others], counts)
    store.corpus = store.corpus._replace(
        vocabulary=words, train=np.repeat(np.arange(100), [counts[w] for w in words.words])
    )

    def vectors(store: LanguageStore, spec: Spec) -> np.ndarray:
        of_month = np.array([word.lower() in clusters.KINDS["months"] for word in words.words])
        of_kind = np.array([word in kinds for word in words.words])
        middle = 100.0 * of_month + 300.0 * ~of_kind
        return middle[:, None] + np.random.default_rng(spec.seed).normal(0, apart, (100, 3))

    monkeypatch.setattr(clusters, "vectors", vectors)
    monkeypatch.setattr(claims, "_agreed", lambda *arguments: [])
    table = TABLES[name]
    *_, claim = table.claims(store, table.rows(TINY, 3), "test")
    assert [comparison.label for comparison in claim.comparisons] == list(clusters.KINDS)
    judged = judge(claim)
    assert judged["answer"] == answer
    if answer == "yes":
        assert [found["value"] for found in judged["comparisons"]] == [1.0, 1.0], "all nearest words are of the kind"
    without = Planted(lambda store, spec, part: np.zeros(0))
    *_, claim = table.claims(without, table.rows(TINY, 3), "test")
    assert not claim.comparisons, "of a text that has no such words"
    assert table.claims(store, table.rows(TINY, 3), "valid") == []
