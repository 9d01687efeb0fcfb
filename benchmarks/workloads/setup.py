"""A workload's program, initial parameters and data, in the form that the engine takes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.language.scales import speed_text
from benchmarks.workloads.registry import Words, Workload
from jaxcf import models as rating_models
from jaxcf.contract import NO_PAIRS, BySweeps, Sweeps
from jaxcf.contract import BySGD as RatingsBySGD
from jaxcf.data.ratings import Units
from jaxcf.data.synthetic import Planted, planted
from jaxfit.program import Program
from jaxfit.registry import Cost
from jaxlm import models as language_models
from jaxlm.contract import BySGD, structure_argument


class Setup(NamedTuple):
    """What is trained by stochastic gradients.

    Attributes:
        program: of the model.
        init: key -> parameters before training; it can be traced to get only their shapes.
        data: training data, on the device.
        share: of the workload's data that these are.
    """

    program: Program
    init: Callable[[jax.Array], Any]
    data: Any
    share: float


class SweepsSetup(NamedTuple):
    """What is fitted by sweeps; it has `init`, `data` and `share` like `Setup`.

    Attributes:
        sweeps: the sweeps, before the first one.
        num_ratings: number of ratings that a sweep goes through.
        cost: of a rating; None without a formula.
        share: of the workload's data that these are.
    """

    sweeps: Sweeps
    num_ratings: int
    cost: Cost | None
    share: float

    def init(self, key: jax.Array) -> Any:
        """Return the parameters before the first sweep."""
        return self.sweeps.params

    @property
    def data(self) -> Any:
        """The training data, on the device."""
        return self.sweeps.data


def set_up(workload: Workload, most: int | None = None) -> Setup | SweepsSetup:
    """Draw a workload's data and set its training up.

    Args:
        most: maximum number of words or ratings, if only shapes are needed; tables keep their sizes.
    """
    return _language(workload, most) if isinstance(workload.data, Words) else _ratings(workload, workload.data, most)


def _language(workload: Workload, most: int | None) -> Setup:
    words = workload.data
    assert isinstance(words, Words)
    record = language_models.get(workload.model)
    fitting = record.fitting
    assert isinstance(fitting, BySGD)
    events = min(words.events, most or words.events)
    corpus = record.of_text(speed_text(words.num_words, events))
    counts, structure = corpus.word_counts(), None
    needed = record.structure_of(workload.config)
    if needed is not None:
        options = needed.choose(workload.config, workload.structure)
        structure = needed.stand_in(options, len(corpus.vocabulary), counts)
    more = structure_argument(structure)
    config = record.configure(len(corpus.vocabulary), structure, workload.config)
    data = fitting.texts(config, corpus.vocabulary.eos, *more)(corpus.train)
    init = partial(_init, fitting.init, config, counts, more)
    return Setup(fitting.program(config), init, data, events / words.events)


def _init(init: Callable[..., Any], config: Any, counts: np.ndarray, more: tuple[Any, ...], key: jax.Array) -> Any:
    return init(key, config, counts, *more)


def _ratings(workload: Workload, shape: Planted, most: int | None) -> Setup | SweepsSetup:
    record = rating_models.get(workload.model)
    fitting, key = record.solver(workload.solver), jax.random.key(0)
    number = min(shape.num_ratings, most or shape.num_ratings)
    share = number / shape.num_ratings
    few = replace(shape, num_ratings=number)
    if isinstance(fitting, BySweeps):  # all ratings of some users: how sweeps lay ratings out depends on each user's
        few = replace(few, num_users=max(1, round(share * shape.num_users)))
    drawn = planted(key, few, 1e-3, 1e-3)
    catalogue = replace(drawn.catalogue, users=np.arange(1, shape.num_users + 1))
    units = Units.of(drawn.train.stars, catalogue.scale)
    config = record.configure(catalogue, units, workload.config)
    if isinstance(fitting, BySweeps):
        sweeps = fitting.prepare(key, drawn._replace(catalogue=catalogue), NO_PAIRS, config, workload.recipe())
        ratings = len(drawn.train.user)
        return SweepsSetup(sweeps, ratings, fitting.cost and fitting.cost(config, ratings), share)
    assert isinstance(fitting, RatingsBySGD)
    ready = fitting.prepare(key, drawn, NO_PAIRS, config)
    return Setup(ready.program, lambda key: ready.params, ready.train, share)
