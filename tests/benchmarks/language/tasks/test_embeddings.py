"""The table of word vectors: on planted questions by its command, what it measures, and gensim's part."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.data import sets
from benchmarks.data.task_sets import SIMILARITY
from benchmarks.language.scales import speed_text
from benchmarks.language.store import Spec
from benchmarks.language.tasks import embeddings, gensim_vectors
from benchmarks.language.tasks.embeddings import OURS, THEIRS, TheirSpec, VectorStore
from benchmarks.language.tasks.store import Given
from jaxlm.tasks import analogies, similarity

TINY = embeddings.VECTOR_SCALES["tiny"]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> VectorStore:
    return VectorStore.open("tiny", None, None, "tuned", tmp_path_factory.mktemp("work"))


def test_figures_are_those_of_the_commands(store: VectorStore, tmp_path) -> None:
    vocabulary, asked = store.corpus.vocabulary, store.task.analogies
    table = np.random.default_rng(0).normal(size=(len(vocabulary), 5))
    words = list(analogies.candidates(vocabulary))
    rows = np.array([[words.index(word) for word in question[:3]] for question in asked.words])
    answers = analogies.answer(table[[vocabulary.ids[word] for word in words]], rows)
    right = [[*question[:3], words[answer]] for question, answer in zip(asked.words[:25], answers, strict=False)]
    tasks = store.task._replace(analogies=asked._replace(words=[*right, *asked.words[25:]]))
    store = VectorStore(Given(store.corpus, tasks), TINY, "tuned", tmp_path)
    totals = {score.name: score for score in analogies.totals(analogies.judge(table, vocabulary, tasks.analogies))}
    assert 25 <= totals["all"].right < 40
    for name, inside in (("all", None), ("syntactic", store.syntactic), ("semantic", ~store.syntactic)):
        assert store.answers(table, inside).value == pytest.approx(100 * totals[name].accuracy), name
    for name in SIMILARITY:
        found = similarity.judge(table, vocabulary, tasks.similarity[name])
        ours, people = similarity.compared(table, vocabulary, tasks.similarity[name])
        assert store.agreement(table, name).value == pytest.approx(found.correlation)
        assert found.correlation == pytest.approx(spearmanr(ours, people).statistic)


def test_published_questions_are_whole(data_dir) -> None:
    tasks = sets.load("word-tasks", data_dir)
    assert tasks.size() == {"analogies": 19544, "pairs": 353 + 999 + 3000}


def test_gensim_learns_which_words_are_used_alike(store: VectorStore, tmp_path) -> None:
    """The same text and questions as ours: planted words of similar features have similar vectors."""
    pytest.importorskip("gensim")
    spec = TheirSpec("skipgram")
    vectors = store.vectors(spec)
    words = np.unique(store.corpus.train[store.corpus.train != store.corpus.vocabulary.eos])
    assert vectors.shape == (len(store.corpus.vocabulary), store.scale.num_features)
    assert np.all(np.any(vectors[words] != 0, axis=1))
    assert not vectors[store.corpus.vocabulary.eos].any()
    assert store.identifier(spec) != store.identifier(spec.with_seed(2))
    assert store.identifier(spec) != store.identifier(Spec("skipgram"))


def test_lines_are_the_text(tmp_path) -> None:
    corpus = speed_text(20, 1000)
    number = gensim_vectors.write_lines(corpus, tmp_path / "lines.txt")
    lines = (tmp_path / "lines.txt").read_text().splitlines()
    words = [int(word) for line in lines for word in line.split()]
    assert number == len(words)
    np.testing.assert_array_equal(words, corpus.train[corpus.train != corpus.vocabulary.eos])
    assert all(lines)


def test_the_table_on_planted_questions(shared_place) -> None:
    pytest.importorskip("gensim")
    result, *_ = shared_place("language-models").table("embeddings")
    labels = [tuple(row["label"]) for row in result["rows"]]
    assert labels[:2] == [("skip-gram", OURS), ("skip-gram", THEIRS)]
    assert len(labels) == len(embeddings.NAMES) + len(gensim_vectors.ALGORITHMS)
    assert all(set(row["cells"]) >= {"analogies", "men", "rate"} for row in result["rows"])
    assert all(row["cells"]["rate"]["mean"] > 0 for row in result["rows"])
    assert len(result["verdicts"]) == 2
