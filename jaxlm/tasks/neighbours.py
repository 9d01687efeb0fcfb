"""Words whose feature vectors are near one another: point in the same direction, or lie at the same place."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import NotInTraining, suggestion
from jaxlm.data.vocabulary import Vocabulary

TINY = 1e-30  # least length of a vector that another is divided by
ROUNDING = 1e-5  # of cosines in float32, at most


def unit_vectors(vectors: ArrayLike) -> NDArray[np.float64]:
    """Return the rows of a table of word vectors, [N_w, N_f], at length 1; a zero row stays zero."""
    table = np.asarray(vectors, np.float64)
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), TINY)


def has_vector(vectors: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows of a table are not zero, [N_w]: words that training never saw beside others have zero rows."""
    return np.any(np.asarray(vectors), axis=1)


def lengths(vectors: ArrayLike) -> NDArray[np.float64]:
    """Return the lengths of the rows of a table, [N_w], without a copy of it in float64."""
    table = np.asarray(vectors)
    return np.sqrt(np.einsum("nf,nf->n", table, table, dtype=np.float64))


def nearest(vectors: ArrayLike, word: int, top: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the `top` words nearest to `word`, other than itself and words without a vector, and their cosines.

    Words are found by products in the table's own precision, without a copy of it. The cosines of those found, and of
    all that rounding errors may have ranked below them, are then computed in float64.

    Args:
        vectors: [N_w, N_f].
        word: its row.
        top: number of words; fewer are returned if fewer have a vector.

    Returns:
        Rows, the nearest first, and their cosines: both [k], k <= top.
    """
    table = np.asarray(vectors)
    sizes = lengths(table)
    unit = table[word] / max(sizes[word], TINY)
    cosines = np.full(len(table), -np.inf)
    np.divide(table @ unit.astype(table.dtype), sizes, out=cosines, where=sizes > 0)
    cosines[word] = -np.inf
    top = min(top, int(np.count_nonzero(cosines > -np.inf)))
    if top == 0:
        return np.zeros(0, np.intp), np.zeros(0)
    near = np.flatnonzero(cosines >= np.partition(cosines, -top)[-top] - ROUNDING)
    exact = np.einsum("nf,f->n", table[near], unit, dtype=np.float64) / sizes[near]
    best = np.argsort(-exact, kind="stable")[:top]
    return near[best], exact[best]


class Neighbour(NamedTuple):
    """A word near another."""

    word: str
    cosine: float  # of the angle between their vectors


def of_word(vectors: ArrayLike, vocabulary: Vocabulary, word: str, top: int) -> list[Neighbour]:
    """Return the `top` words nearest to a word by the cosine of their vectors, as `nearest`.

    Raises:
        NotInTraining: the word is not in the vocabulary, or has no vector.
    """
    found = find(vocabulary, word)
    if not np.any(np.asarray(vectors)[found]):
        raise NotInTraining(
            f"{word!r} has no vector", do="it is zero: training saw the word beside no other, or the file has zeros"
        )
    ids, cosines = nearest(vectors, found, top)
    return [Neighbour(vocabulary.words[i], float(c)) for i, c in zip(ids, cosines, strict=True)]


def shared(first: ArrayLike, second: ArrayLike, top: int) -> NDArray[np.float64]:
    """Return the share of each row's nearest rows that two tables of vectors of the same words have in common.

    Args:
        first: [N, D], one vector for each word.
        second: [N, D'], other vectors of the same words, in the same order: of another model, or fewer dimensions.
        top: how many nearest rows of each row are compared, by Euclidean distance.

    Returns:
        float64 [N], 0 to 1; top / (N - 1) on average for vectors that have nothing to do with one another.
    """
    both = near(first, top) & near(second, top)
    return both.sum(axis=1) / top


def near(vectors: ArrayLike, top: int) -> NDArray[np.bool_]:
    """Return which `top` rows are the nearest of each row of a table [N, D], by Euclidean distance: bool [N, N]."""
    table = np.asarray(vectors, np.float64)
    centred = table - table.mean(axis=0)  # large common parts would cost digits
    squares = np.sum(centred**2, axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * centred @ centred.T
    np.fill_diagonal(distances, np.inf)
    found = np.zeros(distances.shape, np.bool_)
    np.put_along_axis(found, np.argsort(distances, axis=1, kind="stable")[:, :top], True, axis=1)
    return found


def find(vocabulary: Vocabulary, word: str) -> int:
    """Return the id of a word; raises NotInTraining, with a similar word, for one that is not in the vocabulary."""
    if word in vocabulary.ids:
        return vocabulary.ids[word]
    close = suggestion(repr(word), map(repr, vocabulary.words)) if len(vocabulary) < 200_000 else ""
    advice = close if close.startswith("did you") else "words are written as in the training text"
    raise NotInTraining(f"{word!r} is not in the model's vocabulary", do=advice)
