"""Tables of models of documents: by their command on planted documents; their verdicts; how documents are read."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.core.verdict import Scores, verdicts
from benchmarks.data import document_sets, sets
from benchmarks.documents import retrieval, scales, tables
from benchmarks.documents.store import DocumentStore, of_documents, some, vector_size
from jaxfit.errors import UserError
from jaxlm.data.documents.collection import Documents, counted
from jaxlm.tasks.documents import evaluate

TINY = scales.SCALES["tiny"]
PLANTED = document_sets.planted(TINY.sizes)


@pytest.fixture(scope="module")
def made(shared_place):
    place = shared_place("documents")
    return place, *place.tables("docnade-table-1", "docnade-figure-9")


def test_table_1_shows_all_models_and_published_figures(made):
    place, results, out, _ = made
    result = results["docnade-table-1"]
    assert result["complete"]
    cells = {row["label"][0]: row["cells"] for row in result["rows"]}
    rates = PLANTED.word_counts() / PLANTED.word_counts().sum()
    chosen = PLANTED.test.with_words()
    unigram = np.exp(np.mean(-(chosen.counts @ np.log(np.maximum(rates, 1e-6))) / chosen.lengths))
    assert set(cells) == {name for name, _, _ in tables.PUBLISHED} | {tables.LEARNED}
    for name, row in cells.items():
        assert 1 < row["perplexity"]["mean"] < 0.98 * unigram, name
        assert 1 < row["some"]["mean"] < unigram, name
        assert row["minutes"]["mean"] > 0
        assert ("bound" in row) == (name == "LDA")
        assert ("error" in row) == (name == "Replicated Softmax")
    assert cells["LDA"]["bound"]["mean"] > cells["LDA"]["perplexity"]["mean"]
    assert 0 < cells["Replicated Softmax"]["error"]["mean"] < 2
    assert "835.0" in out
    assert len(result["verdicts"]) == 3, "targets are of the published documents"
    assert "Lauly et al. 2017" in (place.out / "docnade-table-1.planted.tiny.md").read_text()


def test_records_name_what_validation_measures_and_pages_the_units_of_the_bootstrap(made):
    place, results, *_ = made
    models = results["docnade-table-1"]["models"].values()
    named = {model["label"].partition("-seed")[0]: [key for key in model if "validation" in key] for model in models}
    held_out, documents = ["validation_perplexity_of_held-out_words"], ["validation_document_perplexity"]
    assert named == {
        name: [] if name == "lda" else held_out if name == "replicated-softmax" else documents for name in named
    }
    assert len(named) == len(tables.PUBLISHED) + 1
    assert "bootstrap over documents, and" in (place.out / "docnade-table-1.planted.tiny.md").read_text()


def test_perplexities_are_those_of_the_command(made):
    place, *_ = made
    store = DocumentStore.open("tiny", None, None, "tuned", place.work)
    spec = tables.PUBLISHED[2][1]
    test = store.data.test
    found = evaluate(store.model(spec).document_log_probs(test, TINY.orderings), test.lengths)
    assert store.perplexity(spec, "test").value == pytest.approx(found.perplexity, rel=1e-6)
    assert len(store.get(spec).predictions("some")) == 50


def test_documents_are_retrieved_better_than_by_chance(made):
    place, results, *_ = made
    result = results["docnade-figure-9"]
    assert (place.out / "docnade-figure-9.planted.tiny.png").stat().st_size > 10_000
    assert result["rows"][0]["label"] == [retrieval.BASELINE, "4"]
    database = [label for part in (PLANTED.train, PLANTED.valid) for label in part.labels]
    by_chance = np.mean([database.count(labels) / len(database) for labels in PLANTED.test.labels])
    for row in result["rows"]:
        precision = [row["cells"][f"recall {100 * recall:g} %"]["mean"] for recall in retrieval.RECALLS]
        assert precision[0] > by_chance + 0.2, row["label"]
        assert precision[0] > precision[-1] > by_chance, row["label"]
    assert result["rows"][0]["cells"]["recall 2 %"]["mean"] > 0.7


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
        row.__class__(row.label, row.draws, row.thesis, lambda store, specs, part="test": {
            name: store.perplexity(specs[0], part) for name in ("perplexity", "some")
        })
        for row in rows.values()
    ]  # fmt: skip
    found = tables.claims(store, measured, "test")
    assert [verdict["answer"] for verdict in verdicts(found, found)] == ["yes"] * 5


def test_claims_on_retrieval_are_held_against_all_other_models():
    column, ones = retrieval._column(retrieval.JUDGED), np.ones(20)
    rows = [
        row.__class__(row.label, row.draws, {}, lambda store, specs, part: {column: Scores(ones, ones, np.positive)})
        for row in retrieval.rows(scales.SCALES["cpu"], None)
    ]
    names = {row.label[0] for row in rows}
    *targets, published = retrieval.claims(None, rows, "test")
    deeper = {"DeepDocNADE, 2 layers", "DeepDocNADE, 3 layers"}
    compared = {comparison.label.rpartition(",")[0] for comparison in published.comparisons}
    assert compared == {f"{one} and {other}" for one in deeper for other in names - deeper}
    assert len(published.comparisons) == 2 * len(compared)
    for target, other in zip(targets, (retrieval.BASELINE, "LDA"), strict=True):
        compared = {comparison.label.rpartition(",")[0] for comparison in target.comparisons}
        assert compared == {f"{one} and {other}" for one in names - {retrieval.BASELINE, "LDA"}}


def test_newsgroups_are_read_with_their_labels_and_log_counts():
    try:
        corpus = sets.load("20news")
    except UserError as missing:
        pytest.skip(str(missing))
    assert corpus.sizes()["documents"] == {"train": 10_268, "valid": 1000, "test": 7505}
    assert len({label for labels in corpus.train.labels for label in labels}) == 20
    assert corpus.train.counts.data.max() <= np.rint(np.log1p(1000))
    assert corpus.vocabulary.words[0].isalpha()
    assert len({label for labels in some(corpus.test.with_words()).labels for label in labels}) > 10


@pytest.mark.parametrize("spec", [spec for _, spec, _ in tables.PUBLISHED], ids=str)
def test_models_have_vectors_of_the_scales_size(spec, tmp_path):
    for scale in ("smoke", "cpu"):
        store = DocumentStore(document_sets.planted(TINY.sizes), scales.SCALES[scale], "tuned", tmp_path)
        config = store._recipe(spec)[1]
        assert config.get("num_hidden", config.get("num_topics")) == scales.SCALES[scale].num_features
        sized = replace(spec, config=(*spec.config, (vector_size(spec.model), 128)))
        assert store._recipe(sized)[1][vector_size(spec.model)] == 128


def test_some_documents_of_a_sorted_collection_have_many_labels():
    labels = tuple((str(label),) for label in np.repeat(np.arange(20), 300))
    documents = Documents(counted(np.arange(6000), np.arange(6000) % 7, (6000, 7)), labels)
    chosen = some(documents)
    assert len(chosen) == 50
    assert len(set(chosen.labels)) > 10
    assert some(documents).labels == chosen.labels
    assert some(documents.take(np.arange(20))).labels == documents.labels[:20]


def test_scores_of_retrieval_are_of_the_queries_of_a_part(tmp_path):
    counts = counted([0, 1, 2, 2], [0, 0, 1, 1], (3, 2))
    three = Documents(counts, (("a",), ("a",), ("b",)))
    corpus = document_sets.planted(TINY.sizes)._replace(train=three, valid=three, test=three.take([0, 2]))
    store = DocumentStore(corpus, TINY, "tuned", tmp_path)
    found = retrieval._scores(store, "test", [np.eye(2)[[0, 1]], np.eye(2)[[0, 0, 1, 0, 0, 1]]], False)
    scores = found["recall 100 %"]
    assert isinstance(scores, Scores)
    assert scores.value == 1
    assert len(scores.total) == 2
