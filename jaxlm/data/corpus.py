"""A corpus: training, validation and test text in one vocabulary, and what identifies it."""

import dataclasses
import hashlib
import weakref
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxlm.data.files import CHUNK, Reading
from jaxlm.data.vocabulary import Vocabulary

LEFT_OUT = "left out of the vocabulary"  # in what `config.json` holds of a corpus


class Corpus(NamedTuple):
    """An encoded data set for language models."""

    name: str
    train: np.ndarray  # int32 [events], as are valid and test
    valid: np.ndarray
    test: np.ndarray
    vocabulary: Vocabulary
    sha256: str  # identifies the data that a model is trained on
    note: str  # a description of the data, shown beside results
    reading: Reading = Reading()  # how the text was read; text given to a trained model is read likewise

    def word_counts(self) -> np.ndarray:
        """Return how often each word is an event of the training text: int64 [N_w]."""
        return word_counts(self.train, len(self.vocabulary))

    def sizes(self) -> dict[str, dict[str, int]]:
        """Return how many events training, validation and test have."""
        return {"events": {"train": len(self.train), "valid": len(self.valid), "test": len(self.test)}}

    def describe(self) -> dict[str, Any]:
        """Return what `config.json` holds about it, and what a resumed training compares."""
        left_out = self.vocabulary.left_out
        return {
            "name": self.name,
            "source sha256": self.sha256,
            "sha256": content_sha256(self.train, self.valid, self.vocabulary),
            "words": len(self.vocabulary),
            **({} if left_out is None else {LEFT_OUT: left_out._asdict()}),
            "training events": len(self.train),
            "validation events": len(self.valid),
            "reading": dataclasses.asdict(self.reading),
        }


def word_counts(ids: np.ndarray, num_words: int) -> np.ndarray:
    """Return how often each word is an event of a text, ids [events]: int64 [N_w]."""
    counts = np.zeros(num_words, np.int64)
    for first in range(0, len(ids), CHUNK):  # np.bincount makes a wider copy of what it counts
        counts += np.bincount(ids[first : first + CHUNK], minlength=num_words)
    return counts


def counts_beside_others(ids: np.ndarray, num_words: int, eos: int) -> np.ndarray:
    """Return how often each word of a text, ids [events], is beside another on its line: int64 [N_w], 0 for `eos`."""
    words = np.pad(ids != eos, 1)
    return word_counts(ids[words[1:-1] & (words[:-2] | words[2:])], num_words)


class Texts(NamedTuple):
    """A corpus as a command reads it."""

    corpus: Corpus
    unknown: dict[str, int]  # number of unknown words in "train", "valid" and "test"
    notes: list[str]  # messages for the user


def coverage_note(ids: np.ndarray, vocabulary: Vocabulary, unknown: int) -> str:
    """Say how many words of a validation text, ids [events], are in the vocabulary."""
    words = int(np.count_nonzero(ids != vocabulary.eos))
    share = 100 * (1 - unknown / max(words, 1))
    return f"validation text: {share:.1f} % of its {words:,} words are in the vocabulary"


def content_sha256(train: np.ndarray, valid: np.ndarray, vocabulary: Vocabulary) -> str:
    """Return the sha256 of encoded texts and their words.

    The test text is left out, as it may change when training is resumed. The last result is remembered: a corpus is
    hashed when it is read, and its digest is needed again by all that is made from it.
    """
    for known, digest in _digests:
        if all(ref() is value for ref, value in zip(known, (train, valid, vocabulary), strict=True)):
            return digest
    content = hashlib.sha256()
    for ids in (train, valid):
        content.update(np.ascontiguousarray(ids, "<i4").data)
    content.update("\n".join(vocabulary.words).encode())
    _digests[:] = [(tuple(map(weakref.ref, (train, valid, vocabulary))), content.hexdigest())]
    return content.hexdigest()


_digests: list[tuple[tuple[weakref.ref, ...], str]] = []


AnyReading = TypeVar("AnyReading", bound=Reading)


def reading_of(info: dict, kind: type[AnyReading] = Reading) -> AnyReading:  # type: ignore[assignment]
    """Return how a model's training text was read, from its `config.json`; new text is read in the same way."""
    known = {field.name for field in dataclasses.fields(kind)}
    stored = info.get("corpus", {}).get("reading", {})
    return kind(**{name: value for name, value in stored.items() if name in known})
