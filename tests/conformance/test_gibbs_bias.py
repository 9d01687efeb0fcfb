"""A rating model fitted by Gibbs sampling, which the package does not know: all it takes is its file and a line."""

import json

import jax
import numpy as np
import pytest

import jaxcf
from accuracy import assert_better_than_constants
from jaxcf import training
from jaxcf.cli import main as cli
from jaxcf.data.synthetic import Planted, planted
from jaxcf.models import bias
from toys.gibbs_bias import MODEL


@pytest.fixture(scope="module")
def data():
    return planted(jax.random.key(0), Planted(num_users=60, num_items=25, num_ratings=1500))


def fitted(data, directory, seed=1):
    recipe, config = MODEL.recipes["tuned"]
    return training.train(MODEL.name, data, directory, recipe=recipe, config=config, seed=seed).model


def test_the_mean_of_the_samples_is_the_posterior_mean(data, tmp_path):
    model = fitted(data, tmp_path / "m")
    exact = bias.solve(data.train, bias.Config(60, 25, mean=model.config.mean, decay_users=4.0, decay_items=4.0))
    difference = np.concatenate([model.params.b - exact.b, model.params.c - exact.c])
    # 350 samples of standard deviation 0.1 to 0.3, correlated
    assert np.sqrt(np.mean(difference**2)) < 0.04
    assert np.std(exact.b) > 0.2


def test_sweeps_are_drawn_from_the_seed_and_journaled(data, tmp_path):
    one, two, other = (fitted(data, tmp_path / str(n), seed) for n, seed in enumerate((1, 1, 2)))
    for a, b in zip(one.params, two.params, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.any(np.asarray(one.params.b) != np.asarray(other.params.b))
    lines = [json.loads(line) for line in (tmp_path / "0" / "journal.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(400))
    # single samples are worse than their mean
    assert lines[-1]["valid"] < np.mean([line["valid"] for line in lines[:50]])


def test_it_loads_and_predicts_full_float32(data, tmp_path):
    model = fitted(data, tmp_path / "m")
    loaded = jaxcf.load(tmp_path / "m")
    pairs = data.test.user, data.test.item
    np.testing.assert_array_equal(loaded.predictor(*pairs), model.predictor(*pairs))
    assert loaded.recommend(ratings={1: 5}, top=3)
    with pytest.raises(jaxcf.UserError, match="similar needs item vectors; gibbs-bias has none"):
        loaded.similar(1)


def test_the_commands_know_it(tmp_path, capsys):
    argv = ["train", MODEL.name, "--out", str(tmp_path / "m"), "--epochs", "9", "--precision", "3", "--json"]
    assert cli.main(argv) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["epochs"] == 9
    assert record["config"]["precision"] == 3
    assert_better_than_constants(record["valid"]["rmse_clipped"], planted(jax.random.key(0)).valid.stars, 0.05)
    assert cli.main(["info", str(tmp_path / "m")]) == 0
    described = capsys.readouterr().out.split("\n")
    assert described[0].split() == ["model", f"{MODEL.name},", "2,000", "users,", "400", "items"]
    assert described[1].split() == ["settings", "precision", "3"]
    assert cli.main(["train", MODEL.name, "--out", str(tmp_path / "n"), "--rate", "1"]) == 2
    assert "no option --rate" in capsys.readouterr().err
