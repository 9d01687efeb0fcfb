"""The speed benchmarks of recommenders: what they choose, time and say."""

import json
import subprocess
import sys
import time
from collections import Counter

import jax
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.core.statistics import quartiles
from benchmarks.measurement import limits
from benchmarks.speed import fresh_process, recommenders, search, time_to_error
from benchmarks.speed.fresh_process import Seconds
from benchmarks.speed.peers import factorizers
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.programs import Program, trial
from benchmarks.speed.search import Range, Tried
from benchmarks.speed.time_to_error import COLD, PREPARED, TIMES, TRAINING, WARM, Timed
from jaxcf.data.synthetic import Planted, planted, true_model
from jaxfit.run_dir import json_text

TINY = Planted(num_users=200, num_items=60, num_ratings=6000)


@pytest.fixture(scope="module")
def problem():
    return time_to_error.planted_problem(planted(jax.random.key(0), TINY, 0.045, 0.1), TINY)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    monkeypatch.setattr(timing, "ROUNDS", 1)
    monkeypatch.setattr(time_to_error, "ROUNDS", 1)
    monkeypatch.setattr(search, "BATCHES", 1)
    monkeypatch.setattr(search, "BATCH", 2)
    monkeypatch.setattr(search, "PASSES", (2, 4))
    monkeypatch.setattr(search, "LONGEST", 0.5)
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)


@pytest.fixture
def in_this_process(monkeypatch):
    """Train without a process for each training."""

    def measure(program, model, data, options, cache):
        return fresh_process.train(program, model, str(data), options, began=time.time())

    monkeypatch.setattr(fresh_process, "measure", measure)


def prepare_constant(data):
    """Return a program that predicts what its option says, whatever the ratings."""
    return lambda passes, stars, rank=1: lambda: lambda user, item: np.full(len(user), stars)


CONSTANT = Program("numpy", prepare_constant, {"stars": Range(1.0, 5.0)}, "rank", "passes", seed=None)


def searched(problem, errors=(1.5, 0.1)):
    return time_to_error.searched(CONSTANT, CONSTANT.prepare(problem.data), problem._replace(errors=errors))


def test_choices_do_not_see_test_ratings(problem):
    """With test ratings that are all wrong, and with none, the same is tried and chosen."""
    wrong = problem.data.test._replace(stars=6 - problem.data.test.stars)
    found = [
        searched(problem._replace(data=problem.data._replace(test=test))) for test in (problem.data.test, wrong, None)
    ]
    for contender in found:
        assert contender.chosen.keys() == {1.5}
        tried = [each._replace(seconds=0) for each in contender.found.tried]
        assert tried == [each._replace(seconds=0) for each in found[0].found.tried]
    wrong = problem.data.valid._replace(stars=6 - problem.data.valid.stars)
    other = searched(problem._replace(data=problem.data._replace(valid=wrong)))
    assert [t.error for t in other.found.tried] != [t.error for t in found[0].found.tried]


def test_validation_must_come_below_an_error_by_the_margin(problem):
    contender = searched(problem)
    lowest = min(each.error for each in contender.found.tried)
    margin = time_to_error.MARGIN
    assert not searched(problem, (lowest + margin / 2,)).chosen
    assert searched(problem, (lowest + margin * 1.01,)).chosen


def test_the_fewest_passes_that_reach_an_error_are_chosen(problem):
    """Of a program that needs three, of which the search tries two and four."""

    def prepare(data):
        return lambda passes, stars, rank=1: lambda: lambda user, item: np.full(len(user), 3.0 if passes >= 3 else 9.0)

    program = CONSTANT._replace(prepare=prepare)
    contender = time_to_error.searched(program, program.prepare(problem.data), problem._replace(errors=(1.5,)))
    assert {each.passes for each in contender.found.tried} == {2, 4}
    assert contender.chosen[1.5].passes == 3


def test_errors_to_reach_are_above_that_of_the_model_that_ratings_were_drawn_from(problem):
    valid, truth = problem.data.valid, true_model(jax.random.key(0), TINY)
    error = np.sqrt(np.mean((np.clip(truth.predict(valid.user, valid.item), 1, 5) - valid.stars) ** 2))
    np.testing.assert_allclose(problem.errors, np.multiply([1.076, 1.046], error), atol=6e-4)


def seconds(training, rmse, **more):
    return Seconds(0.5, 0.1, 0.2, training, 0.0, training + 1.0, rmse)._replace(**more)


def test_a_training_that_misses_the_error_takes_for_ever(problem):
    contender = searched(problem)
    warm = [seconds(1.0, 0.8), seconds(2.0, 1.6), seconds(3.0, 0.9)]
    cold = [each._replace(compilation=4.0, total=each.total + 5.0) for each in warm]
    row = time_to_error.row(contender, 1.5, Timed(warm, cold))
    assert row[TRAINING]["samples"] == [1.0, None, 3.0]
    assert row[TRAINING]["median"] == 3.0
    assert row[PREPARED]["samples"] == [5.2, None, 7.2]
    assert row[WARM]["samples"] == [2.0, None, 4.0]
    assert row[COLD]["samples"] == [7.0, None, 9.0]
    assert row["test RMSE"]["samples"] == [0.8, 1.6, 0.9]
    assert "passes" in row["setting"]
    missed = time_to_error.row(contender, 0.1, None)
    for column in TIMES:
        assert missed[column] == quartiles([np.inf] * time_to_error.ROUNDS)
    assert missed["setting"] == time_to_error.in_words(
        {**contender.found.lowest().setting, "passes": contender.found.lowest().passes}
    )
    failed = [tried._replace(error=np.inf) for tried in contender.found.tried]
    never = contender._replace(found=contender.found._replace(tried=failed))
    assert time_to_error.row(never, 0.1, None)["lowest validation RMSE of the search"] is None
    assert json.loads(json_text.dumps(row)) == row


def test_peers_compile_nothing_and_have_no_cache(problem):
    row = time_to_error.row(searched(problem), 1.5, Timed([seconds(1.0, 0.8)], []))
    assert row[PREPARED]["samples"] == [1.2]
    assert row[COLD] == row[WARM]


def test_as_shipped_and_by_phase_are_of_the_trainings_with_that_cache():
    warm, cold = [seconds(1.0, 0.9), seconds(2.0, 0.8)], [seconds(1.0, 0.9, total=9.0), seconds(2.0, 0.8, total=7.0)]
    ours, theirs = (time_to_error.as_shipped(Timed(warm, each)) for each in (cold, []))
    samples = {name: found["samples"] for name, found in ours.items()}
    assert samples == {WARM: [2.0, 3.0], COLD: [9.0, 7.0], TRAINING: [1.0, 2.0], "test RMSE": [0.9, 0.8]}
    assert theirs == {**ours, COLD: ours[WARM]}
    spent = time_to_error.phases(Timed(warm, cold), 0.85)
    assert spent.pop("to a test RMSE of") == 0.85
    assert [found["samples"] for found in spent.values()] == [[0.5] * 2, [0.1] * 2, [0.2] * 2, [0, 0], [1, 2], [2, 3]]


def test_all_times_are_divided_by_ours(problem):
    contender = searched(problem)
    cold = seconds(1.0, 0.8, compilation=4.8, total=6.0)
    ours = time_to_error.row(contender, 1.5, Timed([seconds(1.0, 0.8)], [cold]))
    theirs = time_to_error.row(contender, 1.5, Timed([seconds(2.0, 0.8)], []))
    missed = time_to_error.row(contender, 1.5, Timed([seconds(2.0, 1.8)], []))
    never = time_to_error.row(contender, 0.1, None)

    def ratios(**table):
        rows = time_to_error.with_ratios({name: dict(row) for name, row in table.items()})
        return {
            name: [row[f"{c}: this / jaxcf"] and row[f"{c}: this / jaxcf"]["samples"] for c in TIMES]
            for name, row in rows.items()
        }

    found = ratios(jaxcf=ours, other=theirs, missed=missed, never=never)
    assert found["jaxcf"] == [[1], [1], [1], [1]]
    assert found["other"] == [[2], [pytest.approx(2.2 / 6)], [1.5], [0.5]]
    assert found["missed"] == found["never"] == [[None]] * 4, "infinitely many times"
    assert ratios(jaxcf=missed, other=theirs)["other"] == [[0]] * 4
    assert ratios(jaxcf=missed, other=never)["other"] == [None] * 4


def test_quartiles_of_times_that_never_came():
    assert quartiles([1.0, 2.0, 3.0, 4.0, np.inf]) == {
        "median": 3.0, "quartiles": [2.0, 4.0], "samples": [1.0, 2.0, 3.0, 4.0, None],
    }  # fmt: skip
    assert quartiles([1.0, np.inf, np.inf]) == {
        "median": None, "quartiles": [None, None], "samples": [1.0, None, None],
    }  # fmt: skip


def test_contenders_are_trained_in_turn(problem, monkeypatch):
    """What compiles with an empty cache and with what that left; one setting for two errors once."""
    made = []

    def measure(program, model, data, options, cache):
        made.append((program, options.get("seed"), options.get("passes"), cache))
        return seconds(float(len(made)), 1.0, compilation=7.0)

    monkeypatch.setattr(fresh_process, "measure", measure)
    monkeypatch.setattr(time_to_error, "ROUNDS", 2)
    contender = searched(problem)
    a, b = Tried({}, 2, 0.1, 1.0), Tried({}, 3, 0.1, 0.9)
    seeded = contender._replace(program=CONSTANT._replace(seed="seed"), chosen={1.5: a, 1.2: b})
    other = contender._replace(chosen={1.5: a, 1.2: a})
    timed = time_to_error.rounds({"jaxcf": seeded, "other": other}, "pmf", problem.data, shipped=True)
    one = [("jaxcf", 2), ("jaxcf", 2), ("jaxcf", 3), ("jaxcf", 3), ("other", 2)]
    shipped = [("jaxcf", None), ("jaxcf", None), ("other", None)]
    first, second = made[: len(one + shipped)], made[len(one + shipped) :]
    for order, expected in ((first, one + shipped), (second, one)):
        assert Counter((name, passes) for name, _, passes, _ in order) == Counter(expected)
    assert [order[:2] for order in (first, second)] != [one[:2]] * 2, "not always the same first"
    for order, seed in ((first, 2), (second, 3)):
        assert {s for name, s, passes, _ in order if name == "jaxcf" and passes} == {seed}, "1 is the search's"
    assert {s for name, s, passes, _ in made if name == "other" or not passes} == {None}
    caches = [cache for name, _, _, cache in made if name == "jaxcf"]
    assert len(set(caches)) == 5
    assert caches[::2] == caches[1::2]
    for error, passes in ((1.5, 2), (1.2, 3)):
        places = [number for number, (name, _, p, _) in enumerate(made, 1) if (name, p) == ("jaxcf", passes)]
        assert [each.training for each in timed.to_errors["jaxcf", error].cold] == places[::2]
        assert [each.training for each in timed.to_errors["jaxcf", error].warm] == places[1::2]
    assert timed.to_errors["other", 1.5] == timed.to_errors["other", 1.2]
    assert timed.to_errors["other", 1.5].cold == []
    assert [len(timed.shipped[name].warm) for name in ("jaxcf", "other")] == [1, 1]
    assert {len(rates) for rates in timed.limits.values()} == {2}


@pytest.mark.extended
def test_a_process_of_its_own_trains_what_this_one_does(problem, tmp_path):
    program = recommenders.own.program("pmf")
    options = {"num_features": 3, "epochs": 2, "batch_size": 64, "seed": 2}
    fresh_process.write(problem.data, tmp_path / "ratings.npz")
    before = time.perf_counter()
    found = fresh_process.measure("jaxcf", "pmf", tmp_path / "ratings.npz", options, tmp_path / "cache")
    took = time.perf_counter() - before
    expected = trial(program.prepare(problem.data), options, problem.data, problem.data.test)
    assert found.rmse == pytest.approx(expected.rmse, abs=1e-4)
    assert list((tmp_path / "cache").glob("*-cache")), "the cache is there for the next"
    parts = sum(found[:5])
    assert 0 < parts <= found.total * 1.01
    assert found.total < took
    assert found.total - parts < 0.2 * found.total + 0.5
    with pytest.raises(RuntimeError, match="jaxcf failed"):
        fresh_process.measure("jaxcf", "pmf", tmp_path / "none.npz", options, tmp_path / "cache")


@pytest.mark.extended
@pytest.mark.parametrize("model", recommenders.CASES)
def test_a_record_of_a_tiny_problem(problem, monkeypatch, in_this_process, model):
    """As run.py writes it; peers that are not installed are left out, and it says so."""
    monkeypatch.setattr(recommenders, "missing", lambda package: f"not installed ({package})")
    case = recommenders.CASES[model]._replace(sizes=(3,))
    found = recommenders.measure(model, True, case, problem._replace(errors=(2.0, 0.1)))
    assert json.loads(json_text.dumps(found)) == found, "no infinite numbers"
    setting, tables, (curve,) = found["setting"], found["tables"], found["curves"].values()
    assert setting["matrix precision of jaxcf"] == "highest"
    assert "2 settings" in found["search"]["jaxcf"]["space"]
    assert len(found["search"]["jaxcf"]["trainings"]) >= 2
    for name in case.peers:
        assert "not installed" in setting[f"left out: {name}"]
    reached, missed = (tables[f"to a test RMSE of {error}"]["jaxcf"] for error in ("2.000", "0.100"))
    assert all(reached[column]["median"] > 0 for column in TIMES)
    assert missed[TRAINING]["median"] is None
    assert set(found["limits"].values()) <= tables.keys()
    assert found["limits"].keys() == {title for title in tables if not title.startswith("limits of the device")}
    assert ("as shipped: each program's documented defaults" in tables) == bool(case.peers)
    if case.peers:
        shipped = tables["as shipped: each program's documented defaults"]["jaxcf"]
        assert 0.3 < shipped["test RMSE"]["median"] < 1.2
        assert 0 < shipped[TRAINING]["median"] < shipped[WARM]["median"]
    assert reached["lowest validation RMSE of the search"] == missed["lowest validation RMSE of the search"] > 0.1
    spent = tables["time from process start, by phase, to the lowest error that each reached, seconds"]["jaxcf"]
    assert spent["total"]["median"] > spent["training"]["median"] > 0
    (passes,) = (table["jaxcf"] for title, table in tables.items() if title.startswith("a pass over the ratings"))
    assert len(passes["ratings/s"]["samples"]) == 1
    assert curve["log"]
    assert all(took > 0 and 0 < error < 2 for took, error in curve["lines"]["jaxcf"])


@pytest.mark.extended
def test_a_record_of_errors_that_were_never_reached(problem, monkeypatch, in_this_process):
    case = recommenders.CASES["pmf"]._replace(sizes=(3,))
    found = recommenders.measure("pmf", False, case, problem._replace(errors=(0.1,)))
    assert json.loads(json_text.dumps(found)) == found
    (curve,) = found["curves"].values()
    assert curve["lines"]["jaxcf"], "of the setting with the lowest error"
    assert found["tables"]["to a test RMSE of 0.100"]["jaxcf"][TRAINING]["samples"] == [None]
    assert not any(title.startswith("time from process start") for title in found["tables"])


@pytest.mark.extended
@pytest.mark.peer
def test_a_peer_in_a_process_of_its_own_does_without_jax(problem, tmp_path):
    pytest.importorskip("cornac", reason="cornac is not installed (extra `peers`)")
    fresh_process.write(problem.data, tmp_path / "ratings.npz")
    before = time.perf_counter()
    found = fresh_process.measure("cornac MF", "pmf", tmp_path / "ratings.npz", {"k": 3, "max_iter": 2}, tmp_path)
    assert 0.3 < found.rmse < 1.5
    assert 0 < found.training < found.total < time.perf_counter() - before
    code = (
        "import sys; from benchmarks.speed import fresh_process as f; f._program('cornac MF', 'pmf');"
        "sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.extended
@pytest.mark.peer
def test_peers_beside_ours(problem, in_this_process, monkeypatch):
    """Those that are installed, from search to record."""
    monkeypatch.setattr(factorizers, "CORES", 1)
    installed = {name: peer for name, peer in PEERS.items() if recommenders.missing(peer.package) is None}
    if not installed:
        pytest.skip("no other factorizer is installed (extra `peers`)")
    case = recommenders.CASES["pmf"]._replace(sizes=(3,), peers=installed)
    found = recommenders.measure("pmf", True, case, problem._replace(errors=(2.0,)))
    for title, table in found["tables"].items():
        expected = {n for n, p in installed.items() if p.by_gradients or "a pass" not in title}
        assert table.keys() == {"jaxcf", *expected} or title.startswith("limits of the device"), title
    for name, row in found["tables"]["to a test RMSE of 2.000"].items():
        assert row[f"{TRAINING}: this / jaxcf"]["median"] > 0, name


def test_passes_of_a_peer_are_timed_without_what_comes_before_them(problem, monkeypatch):
    """Two seconds to begin with, and a thousandth for each pass, of which there are enough for a window.

    The first training is a second slower than the others.
    """
    asked = []

    def trained(start, options, *on):
        asked.append(options)
        return seconds(2.0 + options["passes"] / 1000 + (len(asked) == 1), 1.0)

    monkeypatch.setattr(time_to_error, "trial", trained)
    rate = time_to_error.peer_pass_rate(CONSTANT, None, 3, problem.data)
    assert rate() == pytest.approx(1000 * len(problem.data.train.user))
    assert {options["rank"] for options in asked} == {3}
    most = max(options["passes"] for options in asked)
    assert timing.WINDOW <= most / 1000 <= 2 * timing.WINDOW
    monkeypatch.setattr(time_to_error, "trial", lambda *arguments: seconds(2.0, 1.0))
    with pytest.raises(RuntimeError, match="passes take no longer than one"):
        time_to_error.peer_pass_rate(CONSTANT, None, 3, problem.data)
