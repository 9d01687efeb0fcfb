"""Verdicts of tables of models of documents, of planted figures and of the published ones."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.core.table import Row
from benchmarks.core.verdict import Comparison, Scores, estimate, verdicts
from benchmarks.data import document_sets
from benchmarks.documents import orderings, retrieval, scales, tables, words
from benchmarks.documents.store import DocumentStore, of_documents

TINY = scales.SCALES["tiny"]
PLANTED = document_sets.planted(TINY.sizes)


@pytest.mark.extended
def test_models_of_equally_coherent_topics_are_rarely_judged_different(tmp_path):
    """Random topics: the 95 % interval of two models' difference misses 0 in about 5 % of all pairs."""

    class Random(DocumentStore):
        def model(self, spec):
            weights = np.random.default_rng(spec.seed).normal(size=(len(self.corpus.vocabulary), 50))
            topics = SimpleNamespace(weights=lambda params: params)
            return SimpleNamespace(params=weights, vocabulary=self.corpus.vocabulary, require=lambda *_: topics)

    store, pairs = Random(PLANTED, TINY, "tuned", tmp_path), 200
    scores = [words.all_topics(store, (words.TANH[1].with_seed(seed),), "test")["npmi"] for seed in range(2 * pairs)]
    intervals = [estimate(Comparison("", [scores[2 * i : 2 * i + 2]])).interval(0.95) for i in range(pairs)]
    missed = sum(not low < 0 < high for low, high in intervals)
    assert missed < 0.12 * pairs, "ordered by coherence, about 75 % would miss it"
    assert np.mean([high - low for low, high in intervals]) < 0.1


@pytest.mark.parametrize(("perplexities", "answers"), [
    ([900, 870, 850, 838, 836, 834, 833.5, 833], ["yes", "yes"]),
    ([900, 890, 880, 870, 850, 820, 790, 760], ["no", "no"]),
    ([900, 890, 880, 870, 850, 840, 835, 830], ["no", "yes"]),  # 30 less, then another 40
])  # fmt: skip
def test_claims_on_orders_are_of_how_fast_perplexities_fall(perplexities, answers):
    of = {
        str(number): of_documents(np.log(perplexity) + np.linspace(-1e-3, 1e-3, 50))
        for number, perplexity in zip(orderings.ORDERINGS, perplexities, strict=True)
    }
    store = DocumentStore(PLANTED._replace(name=scales.NEWSGROUPS), scales.SCALES["cpu"], "tuned", None)
    rows = [
        Row(row.label, row.draws, row.thesis, lambda store, specs, part: of)
        for row in orderings.rows(scales.SCALES["cpu"], None)
    ]
    found = orderings.claims(store, rows, "test")
    assert [verdict["answer"] for verdict in verdicts(found, found)] == answers


@pytest.mark.parametrize(("coherences", "answers"), [
    ({"DocNADE": 0.2, "DocNADE, sigmoid": 0.2, "DocNADE, tanh": 0.05}, ["yes"] * 4),
    ({"DocNADE": 0.02, "DocNADE, sigmoid": 0.02, "DocNADE, tanh": 0.3}, ["no"] * 4),
])  # fmt: skip
def test_claims_on_words_compare_coherence_with_that_of_docnade(coherences, answers):
    deep = {
        "docnade-table-2": coherences["DocNADE"] + (0.01 if answers[0] == "yes" else -0.2),
        "docnade-table-3": coherences["DocNADE, tanh"],
    }
    found = []
    for table, of_deep in deep.items():

        def with_mean(row, of_deep=of_deep):
            around = np.linspace(-0.01, 0.01, 40)
            measured = {
                "npmi": words._mean(coherences.get(row.label[0], of_deep) + around),
                "random": words._mean(0.04 + around),
            }
            return Row(row.label, row.draws, {}, lambda store, specs, part: measured)

        rows = [with_mean(row) for row in words.TABLES[table].rows(scales.SCALES["cpu"], None)]
        store = DocumentStore(PLANTED._replace(name=scales.NEWSGROUPS), TINY, "tuned", None)
        claims = words.TABLES[table].claims(store, rows, "test")
        found += [verdict["answer"] for verdict in verdicts(claims, claims)]
    assert found == answers


def test_claims_hold_of_the_published_figures():
    figures = {name: np.log(figure - 0.5) for name, _, figure in tables.PUBLISHED}
    figures[tables.LEARNED] = np.log(890.0)

    class Published(DocumentStore):
        def perplexity(self, spec, part):
            (name,) = (n for n, s, _ in (*tables.PUBLISHED, (tables.LEARNED, rows[tables.LEARNED].draws[0][0], 0))
                       if s.with_seed(spec.seed) == spec)  # fmt: skip
            return of_documents(np.full(50, figures[name]))

        def get(self, spec):
            raise AssertionError("nothing is trained")

    rows = {row.label[0]: row for row in tables.rows(scales.SCALES["cpu"], None)}
    store = Published(document_sets.planted(TINY.sizes)._replace(name=scales.NEWSGROUPS), TINY, "tuned", None)
    measured = [
        row.__class__(row.label, row.draws, row.thesis, lambda store, specs, part: {
            name: store.perplexity(specs[0], part) for name in ("perplexity", "some")
        })
        for row in rows.values()
    ]  # fmt: skip
    found = tables.claims(store, measured, "test")
    assert [verdict["answer"] for verdict in verdicts(found, found)] == ["yes"] * 6


def test_claims_on_retrieval_are_held_against_all_other_models():
    column, ones = retrieval._column(retrieval.JUDGED), np.ones(20)
    rows = [
        row.__class__(row.label, row.draws, {}, lambda store, specs, part: {column: Scores(ones, ones, np.positive)})
        for row in retrieval.rows(scales.SCALES["cpu"], None)
    ]
    names = {row.label[0] for row in rows}
    store = DocumentStore(PLANTED._replace(name=scales.NEWSGROUPS), TINY, "tuned", None)
    *targets, published = retrieval.claims(store, rows, "test")
    deeper = {"DeepDocNADE, 2 layers", "DeepDocNADE, 3 layers"}
    compared = {comparison.label.rpartition(",")[0] for comparison in published.comparisons}
    assert compared == {f"{one} and {other}" for one in deeper for other in names - deeper}
    assert len(published.comparisons) == 2 * len(compared)
    for target, other in zip(targets, (retrieval.BASELINE, "LDA"), strict=True):
        compared = {comparison.label.rpartition(",")[0] for comparison in target.comparisons}
        assert compared == {f"{one} and {other}" for one in names - {retrieval.BASELINE, "LDA"}}
