"""Sentence completion: which of several words belongs in the gap of a sentence.

By the sentence's probability, or by how well a model says that the word fits between the others.

Source: Zweig and Burges 2011, The Microsoft Research Sentence Completion Challenge.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxlm.capabilities import FillsGaps, Gap
from jaxlm.data.tables import rows
from jaxlm.tasks.evaluate import LN10

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

GAP = "_____"
GAPS = re.compile(rf"{GAP}+")  # of five underscores or more
LETTERS = string.ascii_lowercase
WEIGHTS = np.linspace(0, 1, 101)
LAST_PERIOD = re.compile(r"(?<=[^\s.])\.$")

Scores = NDArray[np.float64]


class Question(NamedTuple):
    """A sentence with a gap, and the choices that could fill it.

    Attributes:
        name: its id.
        where: its file and line.
    """

    name: str
    text: str
    choices: list[str]
    where: str

    def sentences(self, period_apart: bool = False) -> list[str]:
        """Fill the gap with each choice.

        Args:
            period_apart: make the period that ends the sentence a word of its own.
        """
        return [choice.join(self.around(period_apart)) for choice in self.choices]

    def around(self, period_apart: bool = False) -> list[str]:
        """Return what is before the gap, and what is after it; period_apart: as in `sentences`."""
        return GAPS.split(LAST_PERIOD.sub(" .", self.text) if period_apart else self.text)


def read(path: Source, encoding: str = "utf-8") -> list[Question]:
    """Read questions: rows of an id, a sentence with one gap `_____`, and the choices a), b) and so on.

    The first row may be a header: its second field has no gap, nor a part of one.

    Raises:
        UserError: a row has no gap or several, another number of choices than others, or an empty one; two rows
            have the same id; there are no questions; as `jaxlm.data.tables.rows`.
    """
    questions: list[Question] = []
    names: set[str] = set()
    for number, (fields, where) in enumerate(rows(path, encoding)):
        gaps = sum(len(GAPS.findall(field)) for field in fields[1:2])
        if number == 0 and not any("__" in field for field in fields[1:2]):
            continue
        if gaps != 1:
            raise UserError(f"the question has {gaps} gaps, not 1", where, f"write id,question,choices with one {GAP}")
        name, text, *choices = fields
        if not all(choices):
            raise UserError("a choice is empty", where, "write a word for each, and no comma at the end")
        expected = len(questions[0].choices) if questions else max(2, len(choices))
        if len(choices) != expected or len(choices) > len(LETTERS):
            raise UserError(f"the question has {len(choices)} choices, not {expected}", where, "give each as many")
        if name in names:
            raise UserError(f"there are two questions {name!r}", where, "give each its own id")
        names.add(name)
        questions.append(Question(name, text, choices, where))
    if not questions:
        raise UserError("there are no questions", path, f"write id,question,choices with one gap {GAP}")
    return questions


def read_answers(path: Source, questions: list[Question], encoding: str = "utf-8") -> NDArray[np.int64]:
    """Read the right choices, int64 [Q], of rows of an id and a letter; the first row may be a header.

    Raises:
        UserError: a letter or an id is not one of the questions', a question has two answers or none; as
            `jaxlm.data.tables.rows`.
    """
    known = {question.name: LETTERS[: len(question.choices)] for question in questions}
    found: dict[str, int] = {}
    for number, (fields, where) in enumerate(rows(path, encoding)):
        name, letter = (*fields, "", "")[:2]
        if number == 0 and name not in known:
            continue
        if name not in known:
            raise UserError(f"there is no question {name!r}", where, "give the answers to these questions")
        if name in found:
            raise UserError(f"there are two answers to question {name!r}", where, "remove one of them")
        if len(letter) != 1 or letter not in known[name]:
            raise UserError(f"invalid answer {letter!r}", where, f"write one of {', '.join(known[name])}")
        found[name] = LETTERS.index(letter)
    missing = next((name for name in known if name not in found), None)
    if missing is not None:
        raise UserError(f"there is no answer to question {missing!r}", path, "give the answers to all questions")
    return np.array([found[question.name] for question in questions], np.int64)


def gap_scores(model: Model, questions: list[Question], prepare: Callable[[str], str], period_apart: bool) -> Scores:
    """Return how well each choice fits its gap by a model that fills gaps: [Q, choices], in units of log10 P.

    The score of a choice of several words is the mean of the words' scores.

    Args:
        model: has the capability `FillsGaps`.
        questions: what is asked.
        prepare: changes text to the form of the training text.
        period_apart: as in `Question.sentences`.

    Raises:
        UserError: a word is unknown and the vocabulary has no `<unk>`; the model does not fill gaps.
    """
    fills, unk = model.require(FillsGaps, "complete"), model.vocabulary.unk
    share = model.vocabulary.log_share_of_unknown if fills.of_word else 0.0
    gaps, lengths = [], []
    for question in questions:

        def ids(text: str, where: str = question.where) -> NDArray[np.int32]:
            return model.encode_line(prepare(text).split(), where=where)

        words = [ids(choice) for choice in question.choices]
        before, after = map(ids, question.around(period_apart))
        gaps.append(Gap(before, after, np.concatenate(words)))
        lengths.append([len(each) for each in words])
    with model.precision():
        of_words = fills.scores(model, gaps)
    totals = [
        np.add.reduceat(scores + share * (gap.words == unk), np.cumsum([0, *sizes[:-1]])) / sizes
        for gap, scores, sizes in zip(gaps, of_words, lengths, strict=True)
    ]
    return np.stack(totals) / LN10


def choose(scores: Scores) -> NDArray[np.int64]:
    """Return the choice of the largest score: [Q, choices] -> int64 [Q]; of equal ones the first."""
    return scores.argmax(axis=1)


def mix(first: Scores, second: Scores, weight: float) -> Scores:
    """Compute α log P_1 + (1 - α) log P_2 of each sentence, [Q, choices].

    This is the logarithm of an unnormalised product of the models, which suffices to compare sentences.

    Args:
        weight: α.
    """
    return weight * first + (1 - weight) * second


def fit_weight(first: Scores, second: Scores, answers: NDArray[np.int64]) -> float:
    """Return the weight in 0, 0.01, …, 1 with the most right choices; of several, the one nearest to their mean.

    Args:
        first, second: log P of each sentence under two models, [Q, choices].
        answers: int64 [Q].
    """
    right = np.array([np.count_nonzero(choose(mix(first, second, weight)) == answers) for weight in WEIGHTS])
    best = WEIGHTS[right == right.max()]
    return float(best[np.abs(best - best.mean()).argmin()])


def cross_fitted(
    first: Scores, second: Scores, answers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """Choose in each half of the questions (every second one) with the weight fitted on the other half.

    Returns:
        The choices, int64 [Q], and the weights used for the 1st, 3rd, … and for the 2nd, 4th, … questions.

    Raises:
        UserError: there are fewer than two questions.
    """
    if len(answers) < 2:
        raise UserError("one question leaves none to fit its weight to", do="give more questions, or the weight")
    half, choices, weights = np.arange(len(answers)) % 2, np.empty(len(answers), np.int64), []
    for part in (0, 1):
        here, other = half == part, half != part
        weights.append(fit_weight(first[other], second[other], answers[other]))
        choices[here] = choose(mix(first[here], second[here], weights[-1]))
    return choices, (weights[0], weights[1])
