"""A back-off n-gram model as sorted tables: queries, its file, and what the records of n-gram models share.

All smoothed models, with back-off or interpolated, have the same form, that of an ARPA file: each n-gram has its
log-probability, and the log-weight for backing off from it as a history:

    log P(w | h) = log_prob[h w]                       if h w is in the table
                 = log_backoff[h] + log P(w | h')      otherwise (weight 0 if h is not in the table),

where h' is h without its oldest word (Katz 1987). A query consists of binary searches over 64-bit keys, in NumPy.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.run_dir.arrays import read_npz
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.manifest import REPAIR
from jaxlm.capabilities import HasNGrams, PredictsWords
from jaxlm.contract import ByCounting
from jaxlm.ngram import counts

FILE = "ngram.npz"
FORMAT = 1
SUM_ERROR = 1e-5  # of the probabilities of all words
LOG_ZERO = -99 * np.log(10)  # how ARPA files write the logarithm of zero


class Table(NamedTuple):
    """The n-grams of one order."""

    keys: NDArray[np.int64]  # [G] ascending: id of the history, one order lower, * (N_w + 1) + word
    log_prob: NDArray[np.float64]  # [G], in nats
    log_backoff: NDArray[np.float64]  # [G], in nats; 0 for the highest order


@dataclass(frozen=True, eq=False)
class NGram:
    """An n-gram language model over words 0..vocab_size - 1, one of which is `eos`, the end of a line.

    `tables[k - 1]` holds the k-grams. The unigrams are all words, followed by `<s>`, the beginning of a line, which
    occurs in histories only.
    """

    vocab_size: int
    eos: int
    tables: tuple[Table, ...]

    @property
    def order(self) -> int:
        """The length n of the longest n-grams; histories have n - 1 words."""
        return len(self.tables)

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the numbers of n-grams by order, without `<s>`, which is no word."""
        return {f"{k}-grams": (len(table.keys) - (k == 1),) for k, table in enumerate(self.tables, start=1)}

    def event_log_probs(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return log P(w_i | the words before it in its line), in nats, for each event of a text.

        Args:
            ids: the words of each line, then `eos`. The history of a line's first word is `<s>`.
        """
        return self.score_events(ids)[0]

    def score_events(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return what `event_log_probs` returns, and the order (1 to n) of the longest n-gram found: both [events]."""
        ids = np.asarray(ids)
        if len(ids) == 0:
            return np.zeros(0), np.zeros(0, np.int64)
        counts.check_ids(ids, self.vocab_size)
        words, depth = counts.with_begin_markers(ids, self.vocab_size, self.eos)
        events = np.flatnonzero(depth > 1)
        log_prob, order = self.tables[0].log_prob[words], np.ones(len(words), np.int64)
        histories: NDArray[np.integer] = words
        levels = zip(self.tables, self.tables[1:], self._ends(words, depth), strict=False)
        for k, (table, longer, ends) in enumerate(levels, start=2):
            known = events[histories[events - 1] >= 0]
            log_prob[known] += table.log_backoff[histories[known - 1]]
            found = np.flatnonzero(ends >= 0)
            log_prob[found], order[found] = longer.log_prob[ends[found]], k
            histories = ends
        return log_prob[events], order[events]

    def log_prob(self, context: ArrayLike) -> NDArray[np.float64]:
        """Return the distribution log P(w | context) over all words, [N_w], in nats.

        Args:
            context: the preceding words, oldest first. Only words after the last `eos` count, with `<s>` before them;
                without an `eos` the context is within a line. `[eos]` is the beginning of a text.
        """
        given = np.asarray(context, np.int32).reshape(-1)
        counts.check_ids(given, self.vocab_size)
        ends = np.flatnonzero(given == self.eos)
        if len(ends):
            given = np.concatenate([[self.vocab_size], given[ends[-1] + 1 :]])
        given = given[max(0, len(given) - self.order + 1) :].astype(np.int32)
        log_prob = self.tables[0].log_prob[: self.vocab_size].copy()
        if len(given) == 0:
            return log_prob
        depth = np.arange(1, len(given) + 1, dtype=np.int32)
        histories = [int(given[-1]), *(int(ends[-1]) for ends in self._ends(given, depth))]
        size = self.vocab_size + 1
        for table, longer, history in zip(self.tables, self.tables[1:], histories, strict=False):
            if history < 0:  # a longer history may still exist, if a cut-off left this one out
                continue
            log_prob += table.log_backoff[history]
            # without <s>, the last of all words: some programs write n-grams that end in it
            start, stop = np.searchsorted(longer.keys, [history * size, history * size + self.vocab_size])
            followers = longer.keys[start:stop] - history * size
            log_prob[followers] = longer.log_prob[start:stop]
        return log_prob

    def _ends(self, words: NDArray[np.int32], depth: NDArray[np.int32]) -> Iterator[NDArray[np.int64]]:
        """Yield, for k = 2..n, the id of the k-gram that ends at each position, -1 if there is none."""
        shorter = words.astype(np.int64)
        for k, table in enumerate(self.tables[1:], start=2):
            at = np.flatnonzero(depth >= k)
            at = at[shorter[at - 1] >= 0]
            longer = np.full(len(words), -1, np.int64)
            longer[at] = find(table.keys, shorter[at - 1] * (self.vocab_size + 1) + words[at])
            yield longer
            shorter = longer


def log(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return natural logarithms, and `LOG_ZERO` for zero."""
    return np.log(probs, out=np.full(len(probs), LOG_ZERO), where=probs > 0)


def find(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each wanted key in the ascending `keys`, -1 if it is not among them."""
    if len(keys) == 0:
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def save(model: NGram, directory: Path) -> None:
    """Write the model atomically to `ngram.npz` in a directory; raises UserError where that fails."""
    arrays: dict[str, Any] = {
        "format": FORMAT, "vocab_size": model.vocab_size, "eos": model.eos, "order": model.order
    }  # fmt: skip
    for k, table in enumerate(model.tables, start=1):
        arrays |= {f"{name}_{k}": array for name, array in table._asdict().items()}
    with replacing(directory / FILE) as path, open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(directory: Path, vocab_size: int, eos: int, config: Any) -> NGram:
    """Read a model written by `save`, without unpickling.

    Raises:
        UserError: the file is missing, damaged, of another format, or of another vocabulary or order than the model's
            other files.
    """
    path = directory / FILE
    try:
        arrays = read_npz(path, "a damaged n-gram model", REPAIR)
        if (found := int(arrays["format"])) != FORMAT:
            raise UserError(f"an n-gram model of format {found}, not {FORMAT}", path, REPAIR)
        orders = range(1, int(arrays["order"]) + 1)
        tables = tuple(Table(*(arrays[f"{name}_{k}"] for name in Table._fields)) for k in orders)
        model = NGram(int(arrays["vocab_size"]), int(arrays["eos"]), tables)
    except FileNotFoundError:
        raise UserError("no n-gram model", path, "name the directory that `jaxlm train` wrote") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"a damaged n-gram model: {error}", path, REPAIR) from error
    problem = _problem(model)
    if problem:
        raise UserError(f"a damaged n-gram model: {problem}", path, REPAIR)
    sizes, expected = (model.vocab_size, model.eos, model.order), (vocab_size, eos, getattr(config, "order", 1))
    if sizes != expected:
        what = "the n-grams are over {:,} words, with line end {} and order {}; by the other files {:,}, {} and {}"
        what = what.format(*sizes, *expected)
        raise UserError(what, directory, f"its files are of different models: {REPAIR}")
    return model


def _problem(model: NGram) -> str | None:
    """Say what is wrong with the tables of a model; None if they are valid."""
    size = model.vocab_size + 1
    histories = 1
    for k, (keys, *values) in enumerate(model.tables, start=1):
        alike = all(value.dtype == np.float64 and value.shape == keys.shape for value in values)
        if keys.dtype != np.int64 or keys.ndim != 1 or not alike:
            return f"the arrays of its {k}-grams are of different lengths, or of other types"
        if len(keys) and not (keys[0] >= 0 and keys[-1] < histories * size and np.all(keys[1:] > keys[:-1])):
            return f"its {k}-grams are not in order"
        if not all(np.all(value < np.inf) for value in values):  # false for NaN
            return f"its {k}-grams have values that are not numbers"
        histories = len(keys)
    if not model.tables or len(model.tables[0].keys) != size or not 0 <= model.eos < model.vocab_size:
        return "its numbers of words differ"
    wrong = wrong_sum(model, SUM_ERROR)
    return None if wrong is None else f"the probabilities of the next word sum to {wrong[1]:.6g}"


def wrong_sum(model: NGram, tolerance: float) -> tuple[list[int], float] | None:
    """Return a history after which probabilities do not sum to one, and their sum; None if all of a sample do.

    Args:
        model: the model, whose tables are in order.
        tolerance: the largest error of a sum.
    """
    for context in _sample(model):
        with np.errstate(all="ignore"):
            total = float(np.exp(model.log_prob(context)).sum())
        if not abs(total - 1) < tolerance:  # true for NaN
            return context, total
    return None


def _sample(model: NGram) -> list[list[int]]:
    """Return some histories, as `log_prob` takes them: the beginning of a line, and three n-grams of each length."""
    size, histories = model.vocab_size + 1, [[model.eos]]
    for k in range(1, model.order):
        number = len(model.tables[k - 1].keys)
        for at in {0, number // 2, number - 1} if number else ():
            words, place = [], at
            for table in reversed(model.tables[:k]):
                place, word = divmod(int(table.keys[place]), size)
                words.append(word if word < model.vocab_size else model.eos)
            histories.append(words[::-1])
    return histories


@dataclass(frozen=True)
class NoConfig:
    """A model without options."""


@dataclass(frozen=True)
class OrderConfig:
    """What shapes a model of n-grams."""

    order: int = option(
        5, "length of the longest n-grams", f"words, 1 to {counts.MAX_ORDER}", high=counts.MAX_ORDER, first=True
    )  # fmt: skip


def by_counting(estimate: Callable[[np.ndarray, int, int, Any], NGram]) -> ByCounting:
    """Return a fitting by counting n-grams.

    Args:
        estimate: (ids, num_words, eos, config) -> NGram.
    """
    return ByCounting(estimate=estimate, save=save, load=load)


def _log_prob(trained: Any, history: np.ndarray) -> np.ndarray:
    """Predict after a line end, as `_event_log_probs` does."""
    return trained.params.log_prob(np.concatenate([[trained.vocabulary.eos], history]))


def _event_log_probs(trained: Any, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Score a text; every line begins afresh, whatever `fresh_lines` is."""
    return trained.params.event_log_probs(ids)


CAPABILITIES = (PredictsWords(_log_prob, _event_log_probs), HasNGrams())
