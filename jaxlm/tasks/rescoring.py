"""Rescoring of n-best lists: choosing among a speech recogniser's hypotheses with the help of a language model.

The score of a hypothesis is a weighted sum of four features: the recogniser's acoustic score, log10 P of its words
under the model, its number of words, and the recogniser's own language model score.

Source: Ostendorf et al. 1991 (rescoring n-best lists by a weighted sum whose weights minimise word errors).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxlm.data.files import Reading, read_lines
from jaxlm.data.tables import require_number, rows
from jaxlm.tasks.intervals import Interval, bootstrap

COLUMNS = ("utterance", "rank", "acoustic", "lm", "nwords", "hypothesis")
BLOCK = 1 << 22  # scores at a time
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Features(NamedTuple):
    """The features of a hypothesis, or their weights.

    Attributes:
        acoustic: log, to any base.
        model: log10 P of the words under the model.
        words: their number.
        recogniser: log10 P under the language model of the recogniser.
    """

    acoustic: float
    model: float
    words: float
    recogniser: float


class Hypothesis(NamedTuple):
    """One line of an n-best list: rank, scores as in `Features`, words.

    Attributes:
        rank: 1 for the best.
        where: its file and line.
    """

    rank: float
    acoustic: float
    recogniser: float
    num_words: float
    text: str
    where: str


class Outcome(NamedTuple):
    """Word errors of the hypothesis chosen for each utterance, and number of words of its reference: int64 [U] each."""

    errors: Ints
    words: Ints

    def rate(self) -> float:
        """Compute the word error rate; NaN without words."""
        return float(_rates(self, np.arange(len(self.errors))[None])[0])

    def interval(self) -> Interval:
        """Compute the bootstrap interval of the rate, over utterances."""
        return bootstrap(lambda drawn: _rates(self, drawn), len(self.errors))

    def difference(self, other: "Outcome") -> Interval:
        """Compute the bootstrap interval of this rate minus that of other choices for the same utterances."""
        return bootstrap(lambda drawn: _rates(self, drawn) - _rates(other, drawn), len(self.errors))


def _rates(outcome: Outcome, drawn: Ints) -> Floats:
    errors, words = (values[drawn].sum(axis=1) for values in outcome)
    return np.divide(errors, words, out=np.full(len(drawn), np.nan), where=words > 0)


def read(path: Source, encoding: str = "utf-8") -> dict[str, list[Hypothesis]]:
    """Read n-best lists by utterance, from a table whose first row names its columns.

    Columns, in any order: utterance; rank in its list; acoustic; lm, the log10 probability by the recogniser's language
    model; nwords, the number of words; hypothesis. Others are ignored.

    Raises:
        UserError: a column is missing, a row has another number of fields, a field that should be a number is not, or
            there are no hypotheses; as `jaxlm.data.tables.rows`.
    """
    lists: dict[str, list[Hypothesis]] = {}
    table = rows(path, encoding)
    header, where = next(table, ([], str(path)))
    missing = next((name for name in COLUMNS if name not in header), None)
    if missing is not None:
        raise UserError(f"there is no column {missing!r}", where, f"name the columns: {', '.join(COLUMNS)}")
    place = [header.index(name) for name in COLUMNS]
    for fields, where in table:
        if len(fields) != len(header):
            raise UserError(f"the line has {len(fields)} fields, not {len(header)}", where, "separate them by tabs")
        utterance, *numbers, text = (fields[i] for i in place)
        rank, acoustic, lm, words = (
            require_number(number, name, where) for number, name in zip(numbers, COLUMNS[1:], strict=False)
        )
        lists.setdefault(utterance, []).append(Hypothesis(rank, acoustic, lm, words, text, where))
    if not lists:
        raise UserError("there are no hypotheses", path, "give one in each line")
    return lists


def read_references(path: Source, utterances: Iterable[str], encoding: str = "utf-8") -> dict[str, list[str]]:
    """Read what was said in each of these utterances: a line has an utterance and its words; others are ignored.

    Raises:
        UserError: an utterance has two references or none; as `jaxlm.data.files.chunks`.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path, Reading(encoding)), 1):
        utterance, *words = line.split() or [""]
        if utterance in found:
            raise UserError(f"there are two references of {utterance}", f"{path}, line {number}", "remove one of them")
        if utterance:
            found[utterance] = words
    missing = next((name for name in utterances if name not in found), None)
    if missing is not None:
        raise UserError(f"there is no reference of {missing}", path, "write a line `utterance word word …` for each")
    return found


def read_noise(path: Source, encoding: str = "utf-8") -> set[str]:
    """Read the words of a file, which are noises; raises as `jaxlm.data.files.chunks`."""
    return {word for line in read_lines(path, Reading(encoding)) for word in line.split()}


def without(words: Sequence[str], noise: Collection[str]) -> list[str]:
    """Leave noises out."""
    return [word for word in words if word not in noise]


def word_errors(hypotheses: Sequence[Sequence[str]], reference: Sequence[str]) -> Ints:
    """Count the fewest substituted, deleted and inserted words that explain each hypothesis (Levenshtein distance).

    A row of the table of distances is computed for all hypotheses [H] at once. Along the row, insertions make
    D[j] = min_{k <= j} (c[k] + j - k), where c[k] is the distance without an insertion at the end.

    Returns:
        int64 [H].
    """
    ids = {word: i for i, word in enumerate(reference)}
    lengths = np.array([len(words) for words in hypotheses], np.int64)
    table = np.full((len(hypotheses), lengths.max(initial=0)), -1)
    for row, words in zip(table, hypotheses, strict=True):
        row[: len(words)] = [ids.get(word, -1) for word in words]
    column = np.arange(table.shape[1] + 1)
    distance = np.tile(column, (len(hypotheses), 1))
    for i, word in enumerate(reference, 1):
        best = np.minimum(distance[:, 1:] + 1, distance[:, :-1] + (table != ids[word]))
        best = np.concatenate([np.full((len(best), 1), i), best], axis=1)
        distance = np.minimum.accumulate(best - column, axis=1) + column
    return distance[np.arange(len(hypotheses)), lengths]


def first(hypotheses: Sequence[Hypothesis]) -> int:
    """Return the position of the recogniser's best hypothesis in a list: that with the lowest rank."""
    return min(range(len(hypotheses)), key=lambda i: hypotheses[i].rank)


def outcome(errors: Sequence[Ints], words: Sequence[int], chosen: Iterable[int]) -> Outcome:
    """Return the errors of the hypotheses that are chosen from each list.

    Args:
        errors: of each list's hypotheses, int64 [H].
        words: number of words of each reference.
        chosen: the position of the chosen hypothesis in each list.
    """
    return Outcome(np.array([wrong[i] for wrong, i in zip(errors, chosen, strict=True)]), np.array(words))


def features(hypotheses: Sequence[Hypothesis], model: ArrayLike) -> Floats:
    """Return the features of a list, [H, 4], in the order of `Features`.

    Args:
        model: log10 P of each hypothesis, [H].
    """
    known = np.array([(h.acoustic, 0.0, h.num_words, h.recogniser) for h in hypotheses])
    known[:, 1] = model
    return known


def choose(table: Floats, weights: ArrayLike) -> Ints:
    """Choose the hypothesis of a list with the largest score by each of G weights, the first of equal ones: int64 [G].

    Args:
        table: features, [H, 4].
        weights: [G, 4].
    """
    weights = np.asarray(weights, np.float64)
    size = max(1, BLOCK // len(table))
    parts = [weights[first : first + size] @ table.T for first in range(0, len(weights), size)]
    return np.concatenate([part.argmax(axis=1) for part in parts])


def grid(weights: Features) -> Floats:
    """Return the weights that `fit` tries, [G, 4], as multiples of those given.

    The acoustic weight is kept, since only ratios matter. The model's and the recogniser's are multiplied by 0 to 3, in
    steps of 1/8. The weight of words is the larger of the two, as given, multiplied by -1 to 1, in steps of 1/8.
    """
    model, recogniser = (np.linspace(0, 3, 25) * weight for weight in (weights.model, weights.recogniser))
    words = np.linspace(-1, 1, 17) * max(weights.model, weights.recogniser)
    axes = [np.unique(axis) for axis in ([weights.acoustic], model, words, recogniser)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 4)


def fit(errors: Ints, tried: Floats) -> Floats:
    """Return the weights with the fewest errors, [4]; of several, those nearest to their mean, relative to the ranges.

    Error counts are small integers, so that many weights have the fewest; those in the middle are the safest.

    Args:
        errors: of all utterances with each of the weights, int64 [G].
        tried: the weights, [G, 4].
    """
    best = tried[errors == errors.min()]
    spread = np.ptp(tried, axis=0)
    away = (best - best.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return best[(away**2).sum(axis=1).argmin()]


def leave_one_out(tables: Sequence[Floats], errors: Sequence[Ints], tried: Floats) -> tuple[Ints, Floats]:
    """Choose from each list with the weights that are fitted to all others.

    Args:
        tables: features of each list, [H, 4].
        errors: of each list's hypotheses, int64 [H].
        tried: weights, [G, 4].

    Returns:
        The choices, int64 [U], and the weights that are fitted to all lists, [4].

    Raises:
        UserError: there are fewer than two lists.
    """
    if len(tables) < 2:
        raise UserError("one list leaves none to fit its weights to", do="give more lists, or the weights")
    each = np.stack([wrong[choose(table, tried)] for table, wrong in zip(tables, errors, strict=True)])
    total = each.sum(axis=0)
    fitted = [fit(total - own, tried) for own in each]
    chosen = [choose(table, weights[None])[0] for table, weights in zip(tables, fitted, strict=True)]
    return np.array(chosen), fit(total, tried)
