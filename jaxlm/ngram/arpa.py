"""ARPA files, the text form of back-off models that SRILM, KenLM and most others read and write.

Logarithms are to base 10 there. The line end `<eos>` is written `</s>`; `<s>` stands among the unigrams
with -99 for the logarithm of zero, since it is never predicted; `<unk>` is written as the word it is here.
"""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing
from jaxlm.contract import LanguageModel
from jaxlm.data.files import EOS
from jaxlm.ngram.counted import CAPABILITIES, NoConfig
from jaxlm.ngram.counts import MAX_ORDER
from jaxlm.ngram.model import LOG_ZERO, NGram, Table, find

BEGIN, END = b"<s>", b"</s>"
LN10 = np.log(10)
LINES = 1 << 16  # written or read at a time


def write(model: NGram, words: Sequence[str], path: Path) -> None:
    """Write a model as an ARPA file, gzipped if the name ends in `.gz`; `words` gives each id its word.

    Raises `UserError` for words that an ARPA file cannot hold, and where the file cannot be written.
    """
    if len(words) != model.vocab_size:
        raise ValueError(f"{len(words)} words for a model of {model.vocab_size}")
    for word in words:
        encoded = word.encode()
        if encoded in (BEGIN, END) or encoded.split() != [encoded]:
            raise UserError(
                f"the word {word!r} has another meaning in an ARPA file",
                path,
                "rename it in the training text",
            )
    names = np.array([*words, BEGIN.decode()], object)
    names[model.eos] = END.decode()
    with replacing(path) as aside, open(aside, "wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:  # no name or time: same model, same bytes
                _write_sections(model, names, file)
        else:
            _write_sections(model, names, raw)


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
    """Return the words of some k-grams, [rows, k], oldest first."""
    columns = []
    ids = np.arange(len(model.tables[k - 1].keys))[rows]
    for table in model.tables[k - 1 :: -1]:
        ids, word = np.divmod(table.keys[ids], model.vocab_size + 1)
        columns.append(word)
    return np.stack(columns[::-1], axis=1)


def read(path: Path) -> tuple[NGram, tuple[str, ...]]:
    """Read an ARPA file, gzipped or not; return the model and its words in the order of their ids.

    Words keep the order of the file's unigrams; `</s>` becomes `<eos>`, and `<s>` is no word.
    N-grams may stand in any order, but the history of each must be in the file, as SRILM and KenLM write it.

    Raises `UserError`, with the number of the line, for a file that is not a whole and consistent model.
    """
    try:
        with open(path, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if zipped:
                with gzip.open(raw) as file:
                    return _Reader(path, file).model()
            return _Reader(path, raw).model()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read: {reason}", path, "name an ARPA file, whole") from error


class _Reader:
    """An ARPA file being read: the number of the last line taken from it, and what has come so far."""

    def __init__(self, path: Path, file: IO[bytes] | gzip.GzipFile):
        self.path, self.lines, self.number = path, iter(file), 0
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
        *names, _ = sorted(self.ids, key=self.ids.__getitem__)
        words = tuple(EOS if name == END else name.decode() for name in names)
        return NGram(len(words), words.index(EOS), tuple(self.tables)), words

    def sizes(self) -> tuple[list[int], bytes]:
        """Read to the heading of the unigrams; return the number of n-grams of each order, and that line."""
        while self.next_line() != b"\\data\\":
            pass
        sizes: list[int] = []
        while (line := self.next_line()).startswith(b"ngram"):
            order, _, size = line.removeprefix(b"ngram").partition(b"=")
            if order.strip() != b"%d" % (len(sizes) + 1) or not size.strip().isdigit():
                raise self.error(f"expected ngram {len(sizes) + 1}=<number>, found {_shown(line)}")
            sizes.append(int(size))
        if not 1 <= len(sizes) <= MAX_ORDER:
            raise self.error(f"n-grams up to order {len(sizes)}, where 1 to {MAX_ORDER} can be read")
        return sizes, line

    def table(self, k: int, size: int) -> Table:
        """Read the k-grams, after those of all orders before, and sort them."""
        first = self.number + 1
        pieces = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
        for start in range(0, size, LINES):
            grams, before, after = self.grams(k, size, range(start, min(size, start + LINES)))
            keys = self.add_words(grams) if k == 1 else self.keys(grams)
            pieces.append((keys, np.array(before), np.array(after)))
        keys, log_prob, log_backoff = map(np.concatenate, zip(*pieces, strict=True))
        if k == 1:
            keys, log_prob, log_backoff = self.end_words(keys, log_prob, log_backoff)
        by_key = np.argsort(keys, kind="stable")
        twice = np.flatnonzero(np.diff(keys[by_key]) == 0)
        if len(twice):
            raise self.error(f"a {k}-gram for the second time", first + int(np.min(by_key[twice + 1])))
        in_nats = (
            np.clip(log_prob[by_key] * LN10, LOG_ZERO, 0),
            np.maximum(log_backoff[by_key] * LN10, LOG_ZERO),
        )
        return Table(keys[by_key], *in_nats)

    def grams(self, k: int, size: int, rows: range) -> tuple[list[list[bytes]], list[float], list[float]]:
        """Read some lines of the `size` k-grams: their words and the numbers before and after them."""
        grams, log_prob, log_backoff = [], [], []
        for row in rows:
            line = next(self.lines, b"")
            self.number += 1
            fields = line.split()
            if not fields or fields[0].startswith(b"\\"):
                raise self.error(f"{row} {k}-grams where {size} are announced")
            try:
                prob = float(fields[0])
                backoff = float(fields[k + 1]) if len(fields) == k + 2 else 0.0
                # Rounding in the program that wrote the file may lift a logarithm a little above 0.
                valid = prob < 1e-3 and backoff < np.inf and k + 1 <= len(fields) <= k + 2
            except ValueError:
                valid = False
            if not valid:
                raise self.error(f"expected log10 P, {k} word{'s' * (k > 1)} and perhaps a back-off weight")
            grams.append(fields[1 : k + 1])
            log_prob.append(prob)
            log_backoff.append(backoff)
        return grams, log_prob, log_backoff

    def add_words(self, unigrams: list[list[bytes]]) -> NDArray[np.int64]:
        """Give words ids in the order of their lines and return these, -1 for `<s>`."""
        for number, (word,) in enumerate(unigrams, start=self.number - len(unigrams) + 1):
            if word in self.ids or word == EOS.encode():
                raise self.error(f"the word {_shown(word)} for the second time", number)
            try:
                word.decode()
            except UnicodeDecodeError:
                raise self.error("a word that is not UTF-8", number) from None
            if word != BEGIN:
                self.ids[word] = len(self.ids)
        return np.array([self.ids.get(word, -1) for (word,) in unigrams], np.int64)

    def end_words(self, keys: NDArray, log_prob: NDArray, log_backoff: NDArray) -> tuple[NDArray, ...]:
        """Give `<s>` the last id, and a row where it has none."""
        if END not in self.ids:
            raise self.error(f"no {END.decode()} among the unigrams")
        self.ids[BEGIN] = len(self.ids)
        if np.all(keys >= 0):
            keys, log_prob, log_backoff = (
                np.append(keys, -1),
                np.append(log_prob, -99),
                np.append(log_backoff, 0),
            )
        return np.where(keys < 0, self.ids[BEGIN], keys), log_prob, log_backoff

    def keys(self, grams: list[list[bytes]]) -> NDArray[np.int64]:
        """Return the keys of the n-grams read last, none of them unigrams."""
        columns = [[self.ids.get(word, -1) for word in column] for column in zip(*grams, strict=True)]
        keys = np.array(columns[0], np.int64)
        missing = keys < 0
        for table, column in zip(self.tables, columns[1:], strict=True):
            word = np.array(column, np.int64)
            history = find(table.keys, np.where(missing, -1, keys))
            missing |= (history < 0) | (word < 0)
            keys = history * len(self.ids) + word
        if np.any(missing):
            row = int(np.argmax(missing))
            gram = _shown(b" ".join(grams[row]))
            number = self.number - len(grams) + 1 + row
            raise self.error(f"{gram} has a word or a history that is not in the file", number)
        return keys

    def next_line(self) -> bytes:
        """Return the next line that is not blank."""
        for line in self.lines:
            self.number += 1
            if line := line.strip():
                return line
        raise self.error("the file ends before \\end\\")

    def error(self, what: str, number: int | None = None) -> UserError:
        line = self.number if number is None else number
        return UserError(what, f"{self.path}, line {line}", "write the ARPA file again")


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
