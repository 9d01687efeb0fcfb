"""Digests of texts and documents as they were read, which tell a change in how files are read."""

import hashlib
from collections.abc import Iterable

import numpy as np

from jaxlm.data.corpus import Corpus
from jaxlm.data.documents.collection import DocumentCorpus


def of_text(data: Corpus) -> str:
    """Return the sha256 of a text: the word ids of training, validation and test, and the words."""
    return _sha256(data.vocabulary.words, (data.train, data.valid, data.test))


def of_documents(data: DocumentCorpus) -> str:
    """Return the sha256 of documents: counts and labels of training, validation and test, and the words."""
    parts = data.train, data.valid, data.test
    labels = [repr(labels) for part in parts for labels in part.labels]
    counts = [part.counts for part in parts]
    return _sha256([*data.vocabulary.words, *labels], (a for c in counts for a in (c.indptr, c.indices, c.data)))


def _sha256(lines: Iterable[str], arrays: Iterable[np.ndarray]) -> str:
    """Hash lines, and arrays with their lengths, which say where each ends."""
    hashed = hashlib.sha256("\n".join(lines).encode())
    for array in arrays:
        hashed.update(f"\n{len(array)}\n".encode())
        hashed.update(np.ascontiguousarray(array, "<i4").data)
    return hashed.hexdigest()
