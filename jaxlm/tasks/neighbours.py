"""Words whose feature vectors point in the same direction."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError, suggestion
from jaxlm.data.vocabulary import Vocabulary


def unit_vectors(vectors: ArrayLike) -> NDArray[np.float64]:
    """Return the rows of a table of word vectors, [N_w, N_f], at length 1; a zero row stays zero."""
    table = np.asarray(vectors, np.float64)
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)


def nearest(units: NDArray[np.float64], word: int, top: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the `top` words nearest to `word`, itself left out, and their cosines; units: of `unit_vectors`."""
    cosines = np.einsum("nd,d->n", units, units[word])
    cosines[word] = -np.inf
    ids = np.argsort(-cosines, kind="stable")[: min(top, len(units) - 1)]
    return ids, cosines[ids]


def find(vocabulary: Vocabulary, word: str) -> int:
    """Return the id of a word; raises UserError, with a similar word, for one that is not in the vocabulary."""
    if word in vocabulary.ids:
        return vocabulary.ids[word]
    close = suggestion(word, vocabulary.words) if len(vocabulary) < 200_000 else ""
    advice = close if close.startswith("did you") else "words are written as in the training text"
    raise UserError(f"{word!r} is not in the model's vocabulary", do=advice)
