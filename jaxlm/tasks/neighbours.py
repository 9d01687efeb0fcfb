"""Words whose feature vectors are near one another: point in the same direction, or lie at the same place."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import NotInTraining, suggestion
from jaxlm.data.vocabulary import Vocabulary


def unit_vectors(vectors: ArrayLike) -> NDArray[np.float64]:
    """Return the rows of a table of word vectors, [N_w, N_f], at length 1; a zero row stays zero."""
    table = np.asarray(vectors, np.float64)
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)


def has_vector(vectors: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows of a table are not zero, [N_w]: words that training never saw beside others have zeros."""
    return np.any(np.asarray(vectors), axis=1)


def nearest(units: NDArray[np.float64], word: int, top: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the `top` words nearest to `word`, itself left out, and their cosines.

    Args:
        units: of `unit_vectors`.
    """
    cosines = np.einsum("nd,d->n", units, units[word])
    cosines[word] = -np.inf
    ids = np.argsort(-cosines, kind="stable")[: min(top, len(units) - 1)]
    return ids, cosines[ids]


class Neighbour(NamedTuple):
    """A word near another."""

    word: str
    cosine: float  # of the angle between their vectors


def of_word(units: NDArray[np.float64], vocabulary: Vocabulary, word: str, top: int) -> list[Neighbour]:
    """Return the `top` words nearest to a word by the cosine of their vectors.

    Args:
        units: of `unit_vectors`.

    Raises:
        NotInTraining: the word is not in the vocabulary, or has no vector.
    """
    found = find(vocabulary, word)
    if not units[found].any():
        raise NotInTraining(f"{word!r} has no vector", do="it is beside no other word in the training text")
    ids, cosines = nearest(units, found, top)
    return [Neighbour(vocabulary.words[i], float(c)) for i, c in zip(ids, cosines, strict=True)]


def shared(first: ArrayLike, second: ArrayLike, top: int) -> NDArray[np.float64]:
    """Return which share of each row's nearest rows is the same in two tables of vectors of the same words.

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
    """Return which `top` rows are the nearest of each row of a table [N, D], by Euclidean distance: [N, N]."""
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
