"""Analogies by hand-made vectors and brute force, and the questions of word2vec."""

import itertools

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks import analogies

WORDS = ("<eos>", "man", "woman", "king", "queen", "apple", "<unk>")
# royal, female, fruit; <eos> and <unk> would be the answers if they were words
HAND_MADE = np.array([[1, 1, 0], [1, 0, 0], [1, 2, 0], [3, 0, 0], [3, 2, 0], [0, 0, 1], [3, 3, 0]], float)


def questions_of(tmp_path, text):
    (tmp_path / "questions.txt").write_text(text)
    return analogies.read(tmp_path / "questions.txt")


def brute_force(R, a, b, c):
    """Find the row with the largest cosine with b - a + c, of vectors of length 1, in float64."""
    unit = [row / np.linalg.norm(row) for row in R]
    target = unit[b] - unit[a] + unit[c]
    return max(
        (w for w in range(len(R)) if w not in (a, b, c)), key=lambda w: unit[w] @ target / np.linalg.norm(target)
    )


def test_hand_made_vectors_have_their_queen(tmp_path):
    questions = questions_of(tmp_path, ": family\nman king woman queen\nman woman king queen\nman woman king apple\n")
    (score,) = analogies.judge(HAND_MADE, Vocabulary(WORDS), questions)
    assert score == ("family", 3, 0, 2)
    assert score.accuracy == pytest.approx(2 / 3)


@pytest.mark.parametrize("block", [1, 90, 1 << 25])
def test_answers_equal_brute_force_in_blocks_of_any_size(monkeypatch, block):
    monkeypatch.setattr(analogies, "BLOCK", block)
    R = np.random.default_rng(0).normal(size=(30, 4)) * np.linspace(0.1, 9, 30)[:, None]
    asked = np.array(list(itertools.permutations(range(7), 3)))
    expected = [brute_force(R, *row) for row in asked]
    np.testing.assert_array_equal(analogies.answer(R, asked), expected)
    assert len(set(expected)) > 10


def test_answers_are_none_of_the_words_of_the_question():
    """b - a + c is nearest to b or c itself where a is near one of them."""
    R = np.array([[1.0, 0.01], [1.0, 0.0], [0.3, 1.0], [-1.0, 0.2], [0.31, 0.9]])
    assert analogies.answer(R, np.array([[0, 1, 2]])).tolist() == [4]


def test_questions_with_unknown_words_are_left_out(tmp_path):
    questions = questions_of(tmp_path, ": one\nman king woman prince\n: two\nman <unk> woman <eos>\n: three\n")
    scores = analogies.judge(HAND_MADE, Vocabulary(WORDS), questions)
    assert scores == [("one", 0, 1, 0), ("two", 0, 1, 0), ("three", 0, 0, 0)]
    assert np.isnan(scores[0].accuracy)


def test_rare_words_are_neither_asked_nor_answers(tmp_path):
    vocabulary = Vocabulary(("man", "<eos>", "king", "woman", "<unk>", "queen", "queens"))
    R = HAND_MADE[[1, 0, 3, 2, 6, 4, 4]] + np.array([0, 0, 0, 0, 0, 0.3, 0])[:, None]
    questions = questions_of(tmp_path, ": family\nman king woman queen\nman king woman queens\n")
    assert analogies.candidates(vocabulary, 4) == {"man": 0, "king": 2, "woman": 3, "queen": 5}
    assert analogies.judge(R, vocabulary, questions) == [("family", 2, 0, 1)]
    assert analogies.judge(R, vocabulary, questions, most_frequent=4) == [("family", 1, 1, 1)]
    assert analogies.judge(R, vocabulary, questions, most_frequent=3) == [("family", 0, 2, 0)]


def test_frequent_words_of_a_vocabulary_in_another_order_are_those_of_its_counts():
    vocabulary = Vocabulary(("aardvark", "king", "man", "queen", "zebra"), np.array([1, 9, 9, 20, 0]))
    assert analogies.candidates(vocabulary, 3) == {"queen": 3, "king": 1, "man": 2}


def test_words_are_read_as_the_training_text_was(tmp_path):
    questions = questions_of(tmp_path, ": family\nMan KING Woman Queen\n")
    assert analogies.judge(HAND_MADE, Vocabulary(WORDS), questions) == [("family", 0, 1, 0)]
    assert analogies.judge(HAND_MADE, Vocabulary(WORDS), questions, str.lower) == [("family", 1, 0, 1)]


def test_sections_that_begin_with_gram_are_syntactic():
    scores = [analogies.Score(name, i, 10 * i, 100 * i) for i, name in enumerate(["a", "gram1-b", "c", "gram2"], 1)]
    assert analogies.totals(scores) == [
        ("semantic", 4, 40, 400), ("syntactic", 6, 60, 600), ("all", 10, 100, 1000)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d\n", r"the question is in no section \(.*questions.txt, line 1\)"),
        (": one\n\na b c d\na b c\n", r"3 words, not 4 \(.*questions.txt, line 4\)"),
        ("\n \n", r"there are no questions \(.*questions.txt\)"),
        (": one\n", r"there are no questions \(.*questions.txt\)"),
        (": one\na b c d e\n", r"5 words, not 4 \(.*questions.txt, line 2\)"),
    ],
)
def test_malformed_questions_are_an_error_of_their_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        questions_of(tmp_path, text)


def test_word2vecs_questions_have_their_published_numbers(data_dir):
    if not (data_dir / "eval" / "questions-words.txt").exists():
        pytest.skip(f"no analogies in {data_dir}")
    questions = analogies.read(data_dir / "eval" / "questions-words.txt")
    words = sorted({word for row in questions.words for word in row})
    R = np.random.default_rng(0).normal(size=(len(words) + 1, 5))
    scores = analogies.judge(R, Vocabulary(("<eos>", *words)), questions)
    semantic, syntactic, both = analogies.totals(scores)
    assert len(scores) == 14
    assert (semantic.asked, syntactic.asked, both.asked, both.left_out) == (8869, 10675, 19544, 0)
    assert both.accuracy < 0.05
    lower = Vocabulary(("<eos>", *(word for word in words if word.islower())))
    left_out = sum(any(not word.islower() for word in row) for row in questions.words)
    assert analogies.totals(analogies.judge(R, lower, questions))[2].left_out == left_out > 0
