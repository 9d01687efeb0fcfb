"""How well cosines of word vectors agree with people's judgements of how similar, or related, two words are.

Source: Spearman's rank correlation with such scores, as since Finkelstein et al. 2002 (WordSim-353).
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxlm.data.tables import require_number, rows
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks.intervals import Interval, bootstrap
from jaxlm.tasks.neighbours import has_vector, unit_vectors

FEWEST = 3  # pairs, for a correlation
NUMBER = re.compile(r"[-+]?\.?\d")  # how a score begins


class Pairs(NamedTuple):
    """Pairs of words, and people's score of each: float64 [P]."""

    words: list[tuple[str, str]]
    scores: NDArray[np.float64]


class Agreement(NamedTuple):
    """Spearman's correlation over pairs, its bootstrap interval, and how many pairs lack a vector."""

    correlation: float
    interval: Interval
    pairs: int
    left_out: int


def read(path: Source, encoding: str = "utf-8") -> Pairs:
    """Read a table of two words and their score in each row; separators are detected (`jaxlm.data.tables.rows`).

    The first row is a header if no field after the second begins with a number. The score is the first such field of
    the first row of words; further columns are ignored.

    Raises:
        UserError: there is no such field, or a score is not a number; as `rows`.
    """
    words, scores, column = [], [], None
    for number, (fields, where) in enumerate(rows(path, encoding)):
        if column is None:
            column = next((i for i, field in enumerate(fields[2:], 2) if NUMBER.match(field)), None)
            if column is None and number == 0:
                continue
        if column is None or len(fields) <= column:
            raise UserError("the line is not two words and a score", where, "separate them by tabs or commas")
        words.append((fields[0], fields[1]))
        scores.append(require_number(fields[column], "the score", where))
    if not words:
        raise UserError("there are no pairs of words", path, "give two words and a score in each line")
    return Pairs(words, np.array(scores))


def cosines(vectors: ArrayLike, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the cosines of pairs of rows, int64 [P, 2], of a table [N_w, N_f]: float64 [P]."""
    first, second = (unit_vectors(np.asarray(vectors)[column]) for column in pairs.T)
    return np.einsum("pf,pf->p", first, second)


def spearman(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Compute Spearman's rank correlation along the last axis, ties taking their mean rank; NaN where one is constant.

    Args:
        x: [..., P].
        y: [..., P].
    """
    from scipy.stats import rankdata  # here, as it takes a while, and most commands do without it

    first, second = (rankdata(values, axis=-1) for values in (x, y))
    first, second = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (first, second))
    scale = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    return np.divide((first * second).sum(axis=-1), scale, out=np.full_like(scale, np.nan), where=scale > 0)


def compared(
    vectors: ArrayLike, vocabulary: Vocabulary, pairs: Pairs, prepare: Callable[[str], str] = str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the cosines of the pairs whose words both have a vector, people's scores of them, and which they are.

    Args:
        vectors: [N_w, N_f], of the vocabulary's words.
        vocabulary: the words.
        pairs: with words as in running text.
        prepare: changes a word to its form in the training text, for example to lower case.

    Returns:
        float64 [k] and [k], of k pairs; bool [P], of all.
    """
    ids = [[vocabulary.ids.get(prepare(word).strip(), -1) for word in words] for words in pairs.words]
    found = np.array(ids, np.int64).reshape(-1, 2)
    known: NDArray[np.bool_] = np.all((found >= 0) & has_vector(vectors)[found], axis=1)
    return cosines(vectors, found[known]), pairs.scores[known], known


def judge(
    vectors: ArrayLike, vocabulary: Vocabulary, pairs: Pairs, prepare: Callable[[str], str] = str, seed: int = 0
) -> Agreement:
    """Correlate the cosines of pairs with their scores.

    The other arguments are as in `compared`.

    Args:
        seed: of the bootstrap.
    """
    ours, people, _ = compared(vectors, vocabulary, pairs, prepare)
    left_out = len(pairs.words) - len(ours)
    if len(ours) < FEWEST:
        return Agreement(np.nan, (np.nan, np.nan), len(ours), left_out)
    interval = bootstrap(lambda drawn: spearman(ours[drawn], people[drawn]), len(ours), seed)
    return Agreement(float(spearman(ours, people)), interval, len(ours), left_out)
