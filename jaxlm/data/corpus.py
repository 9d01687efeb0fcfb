"""From a user's files to a `Corpus`: training, validation and test text in one vocabulary."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxfit.errors import UserError
from jaxlm.data.contexts import split_validation
from jaxlm.data.default_text import Corpus, prose
from jaxlm.data.encoding import Encoded, build, encode
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary

NONE = np.zeros(0, np.int32)
LARGE = 1 << 26  # events of training text from which on its ids are kept in a file and not in memory
IDS = ".training-ids.bin"  # hidden: not a file of the model


class Texts(NamedTuple):
    """A corpus, the unknown words of each of its parts, and what a user should be told of them.

    Where validation was carved from the training text, `<unk>` as a word of the text counts as unknown too.
    """

    corpus: Corpus
    unknown: dict[str, int]
    notes: list[str]


def from_files(
    train: Sequence[str],
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    *,
    reading: Reading | None = None,
    vocabulary: Vocabulary | None = None,
    size: int | None = None,
    min_count: int = 1,
    carve: bool = True,
    directory: Path | None = None,
) -> Texts:
    """Read a corpus from files; with `carve`, take validation text from the training text if there is none.

    The vocabulary is that of the training text (`jaxlm.data.encoding.build`). The ids of a very large training text are
    written to `directory` and mapped into memory.

    Raises UserError as `jaxlm.data.encoding.build`, and for standard input named twice.
    """
    reading = reading or Reading()
    if [*train, *valid, *test].count("-") > 1:
        raise UserError("standard input cannot be read twice", "-", "name a file for one of them")
    _check_files([*valid, *test])  # before the long work
    with _place(directory) as out:
        words, encoded = build(train, reading, size, min_count, vocabulary, out, LARGE)
        parts = {"train": encoded}
        for name, files in (("valid", valid), ("test", test)):
            parts[name] = encode(files, words, reading) if files else Encoded(NONE, 0)
    notes = []
    ids = {name: part.ids for name, part in parts.items()}
    if carve and not valid:
        ids["train"], ids["valid"] = split_validation(encoded.ids, words.eos)
        lines = int(np.count_nonzero(ids["valid"] == words.eos))
        notes.append(
            f"no --valid: the last {lines:,} lines of the training text ({len(ids['valid']):,} of "
            f"{len(encoded.ids):,} events) are for validation"
        )
    digest = hashlib.sha256()
    for part in ("train", "valid"):  # not the test, which a resumed training may change
        digest.update(np.ascontiguousarray(ids[part], "<i4").data)
    digest.update("\n".join(words.words).encode())
    name = "standard input" if train[0] == "-" else Path(train[0]).name
    unknown = {name: part.unknown for name, part in parts.items()}
    if carve and not valid:
        unknown["valid"] = int(np.count_nonzero(ids["valid"] == words.unk))
    corpus = Corpus(
        name, ids["train"], ids["valid"], ids["test"], words, digest.hexdigest(), ", ".join(map(str, train)),
        reading=reading,
    )  # fmt: skip
    return Texts(corpus, unknown, notes)


def default(valid: Sequence[str] = (), test: Sequence[str] = (), min_count: int = 2) -> Texts:
    """The default data, CPython's prose, with other validation or test text where that is given."""
    corpus = prose(min_count)
    notes = [
        f"no --train: the default data is used, {corpus.note}, {len(corpus.train):,} events for training, "
        f"{len(corpus.valid):,} for validation, {len(corpus.test):,} for the test"
    ]
    unknown = {
        name: int(np.count_nonzero(getattr(corpus, name) == corpus.vocabulary.unk))
        for name in ("train", "valid", "test")
    }
    for name, files in (("valid", valid), ("test", test)):
        if files:
            part = encode(files, corpus.vocabulary, corpus.reading)
            unknown[name] = part.unknown
            corpus = corpus._replace(valid=part.ids) if name == "valid" else corpus._replace(test=part.ids)
    return Texts(corpus, unknown, notes)


def reading_of(info: dict) -> Reading:
    """How a model's training text was read, from what its `config.json` holds; new text is read likewise."""
    known = {field.name for field in dataclasses.fields(Reading)}
    stored = info.get("corpus", {}).get("reading", {})
    return Reading(**{name: value for name, value in stored.items() if name in known})


@contextlib.contextmanager
def _place(directory: Path | None) -> Iterator[Path | None]:
    """Name a file in a folder; no empty folder is left behind, and nothing at all if all fails."""
    if directory is None:
        yield None
        return
    there = directory.is_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory / IDS
    except BaseException:
        (directory / IDS).unlink(missing_ok=True)
        raise
    finally:
        if not there:
            with contextlib.suppress(OSError):  # the ids are in it
                directory.rmdir()


def _check_files(files: Sequence[str]) -> None:
    for file in files:
        if file != "-" and not os.path.exists(file):
            raise UserError("there is no such file", file, "check the name")
