"""The models of jaxcf as programs whose training is timed, beside the peers'."""

import tempfile
from functools import partial
from typing import Any, NamedTuple

import jax

from benchmarks.core.changes import changed
from benchmarks.speed.programs import Fit, Predict, Program, Start
from benchmarks.speed.search import FEATURES, Range, Space
from jaxcf import models
from jaxcf.contract import NO_PAIRS, BySGD, KnownUsers, PredictsRatings
from jaxcf.data.ratings import Dataset, Units
from jaxfit import fit as engine
from jaxfit.devices.precision import full_precision

NAME = "jaxcf"


class Searched(NamedTuple):
    """The space that is searched around a model's tuned recipe, and the option that is its rank."""

    space: Space
    rank: str = "num_features"


# Names are as in `benchmarks.core.changes`. Minibatches are larger than the tuned recipes', for fewer passes.
SEARCHED = {
    "pmf": Searched({
        "num_features": FEATURES, "rate.U": Range(0.03, 0.5), "rate.V": Range(0.03, 0.5), "rate.b,c": Range(0.01, 0.2),
        "decay.U,V": Range(0.01, 0.1), "batch_size": Range(1600, 6400, 2),
    }),
    "cpmf": Searched({
        "num_features": FEATURES, "rate.*": Range(0.02, 0.2), "rate.W": Range(1.0, 20.0), "rate.b,c": Range(0.01, 0.1),
        "decay.*": Range(0.01, 0.1), "batch_size": Range(4, 16, 2),
    }),
    "rbm": Searched({
        "num_hidden": Range(32, 128, 2), "rate.*": Range(1e-3, 2e-2), "rate.W": Range(3e-3, 5e-2),
        "decay.*": Range(1.0, 30.0), "batch_size": Range(20, 80, 2),
    }, "num_hidden"),
}  # fmt: skip


def program(model: str) -> Program:
    """Return a model of jaxcf as a program, trained by stochastic gradients."""
    space, rank = SEARCHED[model]
    return Program(f"jaxcf.models.{model}", partial(_prepare, model), space, rank, "epochs")


def _prepare(model: str, data: Dataset) -> Start:
    """Return a start; each puts the ratings on the device and draws parameters."""
    record = models.get(model)
    fitting, predicts = record.solver(), record.capability(PredictsRatings)
    assert isinstance(fitting, BySGD)
    assert predicts is not None
    users = KnownUsers(data.catalogue.num_users, data.train)

    @full_precision()
    def start(seed: int | None = None, **options: Any) -> Fit:
        if seed is None and not options:
            return partial(_as_shipped, model, data)
        recipe, config = changed(*record.recipe("tuned"), options.items())
        assert recipe is not None
        full = record.configure(data.catalogue, Units.of(data.train.stars, data.catalogue.scale), config)
        init, draws = _keys(seed or 1)
        ready = fitting.prepare(init, data, NO_PAIRS, full)

        def fit() -> Predict:
            fitted = engine.fit(ready.program, ready.params, ready.train, ready.valid, recipe=recipe, key=draws)
            return full_precision()(predicts.predictor(jax.block_until_ready(fitted.params), full, users))

        return fit

    return start


@jax.jit
def _keys(seed: int) -> tuple[jax.Array, jax.Array]:
    init, draws = jax.random.split(jax.random.key(seed))
    return init, draws


def _as_shipped(model: str, data: Dataset) -> Predict:
    """Train as `jaxcf train` does, in a folder."""
    from jaxcf.training import train

    with tempfile.TemporaryDirectory() as folder:
        return train(model, data, folder).model.predictor
