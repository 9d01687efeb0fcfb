"""Trained models of the registry: predictions, recommendations, new users, resuming; against the models' own files."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxcf
from accuracy import assert_better_than_constants
from jaxcf import top_items, training
from jaxcf.contract import NO_PAIRS, HasFactors, KnownUsers, PredictsRatings, SimilarItems
from jaxcf.data import splits
from jaxcf.data import synthetic as planted
from jaxcf.data.ratings import EMPTY, Catalogue, Dataset, Pairs, Ratings, RatingScale, digest, take
from jaxcf.data.synthetic import Planted
from jaxcf.models import get, names, pmf
from jaxcf.models.pairwise import FEW_USERS, by_stars
from jaxcf.models.rbm import model as rbm
from jaxfit import loop
from jaxfit.errors import NotInTraining, UserError
from jaxfit.run_dir.training import Run

SMALL = Planted(num_users=120, num_items=40, num_ratings=2000, num_features=2)
SIZES = {"num_features": 3, "num_hidden": 4}
FAMILIES = ("bias", "pmf", "cpmf", "rbm")


@pytest.fixture(scope="module")
def data():
    return planted.planted(jax.random.key(0), SMALL)


def recipe_of(name, **changes):
    recipe, config = get(name).recipes["tuned"]
    fields = get(name).config.__dataclass_fields__
    config = {**config, **{name: size for name, size in SIZES.items() if name in fields}}
    changes = {"epochs": 2, "batch_size": 20, "rate": {"*": 0.01}, **changes}
    return recipe and dataclasses.replace(recipe, **changes), config


def fitted(name, data, directory, run=None, rated=NO_PAIRS, init_scale=None, **changes):
    recipe, config = recipe_of(name, **changes)
    if init_scale is not None and "init_scale" in get(name).config.__dataclass_fields__:
        config = {**config, "init_scale": init_scale}
    return training.train(name, data, directory, recipe=recipe, config=config, rated=rated, run=run or Run()).model


def each_model():
    """Return all models that predict ratings: extended, but for one of each family."""
    every = [name for name in names() if get(name).capability(PredictsRatings)]
    return [pytest.param(name, marks=[] if name in FAMILIES else pytest.mark.extended) for name in every]


@pytest.fixture(scope="module", params=each_model())
def trained(request, data, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param) / "model"
    # long enough for features to grow from their small start: until then, without biases, a model is a constant
    return fitted(request.param, data, directory, init_scale=0.1, epochs=20, rate={"*": 0.02}), directory


def test_a_loaded_model_predicts_like_the_trained_one(trained, data):
    model, directory = trained
    again = jaxcf.load(directory)
    users, items = data.catalogue.users[data.test.user], data.catalogue.items[data.test.item]
    found = again.predict(users, items)
    np.testing.assert_array_equal(found, model.predict(users, items))
    assert found.min() >= 1
    assert found.max() <= 5
    assert_better_than_constants(np.sqrt(np.mean((data.test.stars - found) ** 2)), data.test.stars, 0.01)


def test_recommendations_exclude_rated_items_and_are_sorted(trained, data):
    model, _ = trained
    user = int(data.train.user[0])
    found = model.recommend(data.catalogue.users[user], top=100)
    rated = set(data.catalogue.items[data.train.item[data.train.user == user]].tolist())
    items = [answer.item for answer in found]
    assert not rated & set(items)
    assert rated | set(items) == set(data.catalogue.items.tolist())
    stars = [answer.value for answer in found]
    assert stars == sorted(stars, reverse=True)
    np.testing.assert_allclose(stars, model.predict([data.catalogue.users[user]] * len(items), items), atol=1e-5)
    assert model.recommend(data.catalogue.users[user], top=3) == found[:3]


def test_recommend_takes_new_users_and_refuses_unknown_ids(trained, data):
    model, _ = trained
    some = data.catalogue.items[:3].tolist()
    found = model.recommend(ratings={some[0]: 5, some[1]: 1}, top=100)
    assert not {some[0], some[1]} & {answer.item for answer in found}
    assert np.isfinite([answer.value for answer in found]).all()
    assert np.isfinite(model.predict(["nobody", "nobody"], [some[0], "nothing"], known_only=False)).all()
    with pytest.raises(UserError, match="no item 'nothing'"):
        model.recommend(ratings={"nothing": 5})
    with pytest.raises(UserError, match="no user is named"):
        model.recommend()
    with pytest.raises(UserError, match="both a user and ratings"):
        model.recommend(data.catalogue.users[0], ratings={some[0]: 5})
    with pytest.raises(UserError, match=r"9 stars of .* are not on the scale"):
        model.recommend(ratings={some[0]: 9})
    with pytest.raises(UserError, match="no user 'nobody'"):
        model.recommend("nobody")
    for several in (model.recommend, model.has_user, model.has_item):
        with pytest.raises(UserError, match="are named - give one id at a time"):
            several([some[0], some[1]])
    assert model.has_item(np.array(some[0]))
    with pytest.raises(UserError, match="not stars by item"):
        model.recommend(ratings=some)
    with pytest.raises(UserError, match="not a number"):
        model.recommend(ratings={some[0]: "good"})
    with pytest.raises(UserError, match="rated is not a list"):
        model.recommend(ratings={some[0]: 5}, rated=str(some[1]))
    with pytest.raises(UserError, match="top"):
        model.recommend(ratings={some[0]: 5}, top="3")
    user = data.catalogue.users[data.train.user[0]]
    assert model.has_user(user)
    assert model.has_item(some[0])
    assert not model.has_user("nobody")
    assert not model.has_item("nothing")


def test_users_of_training_are_scored_by_factors_as_pair_by_pair(trained):
    """By factors of all users where many are scored; few are, pair by pair."""
    model, _ = trained
    users = np.array([3, -1, 0, 7, 1, 2, 4, -1, 5], np.int32)
    assert len(users) > FEW_USERS > 3
    scores, pairs = model.scorer(users), by_stars(model.predictor, model.catalogue.num_items)(users)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, pairs, rtol=1e-6)
    np.testing.assert_array_equal(model.scorer(users[:3]), pairs[:3])
    factors = model.record.capability(HasFactors)
    if factors:
        assert {part.dtype for part in factors.factors(model.params, model.config, model.known)} == {np.dtype("f4")}


@pytest.mark.parametrize(
    ("users", "items"), [(["1", "2"], ["1"]), ("1", "1"), ("1", ["1"]), (1, 2), ([[1], [2, 3]], [1, 2])]
)
def test_predict_takes_two_lists_of_one_length(trained, users, items):
    with pytest.raises(UserError, match="not two lists of the same length"):
        trained[0].predict(users, items)


def test_similar_items_are_nearest_by_cosine(trained, data):
    model, _ = trained
    item = data.catalogue.items[5].item()
    similar = model.record.capability(SimilarItems)
    if similar is None:
        with pytest.raises(UserError, match=r"needs item vectors; .*bias has none - use svd, .* or wmf"):
            model.similar(item)
        return
    vectors = np.asarray(similar.vectors(model.params, model.config), np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit[5]
    with pytest.raises(UserError, match="several items are named"):
        model.similar([item, item])
    found = model.similar(item, top=4)
    best = [i for i in np.argsort(-cosine) if i != 5][:4]
    assert [answer.item for answer in found] == data.catalogue.items[best].tolist()
    np.testing.assert_allclose([answer.value for answer in found], cosine[best], atol=1e-5)


def test_vectors_of_an_rbms_movies_leave_out_what_all_ratings_share():
    random, config = np.random.default_rng(0), rbm.Config(num_items=5, num_values=3, num_hidden=2)
    W = random.normal(size=(5, 3, 2)).astype(np.float32)

    def vectors(W):
        return rbm.item_vectors(rbm.Params(W.reshape(15, 2), np.zeros((5, 3)), np.zeros(2)), config)

    expected = [np.concatenate([of_rating - sum(of_movie) / 3 for of_rating in of_movie]) for of_movie in W]
    np.testing.assert_allclose(vectors(W), expected, atol=1e-6)
    shared = random.normal(size=(5, 1, 2)).astype(np.float32)
    np.testing.assert_allclose(vectors(W + shared), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["pmf", "cpmf"])
def test_an_item_without_training_ratings_stays_at_the_priors_mean(kind, data, tmp_path):
    gone = data.train.item == data.train.item[0]
    less = data._replace(train=take(data.train, ~gone))
    model = fitted(kind, less, tmp_path / "m")
    assert not np.any(model.params.V[data.train.item[0]])
    assert model.params.c[data.train.item[0]] == 0


def test_who_is_in_validation_ratings_alone_was_not_in_training(data, tmp_path):
    user, item = (column[0] for column in data.train[:2])
    model = fitted("pmf", data._replace(train=take(data.train, data.train.item != item)), tmp_path / "m")
    name = data.catalogue.items[item].item()
    assert not model.has_item(name)
    with pytest.raises(NotInTraining, match=f"no item {name} was in training"):
        model.similar(name)
    assert name not in [answer.item for answer in model.similar(data.catalogue.items[item - 1].item(), top=100)]
    known = take(data.train, data.train.user != user)
    model = dataclasses.replace(model, known=model.known._replace(ratings=known))
    with pytest.raises(NotInTraining, match="was in training"):
        model.recommend(data.catalogue.users[user].item())


@pytest.mark.parametrize("kind", ["cpmf", "crbm"])
def test_rated_items_change_predictions_of_models_that_use_them(kind, data, tmp_path):
    rated = Pairs(data.test.user, data.test.item)
    model = fitted(kind, data, tmp_path / "m", rated=rated, epochs=30, rate={"*": 0.05}, init_scale=0.1)
    plain = model.stars(model.predictor, data.test.user, data.test.item)
    # the same model without rated pairs beside its training ratings
    without = model.predictor_given(model.known._replace(rated=NO_PAIRS))
    assert np.abs(without(data.test.user, data.test.item) - plain).max() > 1e-4
    assert jaxcf.load(tmp_path / "m").known.rated.user.tolist() == rated.user.tolist()
    items = data.catalogue.items
    seen = model.recommend(ratings={}, rated=items[:5].tolist(), top=100)
    assert not set(items[:5].tolist()) & {answer.item for answer in seen}
    other = model.recommend(ratings={}, rated=items[5:10].tolist(), top=100)
    common = {a.item: a.value for a in seen}
    assert any(a.item in common and abs(common[a.item] - a.value) > 1e-5 for a in other)


@pytest.mark.extended
def test_folding_in_a_training_user_reproduces_its_predictions(data, tmp_path):
    """PMF's vectors at the end of training are nearly the ridge regressions that fold-in solves."""
    to_the_end = data._replace(valid=data.train)  # whose best epoch is the last
    recipe, config = recipe_of("pmf", epochs=100, rate={"*": 0.05}, decay={"*": 1.3})
    config = {**config, "prior": "per-row"}  # the same for rows of many ratings and of few, and so for new ones
    model = training.train("pmf", to_the_end, tmp_path / "m", recipe=recipe, config=config, run=Run()).model
    folded = model.fold_in(KnownUsers(data.catalogue.num_users, data.train, NO_PAIRS))
    pairs = data.train.user, data.train.item
    difference = folded(*pairs) - model.predictor(*pairs)
    assert np.sqrt(np.mean(difference**2)) < 0.03


def test_a_checkerboard_recommends_the_withheld_item(tmp_path):
    """Users and items of two colours; like colours are rated 5, others 1; one rating of 5 is withheld."""
    user, item = (x.ravel().astype(np.int32) for x in np.meshgrid(range(12), range(10), indexing="ij"))
    stars = np.where((user + item) % 2 == 0, 5, 1).astype(np.float32)
    held = (user == 3) & (item == 5)
    other = np.random.default_rng(0).random(len(user)) < 0.1
    catalogue = Catalogue(np.arange(12), np.arange(10), RatingScale(1, 5, 1))
    ratings = Ratings(user[~held], item[~held], stars[~held])
    valid = Ratings(user[other], item[other], stars[other])
    board = Dataset("board", ratings, valid, None, catalogue, digest(ratings, valid, catalogue), "")
    model = fitted("pmf", board, tmp_path / "m", epochs=150, batch_size=10, rate={"*": 0.05}, decay={"*": 0.01})
    (best,) = model.recommend(3, top=1)
    assert best.item == 5
    assert best.value > 4


@pytest.mark.parametrize(
    "kind", ["pmf", *(pytest.param(name, marks=pytest.mark.extended) for name in ("svd", "cpmf", "rbm", "crbm"))]
)
def test_a_second_training_compiles_no_step_again(kind, data, tmp_path):
    whole = {"batch_size": 120}  # users: one bucket, whatever the order
    fitted(kind, data, tmp_path / "one", **whole)
    made = loop.make_run.cache_info()
    fitted(kind, data, tmp_path / "two", rate={"*": 0.02}, **whole)
    assert loop.make_run.cache_info().misses == made.misses
    assert loop.make_run.cache_info().hits > made.hits


def test_svd_without_the_mean_predicts_products_alone(data, tmp_path):
    recipe, config = recipe_of("svd", epochs=30, rate={"*": 0.02})
    config |= {"subtract_mean": False, "init_scale": 0.3}
    model = training.train("svd", data, tmp_path / "m", recipe=recipe, config=config, run=Run()).model
    U, V = np.asarray(model.params.U), np.asarray(model.params.V)
    user, item = data.test.user, data.test.item
    np.testing.assert_allclose(model.predictor(user, item), np.sum(U[user] * V[item], axis=1), rtol=1e-5)
    assert model.config.mean == 0
    users, items = data.catalogue.users[user], data.catalogue.items[item]
    np.testing.assert_array_equal(jaxcf.load(tmp_path / "m").predict(users, items), model.predict(users, items))
    error = model.predict(users, items) - data.test.stars
    assert np.sqrt(np.mean(error**2)) < 0.95 * np.std(data.test.stars)


def test_unusable_data_are_refused(data, tmp_path):
    with pytest.raises(UserError, match="no validation ratings"):
        fitted("pmf", data._replace(valid=EMPTY), tmp_path / "a")
    smooth = dataclasses.replace(data.catalogue, scale=RatingScale(1, 5, 0))
    with pytest.raises(UserError, match="needs a scale"):
        fitted("rbm", data._replace(catalogue=smooth), tmp_path / "b")
    equal = dataclasses.replace(data.catalogue, scale=RatingScale(4, 4, 0))
    with pytest.raises(UserError, match=r"and all are 4 .* with a step$"):
        fitted("rbm", data._replace(catalogue=equal), tmp_path / "b")
    between = data._replace(train=data.train._replace(stars=data.train.stars - 0.5))
    with pytest.raises(UserError, match="some are between"):
        fitted("rbm", between, tmp_path / "b")
    fitted("bias", data, tmp_path / "c")
    with pytest.raises(UserError, match="a model is there already"):
        fitted("bias", data, tmp_path / "c")


def test_a_trained_pmf_predicts_like_the_models_function(data, tmp_path):
    model = fitted("pmf", data, tmp_path / "m")
    expected = pmf.predict(model.params, data.test.user, data.test.item, model.config)
    np.testing.assert_allclose(model.predictor(data.test.user, data.test.item), expected, rtol=1e-6)
    carved = splits.carve(jax.random.key(1), data)
    assert len(carved.train.user) + len(carved.valid.user) == len(data.train.user)


def test_of_equal_scores_the_first_items_are_the_highest():
    scores = np.array([1.0, 2.0, 2.0, -np.inf, 3.0, 2.0, 1.0], np.float32)
    assert top_items.highest(scores, 3).tolist() == [4, 1, 2]
    assert top_items.highest(scores, 9).tolist() == [4, 1, 2, 5, 0, 6], "what is left out is never among them"
