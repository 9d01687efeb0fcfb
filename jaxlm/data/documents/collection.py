"""Documents as counts of the words of a vocabulary, and training, validation and test documents as one data set."""

import dataclasses
import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from jaxlm.data.corpus import Corpus
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.files import EOS
from jaxlm.data.vocabulary import UNK, Vocabulary


@dataclasses.dataclass(frozen=True, eq=False)
class Documents:
    """Documents, each a bag of words.

    Attributes:
        counts: int32 [documents, N_w], how often each word occurs; ids ascend within a row, and no zero is stored.
        labels: of each document; () where it has none.
    """

    counts: csr_array
    labels: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return self.counts.shape[0]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of words of each document, D: int64 [documents]."""
        return np.asarray(self.counts.sum(axis=1, dtype=np.int64))

    @property
    def num_words(self) -> int:
        """The number of words of all documents."""
        return int(self.counts.sum(dtype=np.int64))

    def take(self, index: ArrayLike) -> "Documents":
        """Return the documents of these numbers, int [n], in this order."""
        chosen = np.asarray(index, np.int64)
        return Documents(self.counts[chosen], tuple(self.labels[i] for i in chosen))

    def with_words(self) -> "Documents":
        """Return the documents that have any words, which alone have a probability for each word."""
        return self.take(np.flatnonzero(self.lengths))


class DocumentCorpus(NamedTuple):
    """A data set of documents, as `jaxlm.data.corpus.Corpus` is one of lines."""

    name: str
    train: Documents
    valid: Documents
    test: Documents
    vocabulary: Vocabulary  # without `<eos>` and `<unk>`: documents have no line ends, and other words are left out
    sha256: str  # identifies the data that a model is trained on
    note: str  # a description of the data, shown beside results
    reading: DocumentReading = DocumentReading()  # documents given to a trained model are read likewise

    def word_counts(self) -> NDArray[np.int64]:
        """Return how often each word occurs in the training documents: int64 [N_w]."""
        return np.asarray(self.train.counts.sum(axis=0, dtype=np.int64))

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return how many documents and words training, validation and test have."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {
            "documents": {name: len(part) for name, part in parts.items()},
            "events": {name: part.num_words for name, part in parts.items()},
        }

    def describe(self) -> dict[str, Any]:
        """Return what `config.json` holds about it, and what a resumed training compares."""
        left_out = self.vocabulary.left_out
        return {
            "name": self.name,
            "source sha256": self.sha256,
            "sha256": content_sha256(self.train, self.valid, self.vocabulary),
            "words": len(self.vocabulary),
            **({} if left_out is None else {"left out of the vocabulary": left_out._asdict()}),
            "training documents": len(self.train),
            "training events": self.train.num_words,
            "validation documents": len(self.valid),
            "reading": dataclasses.asdict(self.reading),
        }


def content_sha256(train: Documents, valid: Documents, vocabulary: Vocabulary) -> str:
    """Return the sha256 of training and validation documents, without labels, and of the words."""
    content = hashlib.sha256()
    for counts in (train.counts, valid.counts):
        for array in (np.diff(counts.indptr), counts.indices, counts.data):
            content.update(np.ascontiguousarray(array, "<i4").data)
    content.update("\n".join(vocabulary.words).encode())
    return content.hexdigest()


def of_lines(corpus: Corpus) -> DocumentCorpus:
    """Return a text as documents, one for each line; line ends and `<unk>` are no words of documents."""
    kept = [word for word in corpus.vocabulary.words if word not in (EOS, UNK)]
    old = np.array([corpus.vocabulary.ids[word] for word in kept], np.int64)
    new = np.full(len(corpus.vocabulary), -1, np.int64)
    new[old] = np.arange(len(kept))

    def documents(ids: NDArray[np.int32]) -> Documents:
        ends = ids == corpus.vocabulary.eos
        line, word = (np.cumsum(ends) - ends)[~ends], new[ids[~ends]]
        number = int(ends.sum()) + int(len(ids) > 0 and not ends[-1])
        return Documents(counted(line[word >= 0], word[word >= 0], (number, len(kept))), ((),) * number)

    train, valid, test = map(documents, (corpus.train, corpus.valid, corpus.test))
    counts = corpus.vocabulary.counts
    words = Vocabulary(tuple(kept), None if counts is None else counts[old])
    return DocumentCorpus(corpus.name, train, valid, test, words, content_sha256(train, valid, words), corpus.note)


def counted(document: ArrayLike, word: ArrayLike, shape: tuple[int, int], times: ArrayLike | None = None) -> csr_array:
    """Count words in documents, int [n] each, each so many `times` (by default once): a table as in `Documents`."""
    ones = np.ones(np.shape(word), np.int32) if times is None else np.asarray(times, np.int32)
    table = csr_array((ones, (np.asarray(document), np.asarray(word))), shape=shape)
    table.sum_duplicates()
    return table
