"""A program whose training is timed, ours or another's, and one training of it."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measurement.spans import covered
from benchmarks.speed.search import Space
from jaxcf.data.ratings import Dataset, Ratings
from jaxcf.metrics import evaluate
from jaxfit.errors import UserError

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
Fit = Callable[[], Predict]
Start = Callable[..., Fit]


class Program(NamedTuple):
    """A program, in three steps: `prepare(data)` -> start, `start(**options)` -> fit, `fit()` -> predict.

    The first two put ratings into the program's own form and build a model; the third, training, is timed apart. Its
    predictions are of pairs, as indices of users and items, in stars; they are not timed.

    Attributes:
        package: the module that is imported first.
        prepare: makes `start` from data; without options, `start` makes the model of the program's documentation.
        space: the options that are searched, and their ranges.
        rank, passes, seed: the names of the options for the size of vectors or number of hidden units (in `space`,
            too), the number of passes over the ratings, and the seed; None if the program is run without a seed.
        by_gradients: whether a pass is one of stochastic gradients.
    """

    package: str
    prepare: Callable[[Dataset], Start]
    space: Space
    rank: str
    passes: str
    seed: str | None = "seed"
    by_gradients: bool = True


class Trial(NamedTuple):
    """One training: seconds of preparation and of training, both without compilation; of compilation; and the RMSE."""

    preparation: float
    training: float
    compilation: float
    rmse: float  # in stars, of predictions clipped to the scale; infinite where training failed


def trial(start: Start, options: Mapping[str, Any], data: Dataset, on: Ratings) -> Trial:
    """Train once from prepared data, and evaluate on some ratings."""
    spans = compilations()
    known, begin = len(spans), time.perf_counter()
    try:
        fit = start(**options)
        ready = time.perf_counter()
        predict = fit()
    except UserError:  # the training diverged, or such a setting is refused because it would
        return Trial(0.0, time.perf_counter() - begin, 0.0, np.inf)
    end = time.perf_counter()
    before, during = (covered(spans[known:], *ends) for ends in ((begin, ready), (ready, end)))
    return Trial(ready - begin - before, end - ready - during, before + during, rmse(predict, data, on))


def rmse(predict: Predict, data: Dataset, on: Ratings) -> float:
    """Evaluate predictions; infinite if any is not a number, as after a training that diverged."""
    predicted = predict(on.user, on.item)
    return evaluate(predicted, on.stars, data.catalogue.scale).rmse if np.isfinite(predicted).all() else np.inf


_spans: list[tuple[float, float]] = []
_listening = False


def compilations() -> list[tuple[float, float]]:
    """Return a list to which begin and end of all tracing, lowering, compiling and reading of the cache are added."""
    global _listening
    if "jax" in sys.modules and not _listening:
        import jax

        _listening = True
        jax.monitoring.register_event_duration_secs_listener(_listen)
    return _spans


def _listen(event: str, duration_secs: float, **_: Any) -> None:
    if event.startswith("/jax/core/compile/"):
        now = time.perf_counter()
        _spans.append((now - duration_secs, now))
