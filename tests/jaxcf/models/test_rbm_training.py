"""RBMs through the engine: what training finds; devices, and resuming when each bucket has its own program."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from jaxcf import training
from jaxcf.contract import NO_PAIRS
from jaxcf.data import synthetic as planted
from jaxcf.data import user_batches
from jaxcf.data.ratings import Pairs, Ratings, RatingScale
from jaxcf.data.synthetic import Planted
from jaxcf.models import get
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.config import expected_stars
from jaxcf.models.rbm.prediction import predict
from jaxfit import fit, state, trainer, validation
from jaxfit.devices import sharding
from jaxfit.minibatches import epochs
from jaxfit.minibatches.bucketing import buckets, plan
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint
from jaxfit.run_dir.training import Run

# such a long tail that minibatches of two users have several capacities
TAILED = Planted(num_users=30, num_items=600, num_ratings=4_000, num_features=2)


@pytest.fixture(scope="module")
def data():
    return planted.planted(jax.random.key(0), TAILED)


def fitted(name, data, directory, run=None, **changes):
    recipe, config = get(name).recipes["tuned"]
    recipe = dataclasses.replace(recipe, **{"epochs": 2, "batch_size": 2, "rate": {"*": 0.01}, **changes})
    rated = Pairs(data.test.user, data.test.item) if name == "crbm" else NO_PAIRS
    return training.train(
        name,
        data,
        directory,
        recipe=recipe,
        config={**config, "num_hidden": 3},
        rated=rated,
        run=run or Run(),
    )


def test_minibatches_have_several_capacities(data):
    counts = np.bincount(data.train.user, minlength=30)
    laid = plan(buckets(counts, 2, 1), np.arange(30, dtype=np.int32), 2, 1, jax.random.key(0))
    assert len({stretch.capacity for stretch in laid.stretches}) >= 2


@pytest.mark.extended  # `conformance/test_training.py` has the small model on eight devices
def test_many_devices_equal_one(data, tmp_path):
    one, many = (fitted("crbm", data, tmp_path / str(n), Run(devices=n), batch_size=16).model.params for n in (1, 8))
    assert np.abs(one.W).max() > 0.02
    for a, b in zip(one, many, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


def test_validation_with_split_tables_reads_every_rating(data):
    """More of them than the least capacity of a device's part of a minibatch."""
    config = rbm.Config(data.catalogue.num_items, num_values=data.catalogue.scale.levels, num_hidden=3)
    program, params, users, valid = get("rbm").fitting[0].prepare(jax.random.key(0), data, NO_PAIRS, config)
    recipe = dataclasses.replace(get("rbm").recipes["thesis"][0], batch_size=16)
    mesh = sharding.make(8, row_shards=4)
    split = trainer.Trainer(program, params, users, recipe, jax.random.key(1), mesh)
    found = validation.Validation(program, valid, mesh, split.layout)
    _, as_in_training = state.between_epochs(split.state)
    expected = validation.Validation(program, valid, None).mean(params)
    assert found.mean(as_in_training) == pytest.approx(expected, rel=1e-5)


def between(laid):
    """Return the first step of an epoch that another program runs than the step before."""
    return next(b.begin for a, b in itertools.pairwise(laid.stretches) if a.capacity != b.capacity)


@pytest.mark.extended
def test_resume_between_two_capacities_matches_uninterrupted_run(data, tmp_path, monkeypatch):
    """Cut within an epoch, between the programs of two sizes."""
    laid = []

    def laying(*args):
        laid.append(plan(*args))
        return laid[-1]

    whole = fitted("rbm", data, tmp_path / "whole", Run(checkpoint_minutes=0.0)).model
    save, saved = checkpoint.save, []

    def failing(directory, arrays, state):
        save(directory, arrays, state)
        saved.append((state["progress"]["epoch"], state["progress"]["at"]))
        if saved[-1][0] == 1 and saved[-1][1] == between(laid[-1]):
            raise RuntimeError("killed")

    monkeypatch.setattr(checkpoint, "save", failing)
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 0.0)  # a step at a time
    monkeypatch.setattr(epochs, "plan", laying)
    with pytest.raises(RuntimeError, match="killed"):
        fitted("rbm", data, tmp_path / "cut", Run(checkpoint_minutes=0.0))
    assert saved[-1] == (1, between(laid[-1]))
    monkeypatch.setattr(checkpoint, "save", save)
    resumed = fitted("rbm", data, tmp_path / "cut", Run(resume=True)).model
    for a, b in zip(whole.params, resumed.params, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (tmp_path / "whole/journal.jsonl").read_bytes() == (tmp_path / "cut/journal.jsonl").read_bytes()


@pytest.fixture(scope="module")
def tastes():
    """Draw users of two tastes, which half of the movies please, and half of the ratings held out."""
    rng = np.random.default_rng(0)
    users, items = 200, 24
    taste, kind = rng.integers(0, 2, users), np.arange(items) % 2
    good = np.where(taste[:, None] == kind[None], 0.9, 0.1)
    value = np.where(rng.random((users, items)) < good, 2, rng.integers(0, 2, (users, items)))
    user, item = map(np.ravel, np.indices((users, items)))
    rated = Ratings(user.astype(np.int32), item.astype(np.int32), (value.ravel() + 1).astype(np.float32))
    held = rng.random(users * items) < 0.5
    return [Ratings(*(x[part] for x in rated[:3])) for part in (~held, held)], good


def test_training_recovers_planted_tastes(tastes):
    scale = RatingScale(1, 3, 1)
    (known, held), good = tastes
    config = rbm.Config(num_items=24, num_values=3, num_hidden=4, cd_steps=(1, 3))
    train, valid = (user_batches.make_data(known, 200, scale, wanted=w) for w in (None, held))
    assert valid.wanted.value.dtype == np.int8  # levels, where all ratings are
    p = rbm.init(jax.random.key(0), config, known, scale.level(known.stars))
    recipe = Recipe("sgd", 20, 30, {"*": 0.02}, {"*": 0.0, "W": 1.0}, anneal=True, reduction="sum")
    fitted = fit.fit(rbm.program(config), p, train, valid, recipe=recipe, key=jax.random.key(1))
    # the truth's own error is that of the ratings around their mean, given the taste
    mean = good * 3 + (1 - good) * 1.5
    best = np.sqrt(np.mean((held.stars - mean[held.user, held.item]) ** 2))
    first, last = fitted.history[0]["valid"] ** 0.5, fitted.score**0.5
    assert best < last < 1.03 * best < first
    predicted = expected_stars(predict(fitted.params, train, held.user, held.item, config), config)
    np.testing.assert_allclose(np.sqrt(np.mean((predicted - held.stars) ** 2)), last, rtol=1e-4)
    exact = predict(fitted.params, train, held.user, held.item, config, exact=True)
    assert np.mean(np.abs(expected_stars(exact, config) - predicted)) < 0.05
