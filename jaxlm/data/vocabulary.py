"""The vocabulary: words, their ids, and their counts in the training text."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from jaxfit.cli.input_files import Source
from jaxfit.errors import UserError
from jaxlm.data.files import EOS, Reading, chunks

UNK = "<unk>"


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words a model knows, in the order of their ids: by decreasing training count, then by name.

    `<eos>` is an entry like any other, and so is `<unk>` if the training text has words outside the vocabulary.
    """

    words: tuple[str, ...]
    counts: np.ndarray | None = None  # int64 [N_w]: training counts; `<eos>` occurs once per line
    ids: dict[str, int] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) < len(self.words):
            raise ValueError("the vocabulary has duplicate words")
        if EOS not in ids:
            raise ValueError(f"the vocabulary lacks {EOS}")
        object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def eos(self) -> int:
        """The id of the line end."""
        return self.ids[EOS]

    @property
    def unk(self) -> int | None:
        """The id of `<unk>`, which replaces words outside the vocabulary, if there is one."""
        return self.ids.get(UNK)

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], size: int | None = None, min_count: int = 1) -> "Vocabulary":
        """Choose the vocabulary: the `size` most frequent words that occur at least `min_count` times.

        `size` includes `<eos>` and `<unk>`. Words that are left out count as `<unk>`; if there are none, `<unk>` is
        an entry only if it is a word of the text.

        Raises:
            UserError: the text has fewer than two different words, or the vocabulary would have no word besides
                `<eos>` and `<unk>`.
        """
        if len(counts) - (EOS in counts) < 2:
            raise UserError("the text has fewer than two different words", do="train on a larger text")
        if size is not None and size < 3:
            do = f"give at least 3: {EOS} and {UNK} are included"
            raise UserError(f"a vocabulary of size {size} is too small", do=do)
        order = sorted((w for w in counts if w != EOS), key=lambda w: (-counts[w], w))
        chosen = [w for w in order if counts[w] >= min_count or w == UNK]
        if size is not None and len(chosen) + (UNK not in chosen and len(chosen) < len(order)) + 1 > size:
            chosen = [w for w in chosen if w != UNK][: size - 2]
        if not chosen or chosen == [UNK]:
            raise UserError("no word is left in the vocabulary", f"minimum count {min_count}", "lower it")
        return cls.from_words(chosen, counts)

    @classmethod
    def from_words(cls, chosen: Iterable[str], counts: Mapping[str, int]) -> "Vocabulary":
        """Order the chosen words and `<eos>` by their counts; all other words of `counts` count as `<unk>`."""
        entries = {w: int(counts.get(w, 0)) for w in (*chosen, EOS)}
        outside = [n for w, n in counts.items() if w not in entries]
        if outside:
            entries[UNK] = entries.get(UNK, 0) + int(sum(outside))
        words = tuple(sorted(entries, key=lambda w: (-entries[w], w)))
        return cls(words, np.array([entries[w] for w in words], np.int64))

    def save(self, path: Source) -> None:
        """Write one line per entry, in the order of ids: the word and, after a tab, its count if known."""
        counts = [""] * len(self) if self.counts is None else [f"\t{n}" for n in self.counts]
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.writelines(f"{w}{n}\n" for w, n in zip(self.words, counts, strict=True))

    @classmethod
    def load(cls, path: Source) -> "Vocabulary":
        """Read a file written by `save`, or a user's list of words, one per line, with or without counts.

        Raises:
            UserError: the file is empty or lacks `<eos>`, a word is a duplicate or contains white space, or a count
                is not a whole number or missing while other words have one.
        """
        words: dict[str, int] = {}
        counts: list[int] = []
        lines = "".join(chunks(path, Reading())).split("\n")[:-1]
        for number, line in enumerate(lines, 1):
            word, tab, count = line.rstrip("\r").partition("\t")
            where = f"{path}, line {number}"
            if word.encode().split() != [word.encode()]:
                do = "write one word per line, optionally followed by a tab and its count"
                raise UserError("the line does not hold exactly one word", where, do)
            if word in words:
                what = f"duplicate word {word!r}, first on line {words[word]}"
                raise UserError(what, where, "remove one of them")
            if tab and not (count.isascii() and count.isdigit() and len(count) < 19):  # of 64 bits
                raise UserError(f"invalid count {count!r}", where, "write the word, a tab and a whole number")
            words[word] = number
            if tab:
                counts.append(int(count))
        if EOS not in words:
            raise UserError(f"the vocabulary lacks the line end {EOS}", path, f"add a line {EOS}")
        if counts and len(counts) < len(words):
            raise UserError("only some words have counts", path, "give counts to all words or to none")
        return cls(tuple(words), np.array(counts, np.int64) if counts else None)
