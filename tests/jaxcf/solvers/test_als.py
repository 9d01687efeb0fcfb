"""The alternating solver against NumPy's solves, and against where SGD ends."""

import dataclasses
import itertools
import os

import jax
import numpy as np
import pytest

from jaxcf import training
from jaxcf.data import reading
from jaxcf.data import synthetic as planted
from jaxcf.data.ratings import Ratings
from jaxcf.data.synthetic import Planted
from jaxcf.models import get, pmf
from jaxcf.solvers import als, sweeps, tiles
from jaxfit import state
from jaxfit.devices import platform as platforms
from jaxfit.devices.platform import tracing_for
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.trainer import Trainer

USERS, ITEMS, D = 40, 25, 3
DECAY = {"U": 0.2, "V": 0.3, "b": 0.05, "c": 0.4}


def ratings():
    """Draw ratings from two factors and noise; the last user and the last item have none, the first user very many."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(USERS, 2)), rng.normal(size=(ITEMS, 2))
    user = np.concatenate([np.zeros(150, np.int64), rng.integers(0, USERS - 1, 450)])
    item = rng.integers(0, ITEMS - 1, 600)
    stars = 3.5 + np.sum(U[user] * V[item], axis=1) + 0.3 * rng.normal(size=600)
    return Ratings(user.astype(np.int32), item.astype(np.int32), stars.astype(np.float32))


def make(**changes):
    config = pmf.Config(USERS, ITEMS, num_features=D, mean=3.5, **changes)
    return config, pmf.init(jax.random.key(0), config)


def ridge(features, target, strength):
    return np.linalg.solve(features.T @ features + np.diag(strength), features.T @ target)


@pytest.mark.parametrize("prior", ["per-rating", "per-row"])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("on", ["cpu", "gpu"])
def test_solves_equal_ridge_regressions(prior, biases, on, monkeypatch):
    monkeypatch.setattr(tiles, "CHUNK_TILES", 6)  # several chunks, and one larger than usual
    monkeypatch.setattr(tiles, "CHUNK_ROWS", 4)
    monkeypatch.setattr(platforms, "HELD", 9 * (D + 2) ** 2)
    config, params = make(prior=prior, biases=biases)
    data = ratings()
    if biases:
        params = params._replace(c=params.c + np.linspace(-1, 1, ITEMS, dtype=np.float32))
    with tracing_for(on):
        side = als.make_data(data, config)[0]
    assert side.row.shape[0] > 3
    assert on == "cpu" or 4 < side.row.shape[1] <= 9
    U, _, b, _ = als.strengths(params, config, DECAY)
    found, found_biases = als.solve(side, params.V, params.c, U, b, USERS, config)
    for i in range(USERS - 1):
        mine = data.user == i
        features = np.asarray(params.V, np.float64)[data.item[mine]]
        target = data.stars[mine] - 3.5 - np.asarray(params.c)[data.item[mine]]
        strength = np.full(D, DECAY["U"])
        if biases:
            features, strength = (
                np.hstack([features, np.ones((mine.sum(), 1))]),
                np.append(strength, DECAY["b"]),
            )
        times = mine.sum() if prior == "per-rating" else 1
        expected = ridge(features, target, times * strength)
        np.testing.assert_allclose(found[i], expected[:D], rtol=2e-3, atol=2e-4)
        if biases:
            np.testing.assert_allclose(found_biases[i], expected[D], rtol=2e-3, atol=2e-4)
    assert not np.any(found[USERS - 1])
    assert not found_biases[USERS - 1]


@pytest.mark.parametrize("prior", ["per-rating", "per-row"])
def test_objective_never_rises(prior):
    config, params = make(prior=prior)
    data = ratings()
    sides = als.make_data(data, config)
    values = [als.objective(params, data, config, DECAY)]
    for _ in range(12):
        params = als.sweep(params, sides, config, DECAY)
        values.append(als.objective(params, data, config, DECAY))
    assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(values))
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize("prior", ["per-rating", "per-row"])
def test_a_sweep_from_where_sgd_ends_gains_almost_nothing(prior):
    config, params = make(prior=prior)
    data = ratings()
    decay = DECAY if prior == "per-rating" else {name: 10 * value for name, value in DECAY.items()}
    recipe = Recipe(
        optimizer="sgd",
        batch_size=10,
        epochs=500,
        rate={"*": 0.03},
        decay=decay,
        anneal=True,
        reduction="sum",
    )
    end = to_the_end(pmf.program(config), params, pmf.make_data(data, config), recipe)
    before = als.objective(end, data, config, decay)
    after = als.sweep(end, als.make_data(data, config), config, decay)
    gain = before - als.objective(after, data, config, decay)
    assert -1e-6 * before < gain < 1e-3 * before


def to_the_end(program, params, data, recipe):
    """Return the parameters at the very end of a training, where `fit` would keep the best on validation."""
    trainer = Trainer(program, params, data, recipe, jax.random.key(1), None)
    for epoch in range(recipe.epochs):
        trainer.progress = trainer.progress._replace(epoch=epoch)
        trainer.epoch_run()(0, trainer.steps)
        trainer.state, params = state.between_epochs(trainer.state)
    return params


@pytest.mark.parametrize(("name", "solver"), [("pmf", "als"), ("bias", None)])
def test_solvers_refuse_a_folder_in_which_another_training_runs(name, solver, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    data = planted.planted(jax.random.key(0), Planted(num_users=30, num_items=20, num_ratings=300))
    recipe, config = get(name).recipes["tuned"]
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process is training there"):
            training.train(name, data, tmp_path, recipe=recipe, config=config, solver=solver)
    finally:
        os.close(descriptor)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.extended
def test_a_sweep_from_where_sgd_ends_gains_almost_nothing_on_movielens_100k(data_dir):
    """Less than 0.1 %, with the tuned recipe's decay; of MovieLens 1M, 60 epochs of the rate 0.06, it is 0.037 %."""
    table = reading.read([data_dir / "ml-100k" / "u1.base"])
    catalogue, data = table.catalogue, table.ratings
    config = pmf.Config(catalogue.num_users, catalogue.num_items, mean=float(data.stars.mean()), init_scale=0.01)
    recipe, _ = pmf.RECIPES["tuned"]
    recipe = dataclasses.replace(recipe, batch_size=100, epochs=200, rate={"*": 0.05})
    params = pmf.init(jax.random.key(0), config)
    end = to_the_end(pmf.program(config), params, pmf.make_data(data, config), recipe)
    before = als.objective(end, data, config, recipe.decay)
    after = als.sweep(end, als.make_data(data, config), config, recipe.decay)
    gain = before - als.objective(after, data, config, recipe.decay)
    assert 0 < gain < 1e-3 * before


def test_sweeps_return_the_best_parameters_and_stop_early(monkeypatch):
    config, params = make()
    params = params._replace(U=0 * params.U)
    data, journal, shifts = ratings(), [], iter([2.0, 1.0, 1.5, 0.5, 0.6, 0.7, 0.8, 0.1])
    data = data._replace(stars=0 * data.stars + 3.5)
    monkeypatch.setattr(als, "sweep", lambda params, *_: params._replace(b=0 * params.b + next(shifts)))
    fitting, key = als.sweeps(params, data, data, config, DECAY), jax.random.key(0)
    fitted = sweeps.fit(fitting, key, epochs=30, patience=3, journal=journal.append)
    np.testing.assert_allclose(
        [line["valid"] for line in journal], np.square([2, 1, 1.5, 0.5, 0.6, 0.7, 0.8]), rtol=1e-6
    )
    assert journal == fitted.history
    assert fitted.score == pytest.approx(0.25)
    np.testing.assert_allclose(fitted.params.b, 0.5)
    shifts = iter([0.3, np.nan])
    with pytest.raises(UserError, match="sweep 2 is not finite"):
        sweeps.fit(fitting, key, epochs=30, patience=3)


def test_a_compiled_sweep_reads_the_ratings_that_it_is_given():
    config, params = make()
    data = ratings()
    others = data._replace(stars=data.stars[::-1].copy())
    sweep, key = jax.jit(als.sweeps(params, data, data, config, DECAY).sweep), jax.random.key(0)
    for given in (data, others):
        sides = als.make_data(given, config)
        for found, expected in zip(sweep(params, sides, key), als.sweep(params, sides, config, DECAY), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(sweep(params, sides, key).U, sweep(params, als.make_data(data, config), key).U, atol=0.1)


def test_fold_in_of_the_same_users_gives_their_vectors():
    config, params = make()
    data = ratings()
    params = als.sweep(params, als.make_data(data, config), config, DECAY)
    U, b = als.fold_in_users(data, USERS, params, config, DECAY)
    sides = als.make_data(data, config)
    again = als.sweep(params, sides, config, DECAY)
    np.testing.assert_allclose(U, again.U, atol=1e-5)
    np.testing.assert_allclose(b, again.b, atol=1e-5)
    V, c = als.fold_in_items(data, ITEMS, again, config, DECAY)
    np.testing.assert_allclose(V, again.V, atol=1e-4)
    np.testing.assert_allclose(c, again.c, atol=1e-4)


def test_zero_decay_is_refused():
    config, params = make()
    with pytest.raises(UserError, match="decay"):
        als.sweep(params, als.make_data(ratings(), config), config, {"*": 0.1, "b": 0.0})
