"""How well a model predicts a text: log-probability, events, unknown words, perplexity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

LN10 = math.log(10)


@dataclass(frozen=True)
class Evaluation:
    """How well a model predicts a text.

    An event is a word or a line end. Unknown words are those outside the vocabulary; they are events too, predicted as
    `<unk>`.

    Attributes:
        log_prob: the sum of log P over its events, in nats.
        known: the same without the events that are `<unk>`, unknown words or a literal `<unk>` of the text; None where
            there is no separate sum of these.
        log_normalizer: mean and standard deviation over events of log Z, in nats, of a model whose scores training does
            not normalise; None for others. `log_prob` is of normalised probabilities nevertheless.
    """

    log_prob: float
    events: int
    unknown: int = 0
    known: Evaluation | None = None
    log_normalizer: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return f"<Evaluation: {self.show()}>"

    @property
    def perplexity(self) -> float:
        """exp(-1/N Σ log P(w_n | w_{1:n-1})) (Mnih 2010, §3.4.2); infinite where an event has no probability."""
        if self.events == 0:
            return math.nan
        mean = -self.log_prob / self.events
        return math.exp(mean) if mean < 700 else math.inf

    def record(self) -> dict[str, float]:
        """Return what records and JSON hold of it."""
        record: dict[str, float] = {
            "perplexity": self.perplexity, "events": self.events, "unknown": self.unknown, "log_prob": self.log_prob
        }  # fmt: skip
        if self.known is not None:
            record |= {"perplexity_without_unk": self.known.perplexity, "events_without_unk": self.known.events}
        if self.log_normalizer is not None:
            record |= dict(zip(("log_normalizer_mean", "log_normalizer_std"), self.log_normalizer, strict=True))
        return record

    def show(self, so_far: str = "") -> str:
        """Return it for people, in a line."""
        return f"perplexity{so_far} {self.perplexity:.2f} ({self.events:,} events, {self.unknown:,} unknown)"


def evaluate(log_probs: ArrayLike, unknown: int = 0, known: NDArray[np.bool_] | None = None) -> Evaluation:
    """Sum up a text's event log-probabilities.

    Args:
        log_probs: [events], in nats.
        unknown: how many of the events are unknown words.
        known: [events], false for those that are `<unk>`.
    """
    values = np.asarray(log_probs, np.float64)
    without = None if known is None else evaluate(values[known])
    return Evaluation(float(values.sum()), len(values), unknown, without)


def spread_of_normalizers(model: Model, ids: NDArray[np.int32]) -> tuple[float, float] | None:
    """Return mean and standard deviation of log Z over a text's events, in nats; None where training normalises."""
    found = model.log_normalizers(ids) if len(ids) else None
    return None if found is None else (float(found.mean()), float(found.std()))


def show_normalizers(log_normalizer: tuple[float, float]) -> str:
    """Return `Evaluation.log_normalizer` for people."""
    mean, deviation = log_normalizer
    return f"mean {mean:.3f}, standard deviation {deviation:.3f} nats (0 if normalized, as perplexities are)"


def line_log_probs(log_probs: NDArray[np.float64], ids: NDArray[np.int32], eos: int) -> NDArray[np.float64]:
    """Sum event log-probabilities [events] over each line, its end included: [lines].

    Raises:
        ValueError: the text does not end with a line end.
    """
    ends = np.flatnonzero(np.asarray(ids) == eos) + 1
    if len(ends) == 0 or ends[-1] != len(ids):
        raise ValueError("the text does not end with a line end")
    return np.add.reduceat(log_probs, np.concatenate([[0], ends[:-1]]))
