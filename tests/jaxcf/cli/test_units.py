"""Recommenders on other scales than stars: the same model in the user's units, and RBMs of many levels."""

import json

import numpy as np
import pytest
from safetensors import safe_open

import jaxcf
from jaxcf.cli import main as cli
from jaxcf.data import reading, writing
from jaxcf.data.ratings import Ratings, Units
from jaxcf.data.values import scale_of


def train(capsys, *argv):
    """Train by the command: its JSON, and what it said before."""
    assert cli.main(["train", *map(str, argv), "--json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out.splitlines()[-1]), err


@pytest.mark.extended
def test_movielens_on_another_scale_has_the_same_error(data_dir, tmp_path, capsys):
    table = reading.read(data_dir / "ml-100k" / "u.data")
    errors = []
    for factor, offset in ((1, 0), (20, 7)):
        ratings = table.ratings._replace(stars=factor * table.ratings.stars + offset)
        writing.write({tmp_path / "ratings.csv": ratings}, table.catalogue)
        argv = ["--ratings", tmp_path / "ratings.csv", "--epochs", 3, "--out", tmp_path / str(factor)]
        found, _ = train(capsys, "pmf", *argv)
        errors.append(found["valid"]["rmse_clipped"] / factor)
    assert errors[1] == pytest.approx(errors[0], rel=1e-4)


def test_the_unit_is_a_star_on_stars_and_follows_counts():
    stars = np.float32([1, 2, 4, 5, 5])
    assert Units.of(stars, scale_of(stars)) == Units(pytest.approx(3.4), 1.0)
    counts = np.append(np.tile(np.float32([1, 2, 3]), 1000), 10)
    assert Units.of(counts, scale_of(counts)).unit == pytest.approx(2 * np.std(counts), rel=1e-5)
    counts[-1] = 5001
    assert Units.of(counts, scale_of(counts)).unit == 5000 / 16
    same = np.float32([3, 3])
    assert Units.of(same, scale_of(same)) == Units(3.0, 1.0)


@pytest.fixture(scope="module")
def percent(tmp_path_factory):
    """Write ratings from 0 to 100, of 20 users and 15 items."""
    draws, file = np.random.default_rng(0), tmp_path_factory.mktemp("percent") / "ratings.csv"
    rows = [f"u{u},i{i},{draws.integers(0, 101)}" for u in range(20) for i in range(15)]
    file.write_text("user,item,rating\n" + "\n".join([*rows, "u0,new,0", "u1,new,100"]) + "\n")
    return file


@pytest.mark.extended
def test_an_rbm_of_many_levels_says_what_it_costs_and_offers_fewer(percent, tmp_path, capsys):
    argv = ["rbm", "--ratings", percent, "--epochs", 1, "--num-hidden", 3]
    found, said = train(capsys, *argv, "--out", tmp_path / "all")
    assert found["config"]["num_values"] == 101
    size = 16 * 101 * 4 + 3
    assert found["parameters"] == size
    assert f"101 levels of ratings are {size:,} parameters" in said
    assert "--levels 10" in said
    found, said = train(capsys, *argv, "--levels", 5, "--out", tmp_path / "five")
    assert (found["config"]["num_values"], found["config"]["step"]) == (5, 25.0)
    assert "levels of ratings are" not in said
    model = jaxcf.load(tmp_path / "five")
    assert model.catalogue.scale == (0, 100, 1)
    assert 0 <= model.predict(["u3"], ["i3"])[0] <= 100
    assert len(model.recommend(ratings={"i1": 93, "i2": 7})) == 10


def test_levels_are_chosen_for_a_scale_without_steps(percent, tmp_path, capsys):
    file = tmp_path / "any.csv"
    file.write_text(percent.read_text().replace("u0,new,0", "u0,new,0.12345"))
    argv = ["train", "rbm", "--ratings", str(file), "--epochs", "1", "--num-hidden", "3", "--out", str(tmp_path / "m")]
    assert cli.main(argv) == 2
    assert "--levels 10" in capsys.readouterr().err
    assert cli.main([*argv, "--levels", "10"]) == 0


def test_validation_ratings_of_an_rbm_are_not_rounded(percent, tmp_path, capsys):
    valid = tmp_path / "valid.csv"
    valid.write_text(
        "user,item,rating\n" + "".join(f"u{u},i{i},{(7 * u + 13 * i) % 101}\n" for u in range(9) for i in range(5))
    )
    argv = ["rbm", "--ratings", percent, "--valid", valid, "--epochs", 2, "--num-hidden", 3, "--levels", 5]
    train(capsys, *argv, "--out", tmp_path / "m")
    assert cli.main(["eval", str(tmp_path / "m"), "--ratings", str(valid), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    model = jaxcf.load(tmp_path / "m")
    assert model.info["validation RMSE"] == pytest.approx(found["rmse_unclipped"], rel=1e-5)


@pytest.mark.parametrize("name", ["pmf", "bias"])
def test_predictions_can_be_made_of_exported_factors_alone(data_dir, tmp_path, capsys, name):
    table = reading.read(data_dir / "ml-100k" / "u.data")
    rows = slice(0, 20_000)
    ratings = Ratings(*(part[rows] for part in table.ratings[:3]))
    writing.write({tmp_path / "r.csv": ratings._replace(stars=20 * ratings.stars + 7)}, table.catalogue)
    train(
        capsys,
        name,
        "--ratings",
        tmp_path / "r.csv",
        "--out",
        tmp_path / "m",
        *(["--epochs", 1] if name == "pmf" else []),
    )
    assert cli.main(["export", str(tmp_path / "m"), "--out", str(tmp_path / "f.safetensors")]) == 0
    with safe_open(tmp_path / "f.safetensors", "np") as file:
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    users, items = (tmp_path.joinpath(f"f.{side}.txt").read_text().split() for side in ("users", "items"))
    i, j = np.arange(50), np.arange(50) * 7
    units = arrays["b"][i] + arrays["c"][j]
    if name == "pmf":
        units = float(metadata["unit"]) * (units + np.sum(arrays["U"][i] * arrays["V"][j], axis=1))
    model = jaxcf.load(tmp_path / "m")
    expected = model.predict([users[n] for n in i], [items[n] for n in j], clip=False)
    np.testing.assert_allclose(float(metadata["mean"]) + units, expected, rtol=1e-5)
    assert metadata.keys() == {"model", "mean", *(["unit"] if name == "pmf" else [])}


@pytest.mark.parametrize("name", ["rbm", "masked-rbm"])
def test_predictions_can_be_made_of_an_exported_rbm_alone(tmp_path, capsys, name):
    draws = np.random.default_rng(0)
    rows = [(user, item, 10 + 20 * (user + item + draws.integers(2)) % 60) for user in range(9) for item in range(7)]
    known = {item: stars for user, item, stars in rows[:5]}
    (tmp_path / "r.csv").write_text("".join(f"{user},{item},{stars}\n" for user, item, stars in rows[:5] + rows[7:]))
    train(
        capsys, name, "--ratings", tmp_path / "r.csv", "--out", tmp_path / "m", "--num-hidden", 4, "--init-scale", 0.5
    )
    assert cli.main(["export", str(tmp_path / "m"), "--out", str(tmp_path / "f.safetensors")]) == 0
    with safe_open(tmp_path / "f.safetensors", "np") as file:
        W, b_h, b_m = (file.get_tensor(key) for key in ("W", "b_h", "b_m"))
        low, step, center = (float(file.metadata()[key]) for key in ("low", "step", "center"))
        assert int(file.metadata()["num_values"]) == b_m.shape[1]
    items = (tmp_path / "f.items.txt").read_text().split()
    W = W.reshape(*b_m.shape, -1)
    visible = [W[items.index(str(m)), round((stars - low) / step)] for m, stars in known.items()]
    p = 1 / (1 + np.exp(-(b_h + np.sum(visible, axis=0))))
    logits = b_m[items.index("6")] + W[items.index("6")] @ (p - center)
    shares = np.exp(logits) / np.exp(logits).sum()
    expected = jaxcf.load(tmp_path / "m").predict(["0"], ["6"], clip=False)
    np.testing.assert_allclose(low + step * shares @ np.arange(len(shares)), expected[0], rtol=1e-5)
