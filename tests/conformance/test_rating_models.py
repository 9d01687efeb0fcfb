"""Every rating model of the registry, by each of its ways of fitting: its folder, its predictions, its commands."""

import copy
import json
import pickle
from dataclasses import replace

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import jaxcf
from accuracy import assert_better_than_constants
from cases import assert_same, every, is_refused, journal, succeeds
from jaxcf import ranking
from jaxcf.contract import (
    ClosedForm,
    FoldsIn,
    HasFactors,
    KnownUsers,
    PredictsExactly,
    PredictsRatings,
    RanksItems,
    SimilarItems,
    TakesNewItems,
    UsesRatedItems,
)  # fmt: skip
from jaxcf.data.ratings import EMPTY, Ratings, RatingScale
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays

CASES = [case for case in every() if case.package is jaxcf]
pytestmark = pytest.mark.parametrize("case", CASES, ids=str, scope="module")  # one case after another


def only_of_ratings(case):
    """Skip a model of implicit data."""
    if case.record.implicit:
        pytest.skip("it predicts no ratings")


def test_a_loaded_model_is_the_trained_one(case, place, trained, tmp_path):
    folder = trained(case)
    model, data = case.load(folder), place.dataset
    assert model.name == case.record.name
    assert case.record.implicit or model.catalogue.scale == data.catalogue.scale
    if not case.by_sgd:  # of others `test_training` compares the parameters
        fitted = case.train(place, tmp_path / "again").model
        assert_same(model.params, fitted.params)
        users = np.unique(data.valid.user)
        np.testing.assert_array_equal(model.scorer(users), fitted.scorer(users))
    with pytest.raises(UserError, match="is there"):
        case.train(place, folder)
    assert "is there already" in is_refused(jaxcf, *case.argv(place, folder))


def answers(model, place):
    """Return the numbers that a model gives for users of training and new ones, by each of its capabilities."""
    record, some = model.record, {1: 5, 2: 3, 4: 1}
    found = {"scores": model.scorer(np.int32([0, 3, -1])), "many": model.scorer(np.arange(12, dtype=np.int32))}
    if record.capability(PredictsRatings):
        found["stars"] = model.predict([3, 4, 5], [1, 2, 3])
    if record.capability(PredictsExactly):
        found["exact"] = model.predictor_given(model.known, exact=True)(*np.int32([[3, 4], [1, 2]]))
    if record.capability(FoldsIn):
        found["new user"] = [answer.value for answer in model.recommend(ratings=some)]
    if record.capability(SimilarItems):
        found["similar"] = [answer.value for answer in model.similar(3)]
    if record.capability(TakesNewItems):
        ratings = place.dataset.valid._replace(item=np.zeros_like(place.dataset.valid.item))
        catalogue = replace(model.catalogue, items=np.array([99]))
        found["new item"] = model.with_new_items(ratings, catalogue).predict([3, 4], [99, 99])
    return {name: np.asarray(numbers) for name, numbers in found.items()}


def test_a_pickled_or_copied_model_gives_the_same_numbers(case, place, trained):
    model = case.load(trained(case))
    expected = answers(model, place)  # first, so that the model has cached what it does
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.record is case.record
        assert_same(answers(again, place), expected)


def test_a_model_gives_the_same_numbers_where_jax_makes_float64(case, place, trained):
    expected = answers(case.load(trained(case)), place)
    with jax.enable_x64(True):
        found = answers(case.load(trained(case)), place)
    assert_same(found, expected)
    assert {name: x.dtype for name, x in found.items()} == {name: x.dtype for name, x in expected.items()}


def test_rankings_are_finite_and_better_than_no_order(case, place, trained):
    if not case.record.implicit:
        pytest.skip("what it predicts are ratings")
    model = case.load(trained(case))
    known, catalogue = model.known.ratings, model.catalogue
    sizes = catalogue.num_users, catalogue.num_items
    found, chance = (
        ranking.recommended(scorer, EMPTY, known, *sizes, 3).ndcg
        for scorer in (model.scorer, lambda users: np.zeros((len(users), sizes[1])))
    )
    assert model.scorer(np.int32([0, -1])).shape == (2, sizes[1])
    assert np.isfinite(model.scorer(np.int32([0, -1]))).all()
    assert found > 1.02 * chance


def test_predictions_are_finite_and_better_than_no_model(case, place, trained, tmp_path):
    only_of_ratings(case)
    model, train = case.load(trained(case)), place.dataset.train
    if case.by_sgd:  # longer: features grow from a small start, until when a model without biases is a constant
        recipe = replace(case.recipe[0], epochs=60, patience=60)
        model = case.train(place, tmp_path / "longer", recipe=recipe).model
    stars = model.predictor(train.user, train.item)
    assert stars.shape == train.user.shape
    assert_better_than_constants(np.sqrt(np.mean((stars - train.stars) ** 2)), train.stars, 0.005)


def test_unknown_users_and_items_have_no_parameters(case, trained):
    """Those of the last user or item, at the index -1 of an array, change nothing."""
    only_of_ratings(case)
    model = case.load(trained(case))
    sizes, unknown = [(model.catalogue.num_users,), (model.catalogue.num_items,)], np.int32([[-1, -1], [3, -1]])
    changed = jax.tree.map(lambda x: x.at[-1].add(1.0) if x.shape[:1] in sizes else x, model.params)
    predictor = case.record.capability(PredictsRatings).predictor
    one, other = (predictor(params, model.config, model.known)(*unknown) for params in (model.params, changed))
    assert any(np.any(x != y) for x, y in zip(*map(jax.tree.leaves, (model.params, changed)), strict=True))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_users_are_folded_in_each_by_itself(case, trained):
    if not case.record.capability(FoldsIn):
        pytest.skip("it does not fold users in")
    model, items, one = case.load(trained(case)), np.arange(6, dtype=np.int32), np.zeros(1, np.int32)
    stars = np.float32([[5, 5, 1, 2, 4, 3], [1, 2, 5, 5, 3, 3]])
    user = np.repeat(np.arange(2, dtype=np.int32), 6)
    both = model.scorer_given(KnownUsers(2, Ratings(user, np.tile(items, 2), stars.ravel())), new=True)
    for number, own in enumerate(stars):
        alone = model.scorer_given(KnownUsers(1, Ratings(np.zeros(6, np.int32), items, own)), new=True)
        found = alone(one)
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(both(one + number), found, rtol=1e-4, atol=1e-4)


def test_predictions_and_errors_are_in_the_units_of_the_ratings(case, place, trained, tmp_path):
    only_of_ratings(case)
    stars, data = case.load(trained(case)), place.dataset
    train, valid = (part._replace(stars=20 * part.stars + 7) for part in (data.train, data.valid))
    catalogue = replace(data.catalogue, scale=RatingScale(27, 107, 20))
    other = place._replace(dataset=data._replace(train=train, valid=valid, catalogue=catalogue))
    points = case.train(other, tmp_path / "points").model
    pairs = np.append(valid.user, -1), np.append(valid.item, 3)
    np.testing.assert_allclose(points.predictor(*pairs), 20 * stars.predictor(*pairs) + 7, rtol=1e-4)
    if not isinstance(case.fitting, ClosedForm):
        for of_points, of_stars in zip(journal(tmp_path / "points"), journal(trained(case)), strict=True):
            errors = {name: 20 * error for name, error in of_stars["shown"].items()}
            assert of_points["shown"] == pytest.approx(errors, rel=1e-4)
    if case.record.capability(FoldsIn):
        of_new = [
            model.fold_in(model.new_user({i + 1: model.catalogue.scale.low for i in range(6)}))(*np.int32([[0], [8]]))
            for model in (points, stars)
        ]
        np.testing.assert_allclose(of_new[0], 20 * of_new[1] + 7, rtol=1e-4)


def test_exported_arrays_are_the_parameters(case, trained, tmp_path):
    out = tmp_path / "model.safetensors"
    succeeds(jaxcf, "export", trained(case), "--out", out)
    model = case.load(trained(case))
    assert_same(load_file(out), {name: np.asarray(x) for name, x in named_arrays(model.params).items()})
    assert out.with_suffix(".items.txt").read_text().split() == [str(i) for i in model.catalogue.items.tolist()]


def test_a_folder_for_a_hub_is_the_same_model(case, place, trained, tmp_path):
    out, users = tmp_path / "hub", np.arange(4, dtype=np.int32)
    succeeds(jaxcf, "export", trained(case), "--format", "hub", "--out", out)
    model, again = case.load(trained(case)), case.load(out)
    assert {path.suffix for path in out.iterdir()} == {".safetensors", ".json", ".md"}
    assert_same(again.params, model.params)
    np.testing.assert_array_equal(again.scorer(users), model.scorer(users))
    for path in out.iterdir():
        assert str(place.folder).encode() not in path.read_bytes()


def test_inner_products_of_factors_are_the_predictions(case, trained, tmp_path):
    out = tmp_path / "factors"
    if not case.record.capability(HasFactors):
        assert f"; {case.record.name} has" in is_refused(
            jaxcf, "export", trained(case), "--format", "numpy", "--out", out
        )
        return
    succeeds(jaxcf, "export", trained(case), "--format", "numpy", "--out", out)
    model = case.load(trained(case))
    users, items = (np.load(out / f"{name}.npy", mmap_mode="r") for name in ("users", "items"))
    assert users.dtype == items.dtype == np.float32
    assert users.flags.c_contiguous
    assert items.flags.c_contiguous
    assert (out / "users.txt").read_text().split() == [str(i) for i in model.catalogue.users.tolist()]
    found = model.scorer(np.arange(len(users), dtype=np.int32))
    np.testing.assert_allclose(users @ items.T, found, rtol=1e-5, atol=1e-5)


def test_commands_do_what_the_record_offers_and_refuse_the_rest(case, place, trained):
    out, files = trained(case), place.ratings
    commands = [
        (PredictsRatings | RanksItems, ["eval", out, "--ratings", files["test"]]),
        (PredictsRatings, ["predict", out, "--pairs", files["test"]]),
        (PredictsRatings | RanksItems, ["recommend", out, "--user", "3"]),
        (PredictsExactly, ["eval", out, "--ratings", files["test"], "--exact"]),
        (FoldsIn, ["recommend", out, "--rated", "1:5,2:3"]),
        (FoldsIn, ["eval", out, "--ratings", files["of-new-user"], "--known", files["new-user"]]),
        (FoldsIn, ["recommend", out, "--users", files["new-user"]]),
        (TakesNewItems, ["predict", out, "--pairs", files["new-item"], "--new-items", files["new-item"]]),
        (SimilarItems, ["similar", out, "--item", "3"]),
        (UsesRatedItems, ["predict", out, "--pairs", files["test"], "--rated", files["test"]]),
    ]
    for kind, argv in commands:
        if case.record.capability(kind):
            assert succeeds(jaxcf, *argv).strip()
        else:
            assert f"{case.record.name} has none" in is_refused(jaxcf, *argv)
    without_stars = ["recommend", out, "--rated", "1,2:3"]
    if case.record.capability(UsesRatedItems | RanksItems):
        assert succeeds(jaxcf, *without_stars).strip()
    else:
        reason = "'1' has no stars" if case.record.capability(FoldsIn) else f"{case.record.name} has none"
        assert reason in is_refused(jaxcf, *without_stars)
    record = json.loads(succeeds(jaxcf, "eval", out, "--ratings", files["test"], "--json").splitlines()[-1])
    assert case.record.name in succeeds(jaxcf, "info", out)
    if case.record.implicit:
        assert "ndcg@10" in record
        assert "rmse_clipped" not in record
        return
    table = np.loadtxt(files["test"], delimiter=",", dtype=str)
    predicted = case.load(out).predict(table[:, 0], table[:, 1])
    error = np.sqrt(np.mean((predicted - table[:, 2].astype(float)) ** 2))
    assert record["rmse_clipped"] == pytest.approx(error, rel=1e-4)


def test_bad_options_are_one_line(case, place, tmp_path):
    argv = case.argv(place, tmp_path / "out")
    for option, value in {
        "--no-such-option": "1",
        "--duplicates": "some",
        "--recipe": "best",
        "--solver": "none",
    }.items():
        assert option in is_refused(jaxcf, *argv, option, value)
    assert not (tmp_path / "out").exists()
