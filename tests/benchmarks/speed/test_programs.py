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
from benchmarks.speed.time_to_error import options
from jaxcf.data.ratings import Catalogue, RatingScale, Units
from jaxcf.data.synthetic import Planted, planted
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays, per_parameter


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


@pytest.mark.peer
def test_cornac_has_all_threads(data, monkeypatch):
    models = pytest.importorskip("cornac.models", reason="cornac is not installed (extra `peers`)")
    made = []
    monkeypatch.setattr(models.MF, "fit", lambda self, train: made.append(self.num_threads))
    program = PEERS["cornac MF"]
    program.prepare(data)(**options(program, 1, 7, {}))()
    assert made == [factorizers.CORES]


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
        record = own.models.get(model)
        recipe, config = own.changed(*record.recipe("tuned"), (dict.fromkeys(space, 1) | {rank: 7}).items())
        assert config[rank] == 7
        assert recipe.batch_size == 1
        full = record.configure(Catalogue(*map(np.arange, (3, 4)), RatingScale(1, 5, 1)), Units(), config)
        names = named_arrays(record.shapes(full))
        for values in (recipe.rate, recipe.decay):
            assert per_parameter(names, values, "")  # raises where a name is none of the model's


def test_a_training_that_diverges_is_infinitely_wrong(data):
    def refuses():
        raise UserError("it diverged")

    assert trial(lambda: refuses, {}, data, data.test).rmse == np.inf
    assert trial(lambda: lambda: lambda user, item: np.full(len(user), np.nan), {}, data, data.test).rmse == np.inf


def test_what_can_be_loaded():
    assert (packages.missing("torch") is None) == (importlib.util.find_spec("torch") is not None)
    assert "not installed" in packages.missing("no_such_program")
