"""The table of word vectors: on planted questions by its command, what it measures, and gensim's part."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.core.table import Row
from benchmarks.core.verdict import Scores, judge
from benchmarks.data import sets
from benchmarks.data.task_sets import SIMILARITY
from benchmarks.language.scales import speed_text
from benchmarks.language.store import Spec
from benchmarks.language.tasks import embeddings, gensim_vectors
from benchmarks.language.tasks.embeddings import OTHERS, OURS, THEIRS, TheirSpec, VectorStore
from benchmarks.language.tasks.store import Given
from jaxlm import models as registry
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary
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
        ours, people, _ = similarity.compared(table, vocabulary, tasks.similarity[name])
        assert store.agreement(table, name).value == pytest.approx(found.correlation)
        assert found.correlation == pytest.approx(spearmanr(ours, people).statistic)


def test_published_questions_are_whole(data_dir) -> None:
    tasks = sets.load("word-tasks", data_dir)
    assert tasks.size() == {"analogies": 19544, "pairs": 353 + 999 + 3000}


def test_the_error_of_a_correlation_is_that_of_a_bootstrap_over_pairs(store: VectorStore, tmp_path) -> None:
    draws = np.random.default_rng(3)
    vocabulary, words = store.corpus.vocabulary, list(analogies.candidates(store.corpus.vocabulary))
    table = draws.normal(size=(len(vocabulary), 5))
    pairs = [tuple(draws.choice(words, 2, replace=False)) for _ in range(1000)]
    cosines = similarity.cosines(table, np.array([[vocabulary.ids[word] for word in pair] for pair in pairs]))
    judged = similarity.Pairs(pairs, cosines + 0.3 * draws.normal(size=len(pairs)))
    task = store.task._replace(similarity={**store.task.similarity, "men": judged})
    scores = VectorStore(Given(store.corpus, task), TINY, "tuned", tmp_path).agreement(table, "men")
    found = similarity.judge(table, vocabulary, judged)
    assert found.correlation > 0.7, "where products of ranks alone would vary twice as much"
    assert scores.value == pytest.approx(found.correlation)
    assert np.diff(np.quantile(scores.resampled, (0.025, 0.975))) == pytest.approx(np.diff(found.interval), rel=0.3)


def test_questions_that_begin_alike_are_one_unit() -> None:
    right, asked = np.array([100.0, 0.0, 100.0, 0.0]), np.array([True, True, True, False])
    found = embeddings._grouped(right, asked, ["a b", "c d", "a b", "c d"])
    np.testing.assert_array_equal(found.total, [200, 0])
    np.testing.assert_array_equal(found.count, [2, 1])


def test_too_few_pairs_have_no_correlation(store: VectorStore, tmp_path) -> None:
    few = {name: pairs._replace(words=pairs.words[:2], scores=pairs.scores[:2])
           for name, pairs in store.task.similarity.items()}  # fmt: skip
    unasked = VectorStore(Given(store.corpus, store.task._replace(similarity=few)), TINY, "tuned", tmp_path)
    table = np.random.default_rng(0).normal(size=(len(store.corpus.vocabulary), 5))
    assert np.isnan(unasked.agreement(table, "men").value)


def test_gensim_is_asked_for_what_our_model_is(tmp_path) -> None:
    pytest.importorskip("gensim")
    corpus, path = speed_text(20, 1000), tmp_path / "lines.txt"
    gensim_vectors.write_lines(corpus, path)
    options = {"num_features": 7, "window": 3, "num_noise": 4, "subsample": 0.01}
    for name, sg in (("skipgram", 1), ("cbow", 0)):
        config = registry.get(name).configure(len(corpus.vocabulary), None, options)
        made = gensim_vectors.prepare(name, path, config, seed=5, workers=2)
        assert (made.vector_size, made.window, made.negative, made.sample) == (7, 3, 4, 0.01)
        assert (made.sg, made.hs, made.min_count, made.workers, made.seed) == (sg, 0, 1, 2, 5)
        assert made.ns_exponent == config.noise_power
        assert len(made.wv) == len(np.unique(corpus.train)) - 1  # without line ends


def test_vectors_of_gensim_are_of_our_words(store: VectorStore) -> None:
    pytest.importorskip("gensim")
    spec, vocabulary = TheirSpec("skipgram"), store.corpus.vocabulary
    vectors = store.vectors(spec)
    words = np.unique(store.corpus.train[store.corpus.train != vocabulary.eos])
    assert vectors.shape == (len(vocabulary), store.scale.num_features)
    assert np.all(np.any(vectors[words] != 0, axis=1))
    assert not vectors[vocabulary.eos].any()
    assert store.identifier(spec) != store.identifier(spec.with_seed(2))
    assert store.identifier(spec) != store.identifier(Spec("skipgram"))


def test_rows_of_gensim_are_by_our_ids(tmp_path) -> None:
    """Words that always occur together are near one another by our ids."""
    pytest.importorskip("gensim")
    draws = np.random.default_rng(0)
    twins = draws.integers(5, size=4000)
    ids = np.stack([1 + twins, 6 + twins, 0 * twins], axis=1).reshape(-1)  # lines of two words: i and i + 5
    corpus = Corpus("made", ids, ids, ids, Vocabulary(("<eos>", *"abcdefghij")), "", "")
    words = gensim_vectors.write_lines(corpus, path := tmp_path / "lines.txt")
    config = registry.get("cbow").configure(11, None, {"num_features": 8, "subsample": 0.0})
    made = gensim_vectors.prepare("cbow", path, config, 1, 1)
    gensim_vectors.epochs(made, path, 20, words)()
    table = gensim_vectors.vectors(made, 11)
    scores = table[1:6] @ made.syn1neg[[made.wv.key_to_index[str(i)] for i in range(6, 11)]].T
    assert (scores.argmax(axis=1) == np.arange(5)).all()


@pytest.mark.parametrize(("better", "answer"), [([OURS], "yes"), ([THEIRS, *OTHERS], "no")])
def test_claims_are_of_ours_less_others(better, answer, store: VectorStore) -> None:
    draws = np.random.default_rng(1)

    def row(name: str, program: str) -> Row:
        def measure(store, specs, part="test"):
            level = 60.0 if program in better else 20.0
            right = (draws.random(400) * 100 < level) * 100.0
            agreement = level / 100 + 0.1 * draws.normal(size=400)
            of_pairs = {name: Scores(agreement, np.ones(400), np.positive) for name in SIMILARITY}
            return {"analogies": Scores(right, np.ones(400), np.positive), **of_pairs}

        return Row((name, program), ((1,), (2,), (3,)), {}, measure)

    made = [row(name, program) for name in embeddings.NAMES.values() for program in (OURS, THEIRS, *OTHERS)]
    assert [judge(claim)["answer"] for claim in embeddings.claims(store, made, "test")] == 6 * [answer]


def test_lines_are_the_text(tmp_path) -> None:
    corpus = speed_text(20, 1000)
    number = gensim_vectors.write_lines(corpus, tmp_path / "lines.txt")
    lines = (tmp_path / "lines.txt").read_text().splitlines()
    ends = np.flatnonzero(corpus.train == corpus.vocabulary.eos)
    expected = [list(map(str, line[line != corpus.vocabulary.eos])) for line in np.split(corpus.train, ends)]
    assert number == sum(map(len, expected))
    assert [line.split() for line in lines] == [line for line in expected if line]


@pytest.mark.extended
def test_the_table_on_planted_questions(shared_place) -> None:
    pytest.importorskip("gensim")
    result, *_ = shared_place("language-models").table("embeddings")
    labels = [tuple(row["label"]) for row in result["rows"]]
    assert labels[:2] == [("skip-gram", THEIRS), ("skip-gram", OURS)]
    assert len(labels) == len(embeddings.NAMES) + 3 * len(gensim_vectors.ALGORITHMS)
    assert all(set(row["cells"]) >= {"analogies", "men"} for row in result["rows"])
    assert len(result["verdicts"]) == 6
