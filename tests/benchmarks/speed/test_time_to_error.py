"""The speed benchmarks of recommenders: what they time, what they say, and that peers predict what they trained."""

import importlib.util

import jax
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.speed import peers as programs
from benchmarks.speed import recommenders, time_to_error
from benchmarks.speed import run as speed
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.time_to_error import Contender, covered, trial
from jaxcf.data.synthetic import Planted, planted
from jaxcf.metrics import evaluate

TINY = Planted(num_users=200, num_items=60, num_ratings=6000)


@pytest.fixture(scope="module")
def problem():
    return time_to_error.planted_problem(planted(jax.random.key(0), TINY, 0.045, 0.1), TINY)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(timing, "COPIED", 1 << 16)
    monkeypatch.setattr(time_to_error, "ROUNDS", 1)


def test_spans_that_overlap_count_once():
    assert covered([], 1.0) == 0.0
    assert covered([(2.0, 4.0), (3.0, 5.0), (2.5, 3.0), (7.0, 8.0)], 1.0) == pytest.approx(4.0)
    assert covered([(0.0, 2.0)], 1.0) == pytest.approx(1.0)


def test_the_shortest_training_that_comes_to_an_error_is_chosen(problem, monkeypatch):
    """Trainings of a made-up program whose error falls with its passes, and whose time grows with them."""
    seconds = {("a", 1): 5.0, ("a", 2): 6.0, ("a", 3): 7.0, ("b", 1): 1.0, ("b", 2): 2.0, ("b", 3): 3.0}
    errors = {("a", 1): 0.9, ("a", 2): 0.5, ("a", 3): 0.5, ("b", 1): 2.0, ("b", 2): 0.95, ("b", 3): 0.4}
    made = []

    def fake(train, setting, data):
        place = setting["kind"], setting["passes"]
        made.append(place)
        return time_to_error.Trial(dict(setting), seconds[place], 0.25, errors[place])

    monkeypatch.setattr(time_to_error, "trial", fake)
    contender = Contender(None, {"kind": ("a", "b")}, ("passes", (1, 2, 3)))
    found = time_to_error.times({"x": contender}, problem._replace(errors=(0.95, 0.6, 0.1)))["x"]
    assert made[:6] == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)]
    assert sorted(made[6:]) == [("b", 2), ("b", 3)]  # once more for each error that is reached
    assert found["to 0.950"] == {
        "seconds": 2.0, "seconds with compilation": 2.25, "RMSE": 0.95, "setting": "kind b, passes 2",
    }  # fmt: skip
    assert found["to 0.600"]["setting"] == "kind b, passes 3"
    assert found["to 0.100"] == "not reached"
    assert found["lowest RMSE"] == 0.4


def test_a_training_that_came_to_an_error_once_by_luck_is_not_chosen(problem, monkeypatch):
    errors = {1: iter([0.9, 1.1]), 2: iter([0.8, 0.9])}

    def fake(train, setting, data):
        return time_to_error.Trial(dict(setting), setting["passes"], 0.0, next(errors[setting["passes"]]))

    monkeypatch.setattr(time_to_error, "trial", fake)
    contender = Contender(None, {}, ("passes", (1, 2)))
    found = time_to_error.times({"x": contender}, problem._replace(errors=(1.0, 0.5)))["x"]
    assert found["to 1.000"] == {"seconds": 2.0, "RMSE": 0.9, "setting": "passes 2"}
    assert found["to 0.500"] == "not reached"


def test_more_passes_are_not_tried_once_all_errors_are_reached(problem):
    made = []

    def train(passes):
        made.append(passes)
        return lambda user, item: np.full(len(user), 3.5)

    contenders = {"x": Contender(train, {}, ("passes", (1, 2, 3)))}
    found = time_to_error.times(contenders, problem._replace(errors=(4.0, 3.0)))
    assert made == [1, 1, 1]  # tried, and again for either error
    assert "seconds with compilation" not in found["x"]["to 4.000"]


def test_a_rate_of_passes_that_take_no_time_is_left_out(problem, monkeypatch):
    seconds = {1: 2.0, 5: 4.0, 6: 2.0}
    monkeypatch.setattr(
        time_to_error,
        "trial",
        lambda train, setting, data: time_to_error.Trial({}, seconds[setting["n"]], 0, 1),
    )
    rate = time_to_error.peer_pass_rate(None, problem.data, {}, "n", 5)
    assert rate == pytest.approx(2 * len(problem.data.train.user))
    assert time_to_error.peer_pass_rate(None, problem.data, {}, "n", 6) is None


def test_ours_trains_and_tells_compilation_apart(problem):
    train = time_to_error.ours("pmf", problem.data, num_features=3)
    found = trial(train, {"epochs": 2, "batch_size": 50, "init_scale": 0.1}, problem.data)
    assert 0.3 < found.rmse < 1.2
    assert found.compilation > 0.05
    assert found.seconds > 0


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_predicts_what_it_trained(problem, name):
    """Better than the mean of all ratings, on those that it was trained on."""
    peer = PEERS[name]
    why = programs.missing(peer.package)
    if why:
        pytest.skip(f"{name} is {why} (extra `peers`)")
    train, scale = problem.data.train, problem.data.catalogue.scale
    setting = {key: values[0] for key, values in peer.grid.items()} | {peer.passes[0]: 20}
    predicted = peer.prepare(problem.data, 3)(**setting)(train.user, train.item)
    plain = evaluate(np.full(len(train.user), train.stars.mean()), train.stars, scale).rmse
    assert evaluate(predicted, train.stars, scale).rmse < 0.95 * plain


def test_what_is_not_installed_is_left_out_and_said(problem, monkeypatch):
    monkeypatch.setattr(recommenders, "missing", lambda package: f"not installed ({package})")
    grid = {"batch_size": (50,), "rate": ({"*": 0.1},)}
    case = recommenders.CASES["pmf"]._replace(sizes=(3,), grid=grid, epochs=(2, 4))
    figures = recommenders.measure("pmf", True, case, problem._replace(errors=(2.0, 0.1)))
    assert figures["left out"].keys() == PEERS.keys()
    assert figures["size 3"].keys() == {"jaxcf"}
    found = figures["size 3"]["jaxcf"]
    assert found["to 0.100"] == "not reached"
    assert found["to 2.000"]["RMSE"] < 2.0
    assert found["ratings_per_second"] > 0
    assert found["of_copy_bandwidth"] > 0
    assert "cornac MF" in speed.as_figures(figures)["setting"]["left out"]


@pytest.mark.parametrize("model", ["cpmf", "rbm"])
def test_models_without_peers(problem, model):
    assert model in recommenders.CASES
    case = recommenders.Case((2.0,), (3,), {}, (1,))
    found = recommenders.measure(model, True, case, problem._replace(errors=case.errors))["size 3"]["jaxcf"]
    assert found["to 2.000"]["seconds"] > 0
    assert found["ratings_per_second"] > 0


def test_what_can_be_loaded():
    assert (programs.missing("torch") is None) == (importlib.util.find_spec("torch") is not None)
    assert "not installed" in programs.missing("no_such_program")
