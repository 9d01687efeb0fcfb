"""The vocabulary: words, their ids, and their counts in the training text."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxlm.data.files import EOS, Reading, read_lines

UNK = "<unk>"


class LeftOut(NamedTuple):
    """The words of a training text that its vocabulary leaves out, which become `<unk>`."""

    words: int  # different ones
    occurrences: int
    rule: str  # which words these are, as in "seen once"


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words a model knows, in the order of their ids: by decreasing count in the text they are from, then by name.

    `<eos>` is an entry like any other, and so is `<unk>`, which a closed vocabulary lacks unless it is a word of the
    training text. Word vectors of other programs may lack `<eos>`, which models that predict words need. Vocabularies
    of documents have neither, and may be in another order: that of the numbers by which files of counts identify
    words.
    """

    words: tuple[str, ...]
    counts: np.ndarray | None = None  # int64 [N_w]: of training, without validation; `<eos>` once per line
    left_out: LeftOut | None = None  # None where the training text is not known
    ids: dict[str, int] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) < len(self.words):
            raise ValueError("the vocabulary has duplicate words")
        object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def eos(self) -> int:
        """The id of the line end; -1 where there is none."""
        return self.ids.get(EOS, -1)

    @property
    def unk(self) -> int | None:
        """The id of `<unk>`, which replaces words outside the vocabulary, if there is one."""
        return self.ids.get(UNK)

    @property
    def closed_advice(self) -> str:
        """Advice for messages about a word outside of a vocabulary without `<unk>`."""
        trained = self.left_out is not None
        other = "train without --closed-vocabulary" if trained else "a model that has it (SRILM: ngram-count -unk)"
        return f"the vocabulary has no {UNK}: use its words only, or {other}"

    @property
    def log_share_of_unknown(self) -> float:
        """The logarithm of the equal share of `<unk>` that each of the words left out has, in nats.

        0 if their number is unknown, or 0, as for a text that has `<unk>` itself. It makes sentences with unknown words
        comparable with others: `<unk>` has the probability of all words left out together.
        """
        return -math.log(max(1, self.left_out.words)) if self.left_out is not None else 0.0

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        size: int | None = None,
        min_count: int | None = None,
        closed: bool = False,
        where: object | None = None,
    ) -> "Vocabulary":
        """Choose the vocabulary: the `size` most frequent words that occur at least `min_count` times, and `<unk>`.

        Args:
            counts: of the words of the training text and of `<eos>`. All words that are left out count as `<unk>`.
            size: number of entries, `<eos>` and `<unk>` included.
            min_count: of all words but `<eos>` and `<unk>`. None: 2, but 1 for a text that has `<unk>` itself, with
                `size`, and where all words occur once.
            closed: take all words of the text and add no `<unk>`.
            where: the text's files, for messages.

        Raises:
            UserError: the text has fewer than two different words; the vocabulary would have no word besides `<eos>`
                and `<unk>`; a closed vocabulary is to leave out words.
        """
        if len(counts) - (EOS in counts) < 2:
            raise UserError("the text has fewer than two different words", where, "train on a larger text")
        if size is not None and size < 3:
            do = f"give at least 3: {EOS} and {UNK} are included"
            raise UserError(f"a vocabulary of size {size} is too small", do=do)
        if closed and (size, min_count) != (None, None):
            raise UserError("a closed vocabulary has all words of the text", do="give it no size and no minimum count")
        order = sorted((w for w in counts if w not in (EOS, UNK)), key=lambda w: (-counts[w], w))
        if min_count is None:
            keeps_all = closed or UNK in counts or size is not None or counts[order[0]] == 1
            min_count = 1 if keeps_all else 2
        chosen = [w for w in order if counts[w] >= min_count]
        rule = "seen once" if min_count == 2 else f"seen less than {min_count} times"
        if size is not None:
            rule = f"besides the {size - 2:,} most frequent" if len(chosen) > size - 2 else rule
            chosen = chosen[: size - 2]
        if not chosen:
            raise UserError("no word is left in the vocabulary", f"minimum count {min_count}", "lower it")
        return cls.from_words(chosen if closed and UNK not in counts else [*chosen, UNK], counts, rule)

    @classmethod
    def from_words(cls, chosen: Iterable[str], counts: Mapping[str, int], rule: str = "") -> "Vocabulary":
        """Order the chosen words and `<eos>` by their counts; all other words of `counts` count as `<unk>`.

        Args:
            chosen: words of the vocabulary.
            counts: of the words of the training text and of `<eos>`.
            rule: which words the others are, for messages.
        """
        entries = {w: int(counts.get(w, 0)) for w in (*chosen, EOS)}
        outside = [n for w, n in counts.items() if w not in entries]
        if outside:
            entries[UNK] = entries.get(UNK, 0) + int(sum(outside))
        words = tuple(sorted(entries, key=lambda w: (-entries[w], w)))
        left_out = LeftOut(len(outside), int(sum(outside)), rule if outside else "none")
        return cls(words, np.array([entries[w] for w in words], np.int64), left_out)

    def advice_to_agree(self, others: Collection[str], otherwise: str) -> str:
        """Return what to do about a model of other words; `otherwise`, unless one of the two alone has `<unk>`."""
        return "train both with --closed-vocabulary, or neither" if (UNK in self.ids) != (UNK in others) else otherwise

    def save(self, path: Source) -> None:
        """Write one line per entry, in the order of ids: the word and, after a tab, its count if known."""
        counts = [""] * len(self) if self.counts is None else [f"\t{n}" for n in self.counts]
        # `load` skips a U+FEFF at the beginning of a file: write one before that of the first word
        begin = "\ufeff" if self.words[0].startswith("\ufeff") else ""
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(begin)
            f.writelines(f"{w}{n}\n" for w, n in zip(self.words, counts, strict=True))

    @classmethod
    def load(cls, path: Source, left_out: LeftOut | None = None, line_end: bool = True) -> "Vocabulary":
        """Read a file written by `save`, or a user's list of words, one per line, with or without counts.

        Args:
            left_out: the words that are not in it, if known.
            line_end: whether `<eos>` must be in it, as it must except for documents.

        Raises:
            UserError: the file is empty, is not UTF-8 or lacks `<eos>`, a word is a duplicate or contains white space,
                or a count is not a whole number or missing while other words have one.
        """
        words: dict[str, int] = {}
        counts: list[int] = []
        advice = "write the vocabulary in utf-8"
        for number, line in enumerate(read_lines(path, Reading(), advice), 1):
            word, tab, count = line.partition("\t")
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
        if line_end and EOS not in words:
            raise UserError(f"the vocabulary lacks the line end {EOS}", path, f"add a line {EOS}")
        if counts and len(counts) < len(words):
            raise UserError("only some words have counts", path, "give counts to all words or to none")
        return cls(tuple(words), np.array(counts, np.int64) if counts else None, left_out)
