"""The contract between a model and the engine: pure functions of arrays, which take the model's `config` last.

A program is a value. Its functions are module-level and its config is a frozen dataclass, so that programs made
separately from equal configs are equal, and compile once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax import Array

from jaxfit.tables import gathered


class Mean(NamedTuple):
    """A weighted mean as a sum over examples and its count: float32 scalars, which add up over steps and devices."""

    total: Any
    count: Any


class Metric(NamedTuple):
    """How a mean is shown.

    Attributes:
        name: name of the metric.
        read: function applied to the mean before it is shown, such as np.exp to a mean in nats.
        decimals: number of decimals.
    """

    name: str
    read: Callable[[float], float]
    decimals: int = 4

    def show(self, mean: float) -> str:
        """Return the mean as people read it: "RMSE 0.9123"."""
        return f"{self.name} {self.read(mean):.{self.decimals}f}"


LOSS = Metric("loss", float)
Metrics = Mapping[str, Mean]  # by the names of a program's `loss_metrics`


class Carried(NamedTuple):
    """What `loss` and `score` of a sequential program receive: a minibatch, and the carry of each stream, [B, …]."""

    batch: Any
    carry: Any


@dataclass(frozen=True)
class Sparse:
    """Tables of which a step reads and writes only the rows that its minibatch uses.

    Attributes:
        touched: (batch, config) -> like params: int32[k] row ids of each such table, None for other parameters. Ids
            past the end of the table are padding.
        gradient: (weights, batch, weight, keys, config) -> (loss, Metrics, gradients), for a model with a faster way
            than differentiating gathered rows. It reads the `tables.Weights` of each parameter; a gradient is an
            array for a dense parameter, and a tuple of `tables.Part` for a table. The loss may be None where it is
            not computed. Where tables are split over devices, gathered rows are differentiated instead.
        preconditioned: whether `gradient` is another direction than the gradient of `loss`, so that tables cannot be
            split.
    """

    touched: Callable[[Any, Any], Any]
    gradient: Callable[..., tuple[Array | None, Metrics, Any]] | None = None
    preconditioned: bool = False


@dataclass(frozen=True)
class Ragged:
    """Examples of unequal size, concatenated into arrays of a static capacity.

    Attributes:
        costs: (data) -> int[N] or int[N, lists]: entries of each example, on the host. `batch` receives one capacity
            for each column.
    """

    costs: Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Decay:
    """What the recipe's decay λ means.

    Attributes:
        when: "every-step": w <- w (1 - ηλ). "per-row": ½λ|row|² is added once to the loss of the whole training
            set, so that a step shrinks rows in proportion to its examples. "when-touched": ½λ|row|² is added each
            time that a row is used.
        penalty: (params, batch, weight, config) -> like params, scalars: the SUM of weight * ½|row|² over the uses
            of each parameter's rows; for "when-touched" only. `params` are those that `loss` receives.
        share: of λ that is applied; for "per-row" only.
    """

    when: Literal["every-step", "per-row", "when-touched"] = "every-step"
    penalty: Callable[..., Any] | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Visits:
    """Several steps of SGD within an example, in training on one device, in place of the gradient of `loss`.

    Attributes:
        visit: (weights, data, example, rate, decay, config) -> (loss, Metrics, weights). example: int32 scalar; rate
            and decay: like params, scalars, decay being 0 unless it is "when-touched". A minibatch's examples are
            visited one after another.
    """

    visit: Callable[..., tuple[Array, Metrics, Any]]


@dataclass(frozen=True)
class Sequential:
    """Examples in their order, with a state that is carried from one to the next.

    An example is a window of consecutive events. Of B streams, stream b visits the windows b S … (b+1) S - 1, with
    S = ceil(N / B). `loss` and `score` receive `Carried(batch, carry)`, and return the new carry in addition.

    Attributes:
        start: (config) -> the initial carry of a stream, at each epoch's start.
        streams: number of streams that validation data are cut into.
        burn_in: examples before its own that each stream reads without counting them, so that its carry is not the
            initial one.
    """

    start: Callable[[Any], Any]
    streams: int = 8
    burn_in: int = 0


def num_rows(data: Any) -> int:
    """Return the number of examples: the length of the first axis of the arrays."""
    return len(jax.tree.leaves(data)[0])


def take_rows(data: Any, index: Array, capacity: Any, config: Any) -> Any:
    """Return the rows `index`, int32[B], of every array of `data`, the last one for indices past it."""
    return jax.tree.map(lambda array: array.at[index].get(mode="clip"), data)


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a model gives the engine; `params` may be any pytree of arrays.

    Attributes:
        config: a frozen dataclass, the last argument of the functions below.
        size: (data) -> int, the number of examples; by default data are arrays with a row for each.
        batch: (data, index: int32[B], capacity, config) -> batch: gathers a minibatch, by default these rows. capacity:
            the static number of ragged entries, one for each column of `Ragged.costs` (0 without).
        loss: (params, batch, weight: float32[B], keys: key[B], config) -> (scalar, Metrics): the SUM of weight * loss
            over the examples. Weight 0 is padding; there is one key for each example. A sparse program receives
            `tables.Gathered` rows in place of params.
        score: (params, batch, config) -> float32[B]: what validation averages, without noise: the sum over each
            example's events.
        metric: how the mean score is shown.
        training_metrics: how the means in the Metrics of `loss` are shown; (): by `metric`. Read it as `loss_metrics`.
        events: (data) -> int: how many events (words, ratings) scores are averaged over; None: one for each example.
        at_step: (batch, key, fraction, config) -> batch: in training, completes the minibatch by what depends on the
            step. The key is equal on all devices, for noise that a minibatch shares; fraction: float32 scalar, the part
            of training that is done.
        scheduled: whether `at_step` reads the fraction, so that training cannot go on for another number of epochs.
        redraw: (data, key, config) -> data, of the same shapes: drawn anew for each epoch.
        group_size: for data that are in random order already, and of equal cost: only the order of groups of
            neighbouring examples is drawn in each epoch, so that memory is read contiguously. A minibatch holds at
            least two whole groups: their size is the largest divisor of the minibatch's size up to this. `batch` then
            receives indices past the last example, too, at weight 0.
        sections: the number of equal parts of the groups. An epoch visits one section after another; the order of the
            sections, and that of the groups within them, is drawn. Groups that do not fill a section come last. Where a
            section reads few of a table's rows, they stay in a CPU's cache. The order is the same on all platforms, so
            that results are equal.
        result: the epoch whose parameters are returned: "best" by validation, which then also decides when rates drop
            and when training ends, or "last" of the recipe's epochs, for a model that is judged by other tasks.
        sparse, ragged, decay, visits, sequential: see their classes; all but `decay` are None for programs without
            them.
    """

    config: Any
    loss: Callable[..., Any]
    score: Callable[[Any, Any, Any], Any]
    size: Callable[[Any], int] = num_rows
    batch: Callable[[Any, Array, Any, Any], Any] = take_rows
    metric: Metric = LOSS
    training_metrics: tuple[Metric, ...] = ()
    events: Callable[[Any], int] | None = None
    at_step: Callable[[Any, Array, Array, Any], Any] | None = None
    scheduled: bool = False
    redraw: Callable[[Any, Array, Any], Any] | None = None
    group_size: int = 1
    sections: int = 1
    result: Literal["best", "last"] = "best"
    sparse: Sparse | None = None
    ragged: Ragged | None = None
    decay: Decay = Decay()
    visits: Visits | None = None
    sequential: Sequential | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if parts of a program exclude each other."""
        names = [metric.name for metric in self.loss_metrics]
        own_gradient = self.sparse is not None and self.sparse.gradient is not None
        touched = self.decay.when == "when-touched"
        grouped = self.group_size > 1 or self.sections > 1
        faults = {
            "two metrics of training have the same name": len(set(names)) < len(names),
            "there is no such decay": self.decay.when not in ("every-step", "per-row", "when-touched"),
            "a penalty belongs to the decay when-touched, and to no other": (
                touched != (self.decay.penalty is not None) and not (touched and self.visits)
            ),
            "a program's own gradient leaves out its penalty: give no gradient, or another decay": (
                own_gradient and touched
            ),
            "a group has one example at least": self.group_size < 1,
            "there is one section at least": self.sections < 1,
            "groups and sections are for examples of equal cost": grouped and self.ragged is not None,
            "sequential examples are visited in order, and cost alike": self.sequential is not None
            and (grouped or self.ragged is not None or self.visits is not None),
            "visits take the place of a program's own gradient, and do not see what depends on the step": (
                self.visits is not None and (own_gradient or self.at_step is not None)
            ),
            "only what depends on the step is scheduled": self.scheduled and self.at_step is None,
            "a program's own gradient does not return a carry": self.sequential is not None and own_gradient,
        }
        for what, wrong in faults.items():
            if wrong:
                raise ValueError(what)

    @property
    def loss_metrics(self) -> tuple[Metric, ...]:
        """How the means in the Metrics of `loss` are shown."""
        return self.training_metrics or (self.metric,)

    def gathered(self, params: Any, batch: Any) -> Any:
        """Return what `loss` takes as params: `tables.Gathered` rows for a sparse program, else whole parameters."""
        return params if self.sparse is None else gathered(params, self.sparse.touched(batch, self.config))

    def num_events(self, data: Any) -> int:
        """Count the events that the scores of these data are averaged over."""
        return self.events(data) if self.events else self.size(data)
