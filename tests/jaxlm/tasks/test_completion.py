"""Sentence completion: the files, mixtures by brute force, and weights that have not seen what they answer."""

import csv

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.tasks import completion

QUESTIONS = 'id,question,a),b)\n1,"He _____ , he said.",ran,sat\nx2,The _____.,cat,dog\n'


def read(tmp_path, text):
    (tmp_path / "questions.csv").write_text(text)
    return completion.read(tmp_path / "questions.csv")


def read_answers(tmp_path, text):
    (tmp_path / "answers.csv").write_text(text)
    return completion.read_answers(tmp_path / "answers.csv", read(tmp_path, QUESTIONS))


def two_models(seed, questions=60, choices=4):
    """Draw scores of two models, each of which knows the answers to some questions; the second's are larger numbers."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, questions, choices))
    answers = rng.integers(choices, size=questions)
    first[np.arange(questions), answers] += rng.uniform(0, 2, questions)
    second[np.arange(questions), answers] += rng.uniform(0, 2, questions)
    return first, 5 * second, answers


def test_gaps_are_filled_and_the_last_period_set_apart(tmp_path):
    first, second = read(tmp_path, QUESTIONS)
    assert (first.name, first.choices) == ("1", ["ran", "sat"])
    assert first.sentences() == ["He ran , he said.", "He sat , he said."]
    assert first.sentences(period_apart=True) == ["He ran , he said .", "He sat , he said ."]
    assert second.sentences(period_apart=True) == ["The cat .", "The dog ."]
    for same in ("It _____ .", "It _____ ...", "It _____ Mr. X"):
        assert second._replace(text=same).sentences(period_apart=True)[0] == same.replace("_____", "cat")
    for gap in ("______", "_________", "__________"):
        (longer, *_) = read(tmp_path, QUESTIONS.replace("_____", gap).replace("ran", r"\1"))
        assert longer.sentences() == [r"He \1 , he said.", "He sat , he said."]


def test_a_header_is_not_needed(tmp_path):
    assert read(tmp_path, QUESTIONS.partition("\n")[2])[0][:3] == read(tmp_path, QUESTIONS)[0][:3]
    assert read_answers(tmp_path, "1,b\nx2,a\n").tolist() == read_answers(tmp_path, "id,answer\nx2,a\n1,b\n").tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,He ran,a,b\n", r"there are no questions \(.*questions.csv\)"),
        ("1,He _____,a,b\n2,He ran,a,b\n", r"the question has 0 gaps, not 1 \(.*questions.csv, line 2\)"),
        ("1,He ____,a,b\n2,She _____,a,b\n", r"the question has 0 gaps, not 1 \(.*questions.csv, line 1\)"),
        ("1,_____ and _____,a,b\n", r"2 gaps, not 1 \(.*questions.csv, line 1\)"),
        ("1,He _____,a,b\n2,She _____,a\n", r"1 choices, not 2 \(.*questions.csv, line 2\)"),
        ("1,He _____,a\n", r"1 choices, not 2 \(.*questions.csv, line 1\)"),
        ("1,He _____,a,b,\n2,She _____,a,b,\n", r"a choice is empty \(.*questions.csv, line 1\)"),
        ("1,He _____,a,b\n2,She _____,,b\n", r"a choice is empty \(.*questions.csv, line 2\)"),
        ("1,He _____,a,b\n1,She _____,a,b\n", r"two questions '1' \(.*questions.csv, line 2\)"),
        ('1,"He _____,a,b\n', r"cannot be told apart.*questions.csv, line 1\)"),
    ],
)
def test_malformed_questions_are_an_error_of_their_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,answer\n1,a\nx2,c\n", r"invalid answer 'c' \(.*answers.csv, line 3\)"),
        ("1,a\nx2,ab\n", r"invalid answer 'ab' \(.*answers.csv, line 2\)"),
        ("1\n", r"invalid answer '' \(.*answers.csv, line 1\)"),
        ("1,a\n3,b\n", r"there is no question '3' \(.*answers.csv, line 2\)"),
        ("1,a\nx2,b\n1,a\n", r"two answers to question '1' \(.*answers.csv, line 3\)"),
        ("1,a\n", r"no answer to question 'x2' \(.*answers.csv\)"),
    ],
)
def test_malformed_answers_are_an_error_of_their_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        read_answers(tmp_path, text)


def test_fitted_weight_is_among_the_best_and_in_their_midst():
    first, second, answers = two_models(0)
    right = {}
    for a in completion.WEIGHTS:
        mixed = [[a * x + (1 - a) * y for x, y in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]
        right[a] = sum(scores.index(max(scores)) == answer for scores, answer in zip(mixed, answers, strict=True))
    best = [weight for weight in right if right[weight] == max(right.values())]
    fitted = completion.fit_weight(first, second, answers)
    assert fitted in best
    assert abs(fitted - np.mean(best)) == min(abs(weight - np.mean(best)) for weight in best)
    assert right[fitted] > max(right[0.0], right[1.0])


def test_weights_of_models_that_know_nothing_are_zero():
    """All weights but the one that leaves the other model out are equal: their middle is chosen."""
    first, _, answers = two_models(1)
    noise = np.zeros_like(first)
    assert completion.fit_weight(first, noise, answers) == pytest.approx(0.5, abs=0.02)
    huge = 1e9 * np.random.default_rng(0).normal(size=first.shape)
    assert completion.fit_weight(first, huge, answers) == 1.0


def test_each_half_is_answered_by_a_weight_fitted_on_the_other():
    first, second, answers = two_models(2)
    choices, weights = completion.cross_fitted(first, second, answers)
    for part in (0, 1):
        here, other = slice(part, None, 2), slice(1 - part, None, 2)
        assert weights[part] == completion.fit_weight(first[other], second[other], answers[other])
        expected = completion.choose(completion.mix(first[here], second[here], weights[part]))
        np.testing.assert_array_equal(choices[here], expected)


def test_no_answer_decides_how_its_own_question_is_answered():
    first, second, answers = two_models(3, questions=24)
    choices, _ = completion.cross_fitted(first, second, answers)
    changed = 0
    for i in range(len(answers)):
        other = answers.copy()
        other[i] = (other[i] + 1) % 4
        again, _ = completion.cross_fitted(first, second, other)
        assert again[i] == choices[i]
        changed += (again != choices).any()
    assert changed, "answers decide nothing"


def test_the_challenge_has_its_questions_and_answers(data_dir):
    folder = data_dir / "msr-sentence-completion"
    if not folder.exists():
        pytest.skip(f"no sentence completion challenge in {data_dir}")
    questions = completion.read(folder / "questions.csv")
    answers = completion.read_answers(folder / "answers.csv", questions)
    assert len(questions) == 1040
    assert np.bincount(answers).tolist() == [207, 203, 201, 225, 204]
    with (folder / "questions.csv").open(newline="") as file:
        listed = list(csv.reader(file))[1:]
    assert [[q.name, q.text, *q.choices] for q in questions] == listed
    assert all(sentence.endswith(" .") for q in questions for sentence in q.sentences(period_apart=True))
