"""The vocabulary: which words there are, their ids, and how often the training text has each."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from jaxfit.errors import UserError
from jaxlm.data.files import EOS, Reading, Source, chunks

UNK = "<unk>"


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words a model knows; a word's id is its place, by falling training count, then by name.

    `<eos>` and, where the training text has words outside the vocabulary, `<unk>` are entries like any other.
    """

    words: tuple[str, ...]
    counts: np.ndarray | None = None  # int64 [N_w]: training counts, `<eos>` once a line
    ids: dict[str, int] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) < len(self.words):
            raise ValueError("a word stands twice in the vocabulary")
        if EOS not in ids:
            raise ValueError(f"the vocabulary lacks {EOS}")
        object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def eos(self) -> int:
        """Return the id of the line end."""
        return self.ids[EOS]

    @property
    def unk(self) -> int | None:
        """Return the id that stands for words outside the vocabulary, if there is one."""
        return self.ids.get(UNK)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], size: int | None = None, min_count: int = 1
    ) -> "Vocabulary":
        """Choose the vocabulary: the `size` most frequent words that occur at least `min_count` times.

        `size` counts all entries, `<eos>` and `<unk>` too. What is left out is counted under `<unk>`; where
        nothing is, there is no `<unk>` unless the text has it as a word.

        Raises:
            UserError: fewer than two words in the text, or no room for one besides `<eos>` and `<unk>`.
        """
        if len(counts) - (EOS in counts) < 2:
            raise UserError("the text has fewer than two different words", do="train on a larger text")
        if size is not None and size < 3:
            raise UserError(
                f"a vocabulary of {size} has no room for a word", do=f"it holds {EOS}, {UNK}: give 3 or more"
            )
        order = sorted((w for w in counts if w != EOS), key=lambda w: (-counts[w], w))
        kept = [w for w in order if counts[w] >= min_count or w == UNK]
        if size is not None and len(kept) + (UNK not in kept and len(kept) < len(order)) + 1 > size:
            kept = [w for w in kept if w != UNK][: size - 2]
        if not kept or kept == [UNK]:
            raise UserError("no word is left in the vocabulary", f"minimum count {min_count}", "lower it")
        return cls.from_words(kept, counts)

    @classmethod
    def from_words(cls, kept: Iterable[str], counts: Mapping[str, int]) -> "Vocabulary":
        """Order chosen words by their counts, with `<eos>`, and `<unk>` for what `counts` has beyond them."""
        chosen = {w: int(counts.get(w, 0)) for w in (*kept, EOS)}
        outside = [n for w, n in counts.items() if w not in chosen]
        if outside:
            chosen[UNK] = chosen.get(UNK, 0) + int(sum(outside))
        words = tuple(sorted(chosen, key=lambda w: (-chosen[w], w)))
        return cls(words, np.array([chosen[w] for w in words], np.int64))

    def save(self, path: Source) -> None:
        """Write one line per entry, in the order of ids: the word and, after a tab, its count."""
        counts = [""] * len(self) if self.counts is None else [f"\t{n}" for n in self.counts]
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.writelines(f"{w}{n}\n" for w, n in zip(self.words, counts, strict=True))

    @classmethod
    def load(cls, path: Source) -> "Vocabulary":
        """Read what `save` wrote, or a user's list of words, one a line, with or without counts.

        Raises:
            UserError: a word twice, a blank inside a word, a count that is none, no `<eos>`, an empty file.
        """
        words: dict[str, int] = {}
        counts: list[int] = []
        lines = "".join(chunks(path, Reading())).split("\n")[:-1]
        for number, line in enumerate(lines, 1):
            word, tab, count = line.rstrip("\r").partition("\t")
            where = f"{path}, line {number}"
            if word.encode().split() != [word.encode()]:
                raise UserError(
                    "not one word on the line", where, "write one word a line, then tab and count or nothing"
                )
            if word in words:
                raise UserError(
                    f"the word {word!r} stands twice, first on line {words[word]}",
                    where,
                    "remove one of them",
                )
            words[word] = number
            if tab:
                if not (count.isascii() and count.isdigit()):
                    raise UserError(
                        f"{count!r} is no count", where, "write the word, a tab and a whole number"
                    )
                counts.append(int(count))
        if EOS not in words:
            raise UserError(f"the vocabulary has no line end {EOS}", path, f"add a line {EOS}")
        if counts and len(counts) < len(words):
            raise UserError(
                "some words have counts and some have none", path, "give all of them counts or none"
            )
        return cls(tuple(words), np.array(counts, np.int64) if counts else None)
