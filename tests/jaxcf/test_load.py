"""Loading: what is refused in one line, what is shared, and the precision of all that is public."""

import json
import re
import shutil
import signal

import jax
import numpy as np
import pytest

import jaxcf
from jaxcf import models, training
from jaxcf.cli import main as cli
from jaxcf.contract import (
    ClosedForm,
    FoldsIn,
    KnownUsers,
    PredictsExactly,
    PredictsRatings,
    RatingModel,
    SimilarItems,
    TakesNewItems,
)
from jaxcf.data.ratings import EMPTY, Catalogue, Ratings
from jaxcf.data.synthetic import Planted, planted
from jaxcf.model_files import FILES
from jaxcf.models import bias, get, pairwise
from jaxfit.errors import UserError
from jaxfit.process import signals
from jaxfit.run_dir.metadata import write_manifest
from jaxfit.run_dir.training import Run


@pytest.fixture(scope="module")
def data():
    return planted(jax.random.key(0), Planted(num_users=40, num_items=20, num_ratings=600))


def fitted(data, directory, name="pmf", epochs=2, **kwargs):
    recipe, config = get(name).recipes["tuned"]
    recipe = type(recipe)(**{**vars(recipe), "epochs": epochs, "batch_size": 20})
    small = {"num_features": 3} if name == "pmf" else {"num_hidden": 3}
    return training.train(name, data, directory, recipe=recipe, config={**config, **small}, **kwargs).model


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    directory = tmp_path_factory.mktemp("finished") / "m"
    fitted(data, directory)
    return directory


def changed(finished, tmp_path, **changes):
    """Copy the model, with a `config.json` that says something else."""
    directory = tmp_path / "copy"
    shutil.copytree(finished, directory)
    info = json.loads((directory / "config.json").read_text())
    if isinstance(config := changes.pop("config", {}), dict):
        config = info["config"] | config
    (directory / "config.json").write_text(json.dumps(info | changes | {"config": config}))
    write_manifest(directory, FILES)  # by the old one any change would be found
    return directory


def refused(directory, match, manifest=True):
    if manifest:
        write_manifest(directory, FILES)
    with pytest.raises(UserError, match=match) as error:
        jaxcf.load(directory)
    assert "\n" not in str(error.value)


def test_an_unknown_model_is_refused_with_a_list_of_known_ones(finished, tmp_path, capsys):
    other = changed(finished, tmp_path, model="lbl")
    refused(other, r"no rating model 'lbl' .* user-bias, .* svd, .* crbm, .* wmf; language models are for jaxlm")
    assert cli.main(["info", str(other)]) == 2
    err = capsys.readouterr().err
    assert "jaxlm" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"num_features": 2}, r"parameter U has the shape \(40, 3\), by the configuration \(40, 2\)"),
        ({"num_features": 4}, r"parameter U has the shape \(40, 3\), by the configuration \(40, 4\)"),
        ({"num_users": 39}, r"catalogue \(40 users, 20 items, .*\) is not that of the configuration"),
        ({"num_items": 21}, r"catalogue \(40 users, 20 items, .*\) is not that of the configuration"),
        ({"unit": 1e300}, r"not a model's configuration: unit is 1e\+300"),
        ({"mean": 1.0}, r"the mean of the known ratings is [\d.]+, by the configuration 1 "),
        ({"unit": 2.0}, "the unit of the known ratings is 1, by the configuration 2 "),
        ({"colour": "red"}, "configuration is not that of pmf"),
    ],
)
def test_arrays_that_do_not_fit_the_configuration_are_refused(config, what, finished, tmp_path):
    refused(changed(finished, tmp_path, config=config), what)


def test_another_scale_or_catalogue_is_refused(data, tmp_path):
    model = fitted(data, tmp_path / "rbm", "rbm")
    refused(changed(tmp_path / "rbm", tmp_path, config={"num_values": 4}), "is not that of the configuration")
    shutil.rmtree(tmp_path / "copy")
    other = changed(tmp_path / "rbm", tmp_path)
    fewer = model.known.ratings._replace(item=model.known.ratings.item + 1)
    rated = dict(zip(("rated_user", "rated_item"), model.known.rated, strict=True))
    np.savez(other / "known.npz", user=fewer.user, item=fewer.item, stars=fewer.stars, **rated)
    refused(other, "known ratings are of users or items that the catalogue does not have")


@pytest.mark.parametrize(
    ("file", "name", "change", "what"),
    [
        ("known.npz", "user", lambda user: user.astype(float), r"the model is damaged: user is float64\["),
        ("known.npz", "item", lambda item: item[0], r"the model is damaged: item is int32\[\]"),
        ("known.npz", "stars", lambda stars: stars[1:], "users, items and stars of different numbers"),
        ("known.npz", "rated_user", lambda user: np.zeros(3, int), "users, items and stars of different numbers"),
        ("catalogue.npz", "users", lambda users: users[::-1], "the catalogue's ids are not in order"),
        (
            "known.npz",
            "rated_item",
            lambda item: item[:0].astype(float),
            r"the model is damaged: rated_item is float64\[",
        ),
        ("known.npz", "stars", lambda stars: stars + 1, "known ratings are not "),
        ("known.npz", "stars", lambda stars: stars * np.float32(np.nan), "known ratings are not "),
        ("catalogue.npz", "scale", lambda scale: scale[:2], "its scale is not of three numbers"),
        ("catalogue.npz", "scale", lambda scale: scale * np.nan, "its scale is not of three numbers"),
        ("catalogue.npz", "scale", lambda scale: scale * 1e300, "its scale is not of three numbers"),
    ],
)
def test_arrays_of_other_types_or_sizes_are_refused(file, name, change, what, finished, tmp_path):
    other = changed(finished, tmp_path)
    with np.load(finished / file) as stored:
        arrays = dict(stored)
    np.savez(other / file, **{**arrays, name: change(arrays[name])})
    refused(other, what)


DATA = {"users": 40, "items": 20, "training ratings": 9, "scale": [1, 5, 1]}


@pytest.mark.parametrize(
    "change",
    [
        {"data": {}}, {"data": []}, {"data": {"users": "40"}}, {"data": DATA | {"scale": [1, 5]}},
        {"data": DATA, "epochs": "3"}, {"data": DATA, "config": 3},
        {"data": DATA, "config": {"init_scale": {"a": "b"}}},
    ],
)  # fmt: skip
def test_info_on_a_damaged_configuration_is_one_line(change, finished, tmp_path, capsys):
    assert cli.main(["info", str(changed(finished, tmp_path, **change))]) == 2
    assert "not a model's configuration: " in capsys.readouterr().err


def test_a_missing_configuration_or_array_is_refused(finished, tmp_path):
    other = changed(finished, tmp_path)
    with np.load(finished / "known.npz") as file:
        np.savez(other / "known.npz", **{name: array for name, array in file.items() if name != "stars"})
    refused(other, r"the model is damaged: it has no stars .*known\.npz")
    np.savez(other / "catalogue.npz")
    refused(other, r"the model is damaged: it has no users .*catalogue\.npz")
    info = {"format": 1, "model": "pmf", "finished": True}
    for config, fault in (({}, "it is missing"), ({"config": {}}, ".*num_users")):
        (other / "config.json").write_text(json.dumps({**info, **config}))
        refused(other, f"the configuration is not that of pmf: {fault}")
    shutil.copy(finished / "manifest.json", other)
    refused(other, "the model is damaged: .* is missing or changed", manifest=False)


def test_an_unfinished_training_is_refused_unless_it_is_asked_for(data, tmp_path, capsys):
    model = fitted(data, tmp_path / "m", epochs=50, run=Run(max_minutes=1e-9))
    refused(tmp_path / "m", "training has not finished .* --resume, or add --unfinished")
    loaded = jaxcf.load(tmp_path / "m", unfinished=True)
    for a, b in zip(loaded.params, model.params, strict=True):
        np.testing.assert_array_equal(a, b)
    (tmp_path / "pairs.csv").write_text("user,item\n1,1\n")
    argv = ["predict", str(tmp_path / "m"), "--pairs", str(tmp_path / "pairs.csv")]
    assert cli.main(argv) == 2
    assert "has not finished" in capsys.readouterr().err
    assert cli.main([*argv, "--unfinished"]) == 0
    assert cli.main(["info", str(tmp_path / "m")]) == 0
    assert "training      not finished: go on with it by --resume" in capsys.readouterr().out
    hub = ["export", str(tmp_path / "m"), "--format", "hub", "--out", str(tmp_path / "hub")]
    for argv, said in ((hub, "has not finished .* - go on with it by"), ([*hub, "--unfinished"], "a finished model")):
        assert cli.main(argv) == 2
        assert re.search(f"{said}.* --resume\n$", capsys.readouterr().err)
    shutil.rmtree(tmp_path / "m" / "parameters")
    with pytest.raises(UserError, match="no parameters of a best epoch"):
        jaxcf.load(tmp_path / "m", unfinished=True)


def test_models_of_equal_configurations_share_their_compiled_predictions(finished):
    first, second = jaxcf.load(finished), jaxcf.load(finished)
    pairs = np.arange(5), np.arange(5)
    first.predictor(*pairs)
    compiled = pairwise._predict._cache_size()
    second.predictor(*pairs)
    jaxcf.load(finished).predictor(*pairs)
    assert pairwise._predict._cache_size() == compiled


def test_written_json_has_no_infinity(data, tmp_path):
    stars = np.full(len(data.valid.user), np.inf, np.float32)
    endless = data._replace(valid=data.valid._replace(stars=stars))  # a validation error that is never finite
    recipe, config = get("pmf").recipes["tuned"]
    recipe = type(recipe)(**{**vars(recipe), "epochs": 2})
    training.train("pmf", endless, tmp_path / "m", recipe=recipe, config={**config, "num_features": 2}, solver="als")
    for text in (
        (tmp_path / "m" / "config.json").read_text(),
        *(tmp_path / "m/journal.jsonl").read_text().splitlines(),
    ):
        json.loads(text, parse_constant=pytest.fail)
    assert json.loads((tmp_path / "m" / "config.json").read_text())["validation RMSE"] is None


SEEN = []


def note(value):
    SEEN.append(jax.config.jax_default_matmul_precision)
    return value


def _predictor(params, config, users, decay=None):
    return note(lambda user, item: note(np.asarray(bias.predict(params, user, item, config))))


PROBE = RatingModel(
    name="probe", about="a model that notes the precision of products", source="a test", config=bias.Config,
    shapes=lambda config: note(bias.shapes(config)), recipes=bias.RECIPES,
    fitting=(ClosedForm(lambda ratings, config: note(bias.solve(ratings, config))),),
    capabilities=(
        PredictsRatings(_predictor), PredictsExactly(_predictor), FoldsIn(_predictor),
        SimilarItems(lambda params, config: note(np.ones((config.num_items, 2)))),
        TakesNewItems(lambda params, config, place, ratings, number, decay: note((params, config))),
    ),
)  # fmt: skip


def test_all_public_functions_multiply_in_full_precision(data, tmp_path, monkeypatch):
    monkeypatch.setitem(models.MODELS, "probe", f"{__name__}:PROBE")
    SEEN.clear()
    before = jax.config.jax_default_matmul_precision
    users = KnownUsers(1, EMPTY)
    one = np.zeros(1, np.int32)
    training.train("probe", data, tmp_path / "m").model.predict(["1"], ["1"])
    model = jaxcf.load(tmp_path / "m")
    model.predict(["1"], ["1"])
    for predictor in (model.fold_in(users), model.fold_in(users, exact=True)):
        predictor(one, one)
    model.predictor_given(model.known, exact=True)(one, one)
    model.recommend(data.catalogue.users[0])
    model.recommend(ratings={})
    model.similar(data.catalogue.items[0])
    new = Catalogue(data.catalogue.users[:1], np.array([10**6]), data.catalogue.scale)
    model.with_new_items(Ratings(one, one, np.ones(1, np.float32)), new)
    assert len(SEEN) >= 16
    assert set(SEEN) == {"highest"}
    assert jax.config.jax_default_matmul_precision == before


def test_a_signal_while_a_closed_form_is_written_leaves_all_of_it(data, tmp_path, monkeypatch):
    save = training.model_files.save_known

    def stop(number, frame):
        raise signals.Signalled(number)

    def signalled(*arguments):
        signal.raise_signal(signal.SIGTERM)
        save(*arguments)

    monkeypatch.setattr(training.model_files, "save_known", signalled)
    with signals.handled(stop), pytest.raises(signals.Signalled, match="stopped by SIGTERM"):
        training.train("bias", data, tmp_path, recipe=None)
    assert jaxcf.load(tmp_path).record.name == "bias"
