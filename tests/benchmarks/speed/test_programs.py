"""One training of a program: what is timed, and that each predicts what it trained."""

import importlib.util

import jax
import numpy as np
import pytest

from benchmarks.speed import own
from benchmarks.speed import peers as packages
from benchmarks.speed.peers import factorizers
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.programs import rmse, trial
from jaxcf.data.synthetic import Planted, planted
from jaxfit.errors import UserError


@pytest.fixture(scope="module")
def data():
    return planted(jax.random.key(0), Planted(num_users=200, num_items=60, num_ratings=6000), 0.045, 0.1)


def mean_error(data, ratings):
    return rmse(lambda user, item: np.full(len(user), data.train.stars.mean()), data, ratings)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.peer
def test_a_peer_predicts_what_it_trained(data, name, monkeypatch):
    """Better than the mean of all ratings, on those that it was trained on; without options it has its defaults."""
    monkeypatch.setattr(factorizers, "CORES", 1)  # threads that share a core wait for one another in each pass
    program = PEERS[name]
    if importlib.util.find_spec(program.package.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed (extra `peers`)")
    assert packages.missing(program.package) is None
    start = program.prepare(data)
    seeded = {program.seed: 1} if program.seed else {}
    rates = {"eta": 0.1, "learning_rate": 0.01 if name == "cornac MF" else 0.002, "lr_all": 0.02, "lambda_": 10.0}
    chosen = {option: rates[option] for option in program.space if option in rates}
    found = trial(start, {program.rank: 3, program.passes: 20, **seeded, **chosen}, data, data.train)
    assert found.rmse < 0.95 * mean_error(data, data.train)
    assert found.training > 0
    assert found.compilation == 0
    assert trial(start, {}, data, data.train).rmse < mean_error(data, data.train)


@pytest.mark.parametrize("model", own.SEARCHED)
def test_ours_trains_and_tells_compilation_apart(data, model):
    program = own.program(model)
    start = program.prepare(data)
    options = {program.rank: 3, program.passes: 2, "batch_size": 10, "seed": 2}
    found = trial(start, options, data, data.test)
    assert 0.3 < found.rmse < 1.2
    assert found.compilation > 0.05
    assert found.training > 0
    again = trial(start, options, data, data.test)
    assert again.rmse == found.rmse, "a seed determines the result"
    assert again.compilation < found.compilation
    assert trial(start, {**options, "seed": 3}, data, data.test).rmse != found.rmse


def test_every_searched_option_is_one_of_the_model():
    for model, (space, rank) in own.SEARCHED.items():
        changes = dict.fromkeys(space, 1) | {rank: 7}
        recipe, config = own.changed(*own.models.get(model).recipe("tuned"), changes.items())
        assert config[rank] == 7
        assert recipe.batch_size == 1


def test_a_training_that_diverges_is_infinitely_wrong(data):
    def refuses():
        raise UserError("it diverged")

    assert trial(lambda: refuses, {}, data, data.test).rmse == np.inf
    assert trial(lambda: lambda: lambda user, item: np.full(len(user), np.nan), {}, data, data.test).rmse == np.inf


def test_what_can_be_loaded():
    assert (packages.missing("torch") is None) == (importlib.util.find_spec("torch") is not None)
    assert "not installed" in packages.missing("no_such_program")
