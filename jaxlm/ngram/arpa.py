"""ARPA files, the text format of back-off models that SRILM, KenLM and most other toolkits read and write.

Logarithms are to base 10. The line end `<eos>` is written as `</s>`. The unigram `<s>` is never predicted and has
-99 for the logarithm of zero. `<unk>` is written like any other word; in files without it, `<UNK>` is read as `<unk>`.
"""

import codecs
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from jaxfit.caller import warn
from jaxfit.errors import UserError
from jaxfit.files.opening import lines_of, open_bytes
from jaxfit.run_dir.atomic import writing
from jaxlm.contract import LanguageModel
from jaxlm.data.files import EOS
from jaxlm.data.vocabulary import UNK
from jaxlm.ngram.counts import MAX_ORDER
from jaxlm.ngram.model import CAPABILITIES, LOG_ZERO, NGram, NoConfig, Table, find, wrong_sum

BEGIN, END = b"<s>", b"</s>"
LN10 = np.log(10)
LINES = 1 << 16  # number of lines written or read at a time
LARGEST_BACKOFF = 100.0  # log10, of any use
SUM_ERROR = 1e-3  # of the probabilities of all words: files may have few digits


def write(model: NGram, words: Sequence[str], path: Path) -> None:
    """Write a model as an ARPA file, gzipped if the name ends in `.gz`; `words` are in the order of their ids.

    Raises:
        UserError: an ARPA file cannot represent one of the words, or the file cannot be written.
    """
    if len(words) != model.vocab_size:
        raise ValueError(f"{len(words)} words for a model of {model.vocab_size}")
    for word in words:
        encoded = word.encode()
        if encoded in (BEGIN, END) or encoded.split() != [encoded]:
            what = f"the word {word!r} has another meaning in an ARPA file"
            raise UserError(what, path, "rename it in the training text")
    names = np.array([*words, BEGIN.decode()], object)
    names[model.eos] = END.decode()
    with writing(path) as file:
        _write_sections(model, names, file)


def _write_sections(model: NGram, names: NDArray[np.object_], file: IO[bytes] | gzip.GzipFile) -> None:
    sizes = "".join(f"ngram {k}={len(table.keys)}\n" for k, table in enumerate(model.tables, start=1))
    file.write(f"\\data\\\n{sizes}".encode())
    for k, table in enumerate(model.tables, start=1):
        file.write(f"\n\\{k}-grams:\n".encode())
        for start in range(0, len(table.keys), LINES):
            rows = slice(start, start + LINES)
            grams = map(" ".join, names[words_of(model, k, rows)].tolist())
            log_probs = map("{:.8g}".format, (np.minimum(table.log_prob[rows], 0) / LN10).tolist())
            backoffs = (f"\t{b:.8g}\n" if b else "\n" for b in (table.log_backoff[rows] / LN10).tolist())
            lines = zip(log_probs, grams, backoffs, strict=True)
            file.write("".join([f"{p}\t{gram}{b}" for p, gram, b in lines]).encode())
    file.write(b"\n\\end\\\n")


def words_of(model: NGram, k: int, rows: slice) -> NDArray[np.int64]:
    """Return the words of some k-grams, [rows, k], oldest word first."""
    columns = []
    ids = np.arange(len(model.tables[k - 1].keys))[rows]
    for table in model.tables[k - 1 :: -1]:
        ids, word = np.divmod(table.keys[ids], model.vocab_size + 1)
        columns.append(word)
    return np.stack(columns[::-1], axis=1)


def read(path: Path) -> tuple[NGram, tuple[str, ...]]:
    """Read an ARPA file, gzipped or not; return the model and its words in the order of their ids.

    Words are in the order of the file's unigrams, with `</s>` as `<eos>` and without `<s>`. N-grams may be in any
    order, but the history of each must be in the file, as in files of SRILM and KenLM.

    Raises:
        UserError: the file cannot be read, or is not a complete and consistent model; it names the line.

    Warns:
        UserWarning: after one of a sample of histories, probabilities do not sum to one.
    """
    with open_bytes(path) as file:
        model, words = _Reader(path, file).model()
    wrong = wrong_sum(model, SUM_ERROR)
    if wrong is not None:
        history = " ".join(BEGIN.decode() if word == model.eos else words[word] for word in wrong[0])
        warn(
            f"the probabilities of the next word sum to {wrong[1]:.4g} after {history!r}, not to 1 ({path}) - its "
            "perplexity may not be comparable with others'; SRILM renormalises it by ngram -renorm"
        )
    return model, words


class _Reader:
    """An ARPA file being read: the number of the last line read, and the words and tables so far."""

    def __init__(self, path: Path, file: IO[bytes]):
        self.path, self.lines, self.number = path, lines_of(file, path), 0
        self.ids: dict[bytes, int] = {}
        self.tables: list[Table] = []

    def model(self) -> tuple[NGram, tuple[str, ...]]:
        """Read the whole file."""
        sizes, line = self.sizes()
        for k, size in enumerate(sizes, start=1):
            if line != b"\\%d-grams:" % k:
                raise self.error(f"expected \\{k}-grams:, found {_shown(line)}")
            self.tables.append(self.table(k, size))
            line = self.next_line()
        if line != b"\\end\\":
            raise self.error(f"expected \\end\\, found {_shown(line)}")
        *names, _ = self.ids  # in the order of their ids, <s> the last
        ours = {END: EOS} if UNK.encode() in self.ids else {END: EOS, b"<UNK>": UNK}
        words = tuple(ours.get(name) or name.decode() for name in names)
        return NGram(len(words), words.index(EOS), tuple(self.tables)), words

    def sizes(self) -> tuple[list[int], bytes]:
        """Read up to the heading of the unigrams; return the number of n-grams of each order, and the heading."""
        for line in self.lines:
            self.number += 1
            if line.removeprefix(codecs.BOM_UTF8).strip() == b"\\data\\":
                break
        else:
            what = "it is no ARPA file (it has no line \\data\\), nor word vectors (no first line of two numbers)"
            raise UserError(what, self.path, "name a model's folder, or such a file")
        sizes: list[int] = []
        while (line := self.next_line()).startswith(b"ngram"):
            order, _, size = line.removeprefix(b"ngram").partition(b"=")
            if order.strip() != b"%d" % (len(sizes) + 1) or not (size.strip().isdigit() and len(size) < 19):
                raise self.error(f"expected ngram {len(sizes) + 1}=<number>, found {_shown(line)}")
            sizes.append(int(size))
        if not 1 <= len(sizes) <= MAX_ORDER:
            raise self.error(f"n-grams of order {len(sizes)}, not 1 to {MAX_ORDER}")
        return sizes, line

    def table(self, k: int, size: int) -> Table:
        """Read and sort the k-grams, once those of all lower orders are read."""
        first = self.number + 1
        pieces = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
        for start in range(0, size, LINES):
            grams, before, after = self.grams(k, size, range(start, min(size, start + LINES)))
            keys = self.add_words(grams) if k == 1 else self.keys(grams)
            pieces.append((keys, np.array(before), np.array(after)))
        keys, log_prob, log_backoff = map(np.concatenate, zip(*pieces, strict=True))
        if k == 1:
            keys, log_prob, log_backoff = self.add_begin(keys, log_prob, log_backoff)
        by_key = np.argsort(keys, kind="stable")
        duplicates = np.flatnonzero(np.diff(keys[by_key]) == 0)
        if len(duplicates):
            raise self.error(f"duplicate {k}-gram", first + int(np.min(by_key[duplicates + 1])))
        with np.errstate(over="ignore"):  # to -infinity
            in_nats, backoff = log_prob[by_key] * LN10, log_backoff[by_key] * LN10
        return Table(keys[by_key], np.clip(in_nats, LOG_ZERO, 0), np.maximum(backoff, LOG_ZERO))

    def grams(self, k: int, size: int, rows: range) -> tuple[list[list[bytes]], list[float], list[float]]:
        """Read some lines of the `size` k-grams: their words, log-probabilities and back-off weights."""
        grams, log_prob, log_backoff = [], [], []
        for row in rows:
            line = next(self.lines, b"")
            self.number += 1
            fields = line.split()
            if not fields or fields[0].startswith(b"\\"):
                raise self.error(f"only {row} of {size} {k}-grams")
            try:
                prob = _number(fields[0])
                backoff = _number(fields[k + 1]) if len(fields) == k + 2 else 0.0
                # Rounding by the program that wrote the file can make a log-probability slightly positive.
                valid = prob < 1e-3 and backoff < LARGEST_BACKOFF and k + 1 <= len(fields) <= k + 2
            except ValueError:
                valid = False
            if not valid:
                words = "1 word" if k == 1 else f"{k} words"
                raise self.error(f"expected log10 P, {words} and optionally a back-off weight")
            grams.append(fields[1 : k + 1])
            log_prob.append(prob)
            log_backoff.append(backoff)
        return grams, log_prob, log_backoff

    def add_words(self, unigrams: list[list[bytes]]) -> NDArray[np.int64]:
        """Assign ids to words in the order of their lines and return these, -1 for `<s>`."""
        for number, (word,) in enumerate(unigrams, start=self.number - len(unigrams) + 1):
            if word in self.ids:
                raise self.error(f"duplicate word {_shown(word)}", number)
            if word == EOS.encode():
                raise self.error(f"{EOS} stands for {END.decode()} here, and is a word of the file", number)
            try:
                word.decode()
            except UnicodeDecodeError:
                raise self.error("a word that is not UTF-8", number) from None
            if word != BEGIN:
                self.ids[word] = len(self.ids)
        return np.array([self.ids.get(word, -1) for (word,) in unigrams], np.int64)

    def add_begin(self, keys: NDArray, log_prob: NDArray, log_backoff: NDArray) -> tuple[NDArray, ...]:
        """Assign the last id to `<s>`, and append a row for it if the file has none; its log-probability is -99."""
        if END not in self.ids:
            raise self.error(f"no {END.decode()} among the unigrams")
        self.ids[BEGIN] = len(self.ids)
        if np.all(keys >= 0):
            keys, log_prob, log_backoff = np.append(keys, -1), np.append(log_prob, 0), np.append(log_backoff, 0)
        begin = keys < 0  # KenLM writes 0 for its log-probability
        return np.where(begin, self.ids[BEGIN], keys), np.where(begin, -99, log_prob), log_backoff

    def keys(self, grams: list[list[bytes]]) -> NDArray[np.int64]:
        """Return the keys of the n-grams read last, of order 2 or more."""
        columns = [[self.ids.get(word, -1) for word in column] for column in zip(*grams, strict=True)]
        keys, *words = np.array(columns, np.int64)
        for table, word in zip(self.tables, words, strict=True):
            history = find(table.keys, keys)
            keys = np.where((history < 0) | (word < 0), -1, history * len(self.ids) + word)
        if np.any(keys < 0):
            row = int(np.argmax(keys < 0))
            gram = _shown(b" ".join(grams[row]))
            number = self.number - len(grams) + 1 + row
            raise self.error(f"the file lacks a word or the history of {gram}", number)
        return keys

    def next_line(self) -> bytes:
        """Return the next line that is not blank, without surrounding white space."""
        for line in self.lines:
            self.number += 1
            if line := line.strip():
                return line
        raise self.error("the file ends before \\end\\")

    def error(self, what: str, number: int | None = None) -> UserError:
        line = self.number if number is None else number
        return UserError(what, f"{self.path}, line {line}", "create the ARPA file again")


def _number(text: bytes) -> float:
    """Return a number as programs write it; Python would read `1_0` as 10."""
    if b"_" in text:
        raise ValueError("an underscore in a number")
    return float(text)


def _shown(line: bytes) -> str:
    return repr(line[:60].decode(errors="replace"))


MODEL = LanguageModel(
    name="arpa",
    about="n-grams of an ARPA file, of any program",
    source="SRILM, KenLM",
    config=NoConfig,
    fitting=None,
    capabilities=CAPABILITIES,
)
