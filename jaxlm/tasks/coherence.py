"""How coherent words are: whether they occur in the same documents more often than independent words would.

    NPMI(i, j) = log(p_ij / (p_i p_j)) / -log p_ij

where p_i is the share of documents that have word i, and p_ij that of documents that have both: 1 for words that occur
together only, 0 for independent ones, -1 for words that never occur together. The coherence of a topic is the mean over
pairs of its words, which agrees with people's judgement of topics.

Source: Bouma 2009; Lau, Newman and Baldwin 2014.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxlm.data.documents.collection import Documents


def npmi(documents: Documents, first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Compute the normalised pointwise mutual information of pairs of words: float64 [pairs].

    It is 0 where it is undefined: where a word of the pair is in no document, or both are in all documents.

    Args:
        documents: only whether a word occurs in a document counts, not how often.
        first: ids of the pairs' first words, int [pairs].
        second: ids of their second words, int [pairs].
    """
    there, number = (documents.counts > 0).tocsc().astype(np.float64), len(documents)
    one, other = there[:, np.asarray(first)], there[:, np.asarray(second)]
    alone = one.sum(axis=0), other.sum(axis=0)
    both = one.multiply(other).sum(axis=0)
    found = np.where((alone[0] > 0) & (alone[1] > 0), -1.0, 0.0)
    defined = (both > 0) & (both < number)
    ratio = number * both[defined] / (alone[0][defined] * alone[1][defined])
    found[defined] = np.log(ratio) / -np.log(both[defined] / number)
    found[both == number] = 0.0
    return found


def coherence(documents: Documents, words: ArrayLike) -> NDArray[np.float64]:
    """Return the mean NPMI of the pairs of words of each topic: float64 [topics].

    Args:
        words: ids of each topic's words, int [topics, n], n at least 2.
    """
    topics = np.asarray(words)
    first, second = np.triu_indices(topics.shape[1], 1)
    return npmi(documents, topics[:, first].ravel(), topics[:, second].ravel()).reshape(len(topics), -1).mean(axis=1)
