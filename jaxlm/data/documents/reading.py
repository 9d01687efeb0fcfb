"""A `DocumentCorpus` of a user's files, and documents for a trained model."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.files.opening import require_read_once
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.documents.parsing import Bags, format_of, read, read_words
from jaxlm.data.files import EOS
from jaxlm.data.vocabulary import UNK, LeftOut, Vocabulary

UNUSED, UNUSED_SHARE = 1_000_000, 100  # numbers of words that no document has: so many, and so many times the others
PART = 20  # one document in so many is used for validation where no other is given


class DocumentFiles(NamedTuple):
    """A data set of documents as a command reads it."""

    corpus: DocumentCorpus
    unknown: dict[str, int]  # number of words outside the vocabulary in "train", "valid" and "test"; see `encode`
    notes: list[str]  # messages for the user


def from_files(
    train: Sequence[str],
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    *,
    reading: DocumentReading | None = None,
    vocabulary: str | None = None,
    size: int | None = None,
    min_count: int | None = None,
    stop_words: str | None = None,
    carve: bool = True,
) -> DocumentFiles:
    """Read documents from files, in the vocabulary of the training documents.

    Args:
        train, valid, test: names of files, of one format.
        reading: how they are read; its format is by default that of the first file, the first id 0 where training or
            validation documents have a word 0.
        vocabulary: file of the words, one a line; those of counts are in the order of their numbers.
        size: number of words, the most frequent ones, of texts.
        min_count: minimum count of a word of texts; None: 2, but 1 where all words occur once, and with `size`.
        stop_words: file of words that texts are read without; they are preprocessed like texts.
        carve: whether to take validation documents from the training documents if no validation files are given.

    Raises:
        UserError: as `parsing.read`; the documents have no words; options that the format does not take, or that have
            no effect beside a given vocabulary.
    """
    require_read_once([*train, *valid, *test, vocabulary, stop_words])
    for file in [*valid, *test]:  # before the training documents are read, which may take long
        if file != "-" and not os.path.exists(file):
            raise UserError("there is no such file", file, "check the name")
    reading = reading or DocumentReading()
    if reading.format is None:
        if train[0] == "-":
            raise UserError("the format of standard input is not known", "-", "give --format text or counts")
        reading = replace(reading, format=format_of(train[0], reading.encoding))  # type: ignore[arg-type]
    _check(reading, vocabulary, size, min_count, stop_words)
    notes: list[str] = []
    given = None if vocabulary is None else read_words(vocabulary)
    if given is not None and len(given) < 2:
        raise UserError("the vocabulary has fewer than two words", vocabulary, "name at least two")
    files = {"train": train, "valid": valid, "test": test}
    bags = {name: read(named, reading) for name, named in files.items() if named}
    if reading.format == "counts":
        if reading.first_id is None:
            known = [bags[name].counts.indices for name in ("train", "valid") if name in bags]
            reading = replace(reading, first_id=int(not any(np.any(ids == 0) for ids in known)))
            notes.append(f"the words' numbers begin with {reading.first_id}; otherwise give --first-id")
        words = _of_numbers(bags["train"], given, reading)
    else:
        left_out = set() if stop_words is None else {reading.prepare(word).strip() for word in read_words(stop_words)}
        words = _of_text(bags["train"], given, size, min_count, left_out)
    parts, others, strict = {}, {}, vocabulary is not None
    for name in files:
        found = bags.get(name)
        parts[name], others[name] = _empty(words) if found is None else in_vocabulary(found, words, reading, strict)
    if not parts["train"].num_words:
        raise UserError("no word of the training documents is in the vocabulary", train[0], "check --vocab")
    if valid and not parts["valid"].num_words:
        raise UserError("no word of the validation documents is in the vocabulary", valid[0], "give other documents")
    notes = [*notes, _describe(parts["train"], words, others["train"].sum(), reading)]
    if carve and not valid:
        rest, chosen = split_validation(parts["train"])
        parts["train"], parts["valid"] = parts["train"].take(rest), parts["train"].take(chosen)
        others["train"], others["valid"] = others["train"][rest], others["train"][chosen]
        notes.append(f"no --valid: {len(parts['valid']):,} training documents, drawn at random, are for validation")
    words = replace(words, counts=np.asarray(parts["train"].counts.sum(axis=0, dtype=np.int64)))
    digest = content_sha256(parts["train"], parts["valid"], words)
    name = "standard input" if train[0] == "-" else Path(train[0]).name
    corpus = DocumentCorpus(name, **parts, vocabulary=words, sha256=digest, note=", ".join(train), reading=reading)
    return DocumentFiles(corpus, {name: int(number.sum()) for name, number in others.items()}, notes)


def _check(
    reading: DocumentReading, vocabulary: str | None, size: int | None, min_count: int | None, stop_words: str | None
) -> None:
    """Raise a UserError for options of the other format, and for those that have no effect with a given vocabulary."""
    of_texts: dict[str, Any] = {
        "--vocab-size": size, "--min-count": min_count, "--stop-words": stop_words,
        "--labelled": reading.labelled or None,
    }  # fmt: skip
    wrong, other = (of_texts, "text") if reading.format == "counts" else ({"--first-id": reading.first_id}, "counts")
    for option, value in wrong.items():
        if value is not None:
            what = f"it is for documents of the other format, and these are {reading.format}"
            raise UserError(what, option, f"leave it out, or give --format {other}")
    for option, value in {"--vocab-size": size, "--min-count": min_count, "--stop-words": stop_words}.items():
        if vocabulary is not None and value is not None:
            raise UserError("the words are those of --vocab", option, "leave one of the two out")


def encode(files: Sequence[str], vocabulary: Vocabulary, reading: DocumentReading) -> tuple[Documents, int]:
    """Read documents in the vocabulary of a trained model, as its training documents were read.

    Returns:
        The documents, and the number of their words outside the vocabulary, whose counts `log_counts` replaces like
        those of other words.

    Raises:
        UserError: as `parsing.read`; no word is in the vocabulary.
    """
    documents, others = in_vocabulary(read(files, reading), vocabulary, reading)
    if not documents.num_words:
        what = "no word of the documents is in the model's vocabulary"
        raise UserError(what, files[0], f"the model reads documents as {reading.format}")
    return documents, int(others.sum())


def _of_numbers(bags: Bags, given: list[str] | None, reading: DocumentReading) -> Vocabulary:
    """Return the words of files of counts, in the order of their numbers, which name them where no file does.

    Raises:
        UserError: there are fewer than two words, or a number is far above how many words there are.
    """
    assert reading.first_id is not None
    used = np.unique(bags.counts.indices)
    if given is None and used.max(initial=0) > UNUSED + UNUSED_SHARE * len(used):
        what = f"word {used[-1]}, and the documents have {len(used):,} different words"
        raise UserError(what, bags.place_of(used[-1]), "number words from 0 or 1 on, or name them: --vocab FILE")
    words = given or [str(number) for number in range(reading.first_id, bags.counts.shape[1])]
    if len(words) < 2:
        raise UserError("the documents have fewer than two different words", bags.files[0][0], "train on more")
    return Vocabulary(tuple(words))


def _of_text(
    bags: Bags, given: list[str] | None, size: int | None, min_count: int | None, stop_words: set[str]
) -> Vocabulary:
    """Return the given words, or the most frequent ones of texts, by their counts and then by name."""
    assert bags.words is not None
    if given is not None:
        return Vocabulary(tuple(given))
    counts = dict(zip(bags.words, bags.counts.sum(axis=0, dtype=np.int64).tolist(), strict=True))
    order = sorted(counts.keys() - stop_words - {EOS, UNK}, key=lambda word: (-counts[word], word))
    if min_count is None:
        min_count = 1 if size is not None or not order or counts[order[0]] == 1 else 2
    chosen = [word for word in order[:size] if counts[word] >= min_count]
    if len(chosen) < 2:
        where = bags.files[0][0]
        raise UserError("fewer than two words are left in the vocabulary", where, "train on more, or lower --min-count")
    out = sum(counts.values()) - sum(counts[word] for word in chosen)
    return Vocabulary(tuple(chosen), None, LeftOut(len(counts) - len(chosen), out, "of texts"))


def in_vocabulary(
    bags: Bags, vocabulary: Vocabulary, reading: DocumentReading, strict: bool = False
) -> tuple[Documents, NDArray[np.int64]]:
    """Return documents as counts of the words of a vocabulary, and the number of other words of each, [documents].

    Args:
        strict: whether numbers past the vocabulary's end are errors.

    Raises:
        UserError: a word has a number that the vocabulary does not have.
    """
    if bags.words is None:
        assert reading.first_id is not None
        used = np.unique(bags.counts.indices)
        last = reading.first_id + len(vocabulary) - 1
        wrong = used[(used < reading.first_id) | ((used > last) & strict)]
        if len(wrong):
            what = f"word {wrong[0]}, and the words have the numbers {reading.first_id} to {last}"
            raise UserError(what, bags.place_of(wrong[0]), "number them so, or train with other --first-id or --vocab")
        word = bags.counts.indices.astype(np.int64) - reading.first_id
        word[word >= len(vocabulary)] = -1
    else:
        word = np.array([vocabulary.ids.get(word, -1) for word in bags.words], np.int64)[bags.counts.indices]
    table = bags.counts
    document = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    known = word >= 0
    times = np.rint(np.log1p(table.data)).astype(np.int32) if reading.log_counts else table.data
    counts = counted(document[known], word[known], (table.shape[0], len(vocabulary)), times[known])
    others = np.bincount(document[~known], times[~known], minlength=table.shape[0]).astype(np.int64)
    return Documents(counts, bags.labels), others


def _empty(vocabulary: Vocabulary) -> tuple[Documents, NDArray[np.int64]]:
    nothing: NDArray[np.int64] = np.zeros(0, np.int64)
    return Documents(counted(nothing, nothing, (0, len(vocabulary))), ()), nothing


def split_validation(documents: Documents, part: int = PART) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Take validation documents from training documents: one in `part` of those with words (at least one), at random.

    Returns:
        The numbers of the documents that are left, and of those for validation.

    Raises:
        UserError: there are fewer than two documents with words.
    """
    usable = np.flatnonzero(documents.lengths)
    if len(usable) < 2:
        what = "the training documents with words are too few to take validation from"
        raise UserError(what, do="give --valid FILE")
    drawn = np.random.default_rng(0).permutation(len(usable))[: max(1, len(usable) // part)]
    chosen = np.zeros(len(documents), np.bool_)
    chosen[usable[drawn]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _describe(documents: Documents, vocabulary: Vocabulary, unknown: int, reading: DocumentReading) -> str:
    """Say what was read."""
    kept = documents.num_words
    empty = int(np.count_nonzero(documents.lengths == 0))
    without = f", {empty:,} of them without words" if empty else ""
    out = f"; {unknown:,} other words are left out" if unknown else ""
    logs = ", each count n replaced by log(1 + n)" if reading.log_counts else ""
    return f"{len(documents):,} documents{without}, {kept:,} words of {len(vocabulary):,} different ones{logs}{out}"
