"""Analogies by vector offset: a is to b as c is to the word whose vector is nearest to b - a + c.

Source: Mikolov, Yih and Zweig 2013 (the offset), Levy and Goldberg 2014 (its name, 3CosAdd). The questions, their
sections and the restriction to frequent words are word2vec's (`questions-words.txt`, `compute-accuracy`).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxlm.data.files import EOS, Reading, read_lines
from jaxlm.data.vocabulary import UNK, Vocabulary
from jaxlm.tasks.neighbours import TINY, has_vector, lengths

BLOCK = 1 << 25  # cosines at a time: 128 MB


class Questions(NamedTuple):
    """Questions a b c d: a is to b as c is to d.

    Attributes:
        words: the four words of each question.
        section: of each question, a position in `names`.
        names: of the sections.
    """

    words: list[list[str]]
    section: list[int]
    names: list[str]


class Score(NamedTuple):
    """The numbers of a section's questions: those asked, those left out for unknown words, and those answered right."""

    name: str
    asked: int
    left_out: int
    right: int

    @property
    def accuracy(self) -> float:
        """The share of right answers; NaN where none is asked."""
        return self.right / self.asked if self.asked else math.nan


def read(path: Source, encoding: str = "utf-8") -> Questions:
    """Read questions, four words a line, in sections that begin with a line `: name`.

    Raises:
        UserError: a line has another number of words, or is in no section; there are no questions; as
            `jaxlm.data.files.chunks`.
    """
    found = Questions([], [], [])
    for number, line in enumerate(read_lines(path, Reading(encoding)), 1):
        words, where = line.split(), f"{path}, line {number}"
        if words and words[0].startswith(":"):
            found.names.append(line.strip().removeprefix(":").strip())
        elif words:
            if len(words) != 4:
                raise UserError(f"the line has {len(words)} words, not 4", where, "write `a b c d`: a to b as c to d")
            if not found.names:
                raise UserError("the question is in no section", where, "begin the file with a line `: name`")
            found.words.append(words)
            found.section.append(len(found.names) - 1)
    if not found.words:
        raise UserError("there are no questions", path, "write `a b c d`: a to b as c to d, below a line `: name`")
    return found


def candidates(vocabulary: Vocabulary, most_frequent: int | None = None) -> dict[str, int]:
    """Return the ids of the words that questions and answers may have: of the `most_frequent` words, or of all.

    `<eos>` and `<unk>` do not count as words.
    """
    order: Iterable[int] = range(len(vocabulary))
    if vocabulary.counts is not None:  # vocabularies of documents need not be in the order of their counts
        order = np.argsort(-vocabulary.counts, kind="stable").tolist()
    words = [word for word in map(vocabulary.words.__getitem__, order) if word not in (EOS, UNK)]
    return {word: vocabulary.ids[word] for word in words[:most_frequent]}


def answer(vectors: ArrayLike, questions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Answer each question by the row w, other than a, b, c, with the largest cos(w, b - a + c) (a, b, c of length 1).

    Args:
        vectors: [n, N_f], one for each word that questions and answers may have.
        questions: int64 [Q, 3], the rows of a, b and c.

    Returns:
        The rows of the answers, int64 [Q].
    """
    table = np.asarray(vectors, np.float32)
    sizes = np.maximum(lengths(table), TINY)[:, None]
    units = np.divide(table, sizes, out=np.empty_like(table), casting="same_kind")  # no copy of it in float64
    answers = np.empty(len(questions), np.int64)
    size = max(1, BLOCK // max(1, len(units)))
    for first in range(0, len(questions), size):
        asked = questions[first : first + size]
        a, b, c = (units[column] for column in asked.T)
        cosines = (b - a + c) @ units.T  # the length of b - a + c changes no order
        np.put_along_axis(cosines, asked, -np.inf, axis=1)
        answers[first : first + size] = cosines.argmax(axis=1)
    return answers


def marked(
    vectors: ArrayLike,
    vocabulary: Vocabulary,
    questions: Questions,
    prepare: Callable[[str], str] = str,
    most_frequent: int | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which questions are asked, as all their words have vectors, and which are answered right: bool [Q] each.

    Args:
        vectors: [N_w, N_f], of the vocabulary's words.
        vocabulary: the words.
        questions: with words as in running text.
        prepare: changes a word to its form in the training text, for example to lower case.
        most_frequent: the number of most frequent words to which questions and answers are restricted. None: all words.
    """
    there = has_vector(vectors)
    known = {word: i for word, i in candidates(vocabulary, most_frequent).items() if there[i]}
    row = {word: i for i, word in enumerate(known)}
    ids = np.array([[row.get(prepare(word).strip(), -1) for word in words] for words in questions.words], np.int64)
    ids = ids.reshape(-1, 4)
    asked: NDArray[np.bool_] = np.all(ids >= 0, axis=1)
    right = np.zeros(len(ids), np.bool_)
    if asked.any():
        right[asked] = answer(np.asarray(vectors)[list(known.values())], ids[asked, :3]) == ids[asked, 3]
    return asked, right


def judge(
    vectors: ArrayLike,
    vocabulary: Vocabulary,
    questions: Questions,
    prepare: Callable[[str], str] = str,
    most_frequent: int | None = None,
) -> list[Score]:
    """Score the answers to each section's questions; arguments as in `marked`."""
    asked, right = marked(vectors, vocabulary, questions, prepare, most_frequent)
    section = np.array(questions.section, np.int64)
    counts = [np.bincount(section[rows], minlength=len(questions.names)) for rows in (asked, ~asked, right)]
    return [Score(name, *map(int, numbers)) for name, *numbers in zip(questions.names, *counts, strict=True)]


def _total(name: str, scores: Sequence[Score]) -> Score:
    """Add up the scores of sections, under a name for all of them."""
    return Score(
        name, sum(s.asked for s in scores), sum(s.left_out for s in scores), sum(s.right for s in scores)
    )  # fmt: skip


def is_syntactic(section: str) -> bool:
    """Return whether a section's questions are syntactic, by its name."""
    return section.startswith("gram")


def totals(scores: Sequence[Score]) -> list[Score]:
    """Add up the semantic questions, the syntactic ones (whose sections begin with "gram"), and all."""
    syntactic = [score for score in scores if is_syntactic(score.name)]
    semantic = [score for score in scores if not is_syntactic(score.name)]
    return [_total("semantic", semantic), _total("syntactic", syntactic), _total("all", scores)]
