"""A `Corpus` of a user's files."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from jaxfit.errors import UserError
from jaxfit.files.opening import require_read_once
from jaxlm.data.corpus import Corpus, Texts, content_sha256, coverage_note, word_counts
from jaxlm.data.encoding import Encoded, build, encode
from jaxlm.data.files import CHUNK, Reading
from jaxlm.data.vocabulary import UNK, Vocabulary

# events of a text or pairs of words; more of them are stored in files, not in memory
# (`jaxfit.files.large_arrays.stored_in`)
LARGE = 1 << 26


def from_files(
    train: Sequence[str],
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    *,
    reading: Reading | None = None,
    vocabulary: Vocabulary | None = None,
    size: int | None = None,
    min_count: int | None = None,
    closed: bool = False,
    carve: bool = True,
) -> Texts:
    """Read a corpus from files, in the vocabulary of the training text.

    Args:
        train, valid, test: names of files.
        reading, vocabulary: as in `jaxlm.data.encoding.build`.
        size, min_count, closed: as in `jaxlm.data.vocabulary.Vocabulary.from_counts`: without them, words seen once
            become `<unk>`, unless the training text has `<unk>` itself.
        carve: whether to split validation text off the training text if no validation files are given.

    Raises:
        UserError: as `jaxlm.data.encoding.build`; standard input is named twice.
    """
    reading = reading or Reading()
    require_read_once([*train, *valid, *test])
    for file in [*valid, *test]:  # before the training text is read, which may take long
        if file != "-" and not os.path.exists(file):
            raise UserError("there is no such file", file or "''", "check the name")
    words, encoded = build(train, reading, size, min_count, vocabulary, closed)
    texts = {"train": encoded, "valid": encode(valid, words, reading), "test": encode(test, words, reading)}
    notes = [_describe_left_out(words, encoded)]
    if vocabulary is not None and vocabulary.unk is None:
        notes.append(f"the given vocabulary has no {UNK}: it is added")
    ids = {name: text.ids for name, text in texts.items()}
    unknown = {name: text.unknown for name, text in texts.items()}
    if carve and not valid:
        ids["train"], ids["valid"] = split_validation(encoded.ids, words.eos)
        words = replace(words, counts=word_counts(ids["train"], len(words)))
        lines = int(np.count_nonzero(ids["valid"] == words.eos))
        notes.append(
            f"no --valid: the last {lines:,} lines of the training text ({len(ids['valid']):,} of "
            f"{len(encoded.ids):,} events) are used for validation"
        )
        # a literal <unk> of the text is counted too: the ids do not tell them apart
        unknown["valid"] = int(np.count_nonzero(ids["valid"] == words.unk)) if encoded.unknown else 0
    if len(ids["valid"]):
        notes.append(coverage_note(ids["valid"], words, unknown["valid"]))
    name = "standard input" if train[0] == "-" else Path(train[0]).name
    digest = content_sha256(ids["train"], ids["valid"], words)
    corpus = Corpus(
        name, **ids, vocabulary=words, sha256=digest, note=", ".join(map(str, train)), reading=reading
    )  # fmt: skip
    return Texts(corpus, unknown, notes)


def _describe_left_out(vocabulary: Vocabulary, text: Encoded) -> str:
    """Say which words of the training text have become `<unk>`."""
    left_out, counts = vocabulary.left_out, vocabulary.counts
    assert left_out is not None
    assert counts is not None
    if vocabulary.unk is None:
        return f"closed vocabulary: without {UNK}, only texts of these {len(vocabulary):,} words can be evaluated"
    if left_out.words == 0 and counts[vocabulary.unk]:
        return f"the training text has its own {UNK}: all its other words are kept"
    if left_out.words == 0:
        return f"all words of the training text are kept; {UNK} stands for those that other texts add"
    share = 100 * left_out.occurrences / (len(text.ids) - counts[vocabulary.eos])
    advice = " - --min-count 1 keeps them" if left_out.rule == "seen once" else ""
    what = f"{left_out.words:,} words {left_out.rule} become {UNK}"
    if left_out.words == 1:
        what = f"1 word {left_out.rule} becomes {UNK}"
    return f"{what} ({share:.1f} % of the words of the training text){advice}"


def split_validation(ids: np.ndarray, eos: int, part: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Split validation text off a training text: its last lines, one in `part` (at least one).

    These are contiguous lines, not scattered ones, since neighbouring sentences share topics and names, which would
    make validation easier than a test on other text.

    Raises:
        UserError: the text has a single line.
    """
    firsts = range(0, len(ids), CHUNK)
    counts = [int(np.count_nonzero(ids[first : first + CHUNK] == eos)) for first in firsts]
    lines = sum(counts)
    if lines < 2:
        raise UserError("the training text has too few lines to take validation from", do="give --valid FILE")
    left = lines - max(1, lines // part)  # for training
    which = int(np.searchsorted(np.cumsum(counts), left))
    ends = np.flatnonzero(ids[firsts[which] :][:CHUNK] == eos)
    cut = firsts[which] + int(ends[left - sum(counts[:which]) - 1]) + 1
    return ids[:cut], ids[cut:]
