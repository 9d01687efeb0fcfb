"""A workload's program, initial parameters and data, as the engine takes them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.language.scales import speed_text
from benchmarks.workloads.registry import Words, Workload
from jaxcf import models as rating_models
from jaxcf.contract import NO_PAIRS
from jaxcf.contract import BySGD as RatingsBySGD
from jaxcf.data.ratings import Units
from jaxcf.data.synthetic import Planted, planted
from jaxfit.program import Program
from jaxlm import models as language_models
from jaxlm.contract import BySGD, structure_argument


class Setup(NamedTuple):
    """What is trained.

    Attributes:
        program: of the model.
        init: key -> parameters before training; it can be traced, for their shapes alone.
        data: training data, on the device.
        share: of the workload's data that these are.
    """

    program: Program
    init: Callable[[jax.Array], Any]
    data: Any
    share: float


def set_up(workload: Workload, most: int | None = None) -> Setup:
    """Draw a workload's data and set its training up.

    most: words or ratings at most, where only shapes are asked for; tables keep their sizes.
    """
    return _language(workload, most) if isinstance(workload.data, Words) else _ratings(workload, workload.data, most)


def _language(workload: Workload, most: int | None) -> Setup:
    words = workload.data
    assert isinstance(words, Words)
    record = language_models.get(workload.model)
    fitting = record.fitting
    assert isinstance(fitting, BySGD)
    events = min(words.events, most or words.events)
    corpus = speed_text(words.num_words, events)
    counts, structure = corpus.word_counts(), None
    if record.structure is not None:
        options = record.structure.options(**workload.structure)
        structure = record.structure.stand_in(options, words.num_words, counts)
    more = structure_argument(structure)
    config = record.configure(words.num_words, structure, workload.config)
    data = fitting.texts(config, corpus.vocabulary.eos, *more)(corpus.train)
    init = partial(_init, fitting.init, config, counts, more)
    return Setup(fitting.program(config), init, data, events / words.events)


def _init(init: Callable[..., Any], config: Any, counts: np.ndarray, more: tuple[Any, ...], key: jax.Array) -> Any:
    return init(key, config, counts, *more)


def _ratings(workload: Workload, shape: Planted, most: int | None) -> Setup:
    record = rating_models.get(workload.model)
    fitting = record.solver()
    assert isinstance(fitting, RatingsBySGD)
    number = min(shape.num_ratings, most or shape.num_ratings)
    drawn = planted(jax.random.key(0), replace(shape, num_ratings=number), 1e-3, 1e-3)
    units = Units.of(drawn.train.stars, drawn.catalogue.scale)
    config = record.configure(drawn.catalogue, units, workload.config)
    ready = fitting.prepare(jax.random.key(0), drawn, NO_PAIRS, config)
    return Setup(ready.program, lambda key: ready.params, ready.train, number / shape.num_ratings)
