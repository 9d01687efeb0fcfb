"""Similarity: correlations against SciPy, files in all formats, pairs without vectors."""

import numpy as np
import pytest
import scipy.stats

from jaxfit.errors import UserError
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks import similarity


def read(tmp_path, text):
    (tmp_path / "pairs.txt").write_text(text)
    return similarity.read(tmp_path / "pairs.txt")


@pytest.mark.parametrize("levels", [3, 1000])
def test_correlations_equal_scipys_also_with_ties(levels):
    rng = np.random.default_rng(levels)
    x, y = rng.integers(levels, size=(2, 6, 50))
    expected = [scipy.stats.spearmanr(*rows).statistic for rows in zip(x, y, strict=True)]
    np.testing.assert_allclose(similarity.spearman(x, y), expected, rtol=1e-12)
    assert np.ptp(expected) > 0.1


def test_correlation_with_a_constant_is_undefined():
    assert np.isnan(similarity.spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))


def test_cosines_are_of_the_pairs():
    R = np.array([[3.0, 4.0], [6.0, 8.0], [-4.0, 3.0], [0.0, 0.0]])
    pairs = np.array([[0, 1], [0, 2], [1, 0], [0, 3], [2, 2]])
    np.testing.assert_allclose(similarity.cosines(R, pairs), [1, 0, 1, 0, 1], atol=1e-12)


def test_interval_is_that_of_scipys_bootstrap():
    rng = np.random.default_rng(0)
    R, words = rng.normal(size=(60, 3)), tuple(f"w{i}" for i in range(59))
    vocabulary = Vocabulary((*words, "<eos>"))
    listed = [(words[i], words[j]) for i, j in rng.choice(59, size=(80, 2))]
    ours = similarity.cosines(R, np.array([[vocabulary.ids[w] for w in pair] for pair in listed]))
    scores = ours + rng.normal(size=80)
    found = similarity.judge(R, vocabulary, similarity.Pairs(listed, scores))
    assert found.correlation == pytest.approx(scipy.stats.spearmanr(ours, scores).statistic)
    expected = scipy.stats.bootstrap(
        (ours, scores), lambda x, y: scipy.stats.spearmanr(x, y).statistic, paired=True, vectorized=False,
        n_resamples=2000, method="percentile", rng=1,
    ).confidence_interval  # fmt: skip
    assert found.interval == pytest.approx(tuple(expected), abs=0.03)
    assert (found.pairs, found.left_out) == (80, 0)
    again = similarity.judge(R, vocabulary, similarity.Pairs(listed, scores), seed=5)
    assert again.correlation == found.correlation
    assert again.interval != found.interval == pytest.approx(again.interval, abs=0.03)


def test_pairs_without_vectors_are_left_out(tmp_path):
    pairs = read(tmp_path, "one two 9\nthree four 1\none four 5\nfive one 3\nOne THREE 0\n")
    vocabulary, R = Vocabulary(("<eos>", "one", "two", "three", "four")), np.eye(5, 2) + np.arange(10).reshape(5, 2)
    found = similarity.judge(R, vocabulary, pairs)
    assert (found.pairs, found.left_out) == (3, 2)
    cosines = similarity.cosines(R, np.array([[1, 2], [3, 4], [1, 4]]))
    assert found.correlation == pytest.approx(scipy.stats.spearmanr(cosines, [9, 1, 5]).statistic)
    assert similarity.judge(R, vocabulary, pairs, str.lower).left_out == 1
    none = similarity.judge(R[:2], Vocabulary(("<eos>", "x")), pairs)
    assert (none.pairs, none.left_out, np.isnan(none.correlation)) == (0, 5, True)


@pytest.mark.parametrize(
    "text",
    [
        "sun\tlight\t5\nold\tnew\t1.5\n",
        "Word 1,Word 2,Human (mean)\nsun,light,5\nold,new,1.5\n",
        "a;b;score\n\nsun;light;5\nold;new;1.5\n",
        "sun light 5\nold new 1.5\n",
        "word1\tword2\tPOS\tSimLex999\tconc\nsun\tlight\tN\t5\t1\nold\tnew\tA\t1.5\t2\n",
    ],
)
def test_formats_are_detected(tmp_path, text):
    pairs = read(tmp_path, text)
    assert pairs.words == [("sun", "light"), ("old", "new")]
    assert pairs.scores.tolist() == [5, 1.5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,1\nc,d\n", r"not two words and a score \(.*pairs.txt, line 2\)"),
        ("a,b,1\nc,d,many\n", r"the score is not a number: 'many' \(.*pairs.txt, line 2\)"),
        ("a,b,8.x5\nc,d,1\n", r"the score is not a number: '8.x5' \(.*pairs.txt, line 1\)"),
        ("x,y,z\na,b,c\n", r"not two words and a score \(.*pairs.txt, line 2\)"),
        ("x,y,z\n", r"there are no pairs of words \(.*pairs.txt\)"),
    ],
)
def test_malformed_pairs_are_an_error_of_their_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "pairs", "top"),
    [
        ("wordsim353.csv", 353, 10), ("simlex999.txt", 999, 10), ("men3k.txt", 3000, 50),
        ("rarewords.txt", 2034, 10), ("rg65.txt", 65, 4), ("mc30.txt", 30, 4),
    ],
)  # fmt: skip
def test_published_lists_are_read_whole(data_dir, name, pairs, top):
    if not (data_dir / "eval" / name).exists():
        pytest.skip(f"no {name} in {data_dir}")
    found = similarity.read(data_dir / "eval" / name)
    assert len(found.words) == len(found.scores) == pairs
    assert 0.7 * top < found.scores.max() <= top
    assert found.scores.min() >= 0
