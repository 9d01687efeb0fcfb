"""New users and new items of trained models: at the minimum of their objective, all else fixed."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

from jaxcf import metrics, new_users, training
from jaxcf.contract import FoldsIn, KnownUsers
from jaxcf.data import reading, splits
from jaxcf.data.ratings import EMPTY, Catalogue, Dataset, Pairs, Ratings, RatingScale, digest, take
from jaxcf.data.reading import Reading
from jaxcf.models import bias, get, pairwise, pmf
from jaxcf.models.cpmf import model as cpmf
from jaxcf.recommender import Model
from jaxcf.solvers import als, implicit_als
from jaxfit.errors import UserError

USERS, ITEMS, D = 7, 12, 3
SCALE = RatingScale(1, 5, 1)
PRIORS = pytest.mark.parametrize("prior", ["per-rating", "per-row"])


def draws():
    return np.random.default_rng(3)


def newcomers():
    """Return ratings of three new users, the last with none; further rated items of the first and of the last."""
    ratings = Ratings(
        np.array([0, 1, 0, 0, 1], np.int32), np.array([4, 4, 2, 9, 0], np.int32), np.array([5, 2, 4, 1, 3], np.float32)
    )  # fmt: skip
    return KnownUsers(3, ratings, Pairs(np.array([0, 2], np.int32), np.array([7, 3], np.int32)))


def table(*shape):
    return np.random.default_rng(len(shape) + shape[0]).normal(0, 0.7, shape).astype(np.float32)


@PRIORS
@pytest.mark.parametrize("items", [True, False])
def test_a_new_users_bias_is_the_shrunken_mean_of_residuals(prior, items):
    config = bias.Config(USERS, ITEMS, items=items, mean=3.3, prior=prior, decay_users=2.0)
    params = bias.Params(table(USERS), table(ITEMS) * items)
    users = newcomers()
    predictor = get("bias").capability(FoldsIn).predictor(params, config, users, {})
    for user in range(3):
        mine = users.ratings.user == user
        rest = users.ratings.stars[mine] - 3.3 - params.c[users.ratings.item[mine]]
        count = mine.sum()
        b = rest.sum() / max(1, count + 2.0 * (count if prior == "per-rating" else 1))
        found = predictor(np.full(ITEMS + 1, user), np.append(np.arange(ITEMS), -1))
        np.testing.assert_allclose(found, 3.3 + b + np.append(params.c, 0), rtol=1e-5)


def objective(x, stars, V, offset, times, decay):
    """½ Σ e² and the priors, in float64, of one user's vector and bias."""
    error = stars - offset - V @ x[:D] - x[D]
    return 0.5 * error @ error + 0.5 * times * (decay["Y"] * x[:D] @ x[:D] + decay["b"] * x[D] ** 2)


@PRIORS
@pytest.mark.parametrize("only", [False, True])
def test_fold_in_of_cpmf_minimises_its_objective(prior, only):
    config = cpmf.Config(USERS, ITEMS, num_features=D, mean=3.3, prior=prior)
    params = cpmf.Params(table(USERS, D), table(ITEMS, D), 2 * table(ITEMS, D), table(USERS), table(ITEMS))
    decay, users = {"Y": 0.3, "*": 0.1, "b": 0.2}, newcomers()._replace(rated_only=only)
    predictor = get("cpmf").capability(FoldsIn).predictor(params, config, users, decay)
    V, W, c = (np.asarray(x, np.float64) for x in (params.V, params.W, params.c))
    for user in range(3):
        mine = users.ratings.user == user
        item, stars = users.ratings.item[mine], users.ratings.stars[mine].astype(np.float64)
        rated = set(users.rated.item[users.rated.user == user]) | (set() if only else set(item))
        mu = W[sorted(rated)].mean(axis=0) if rated else np.zeros(D)
        offset = 3.3 + c[item] + V[item] @ mu
        times = mine.sum() if prior == "per-rating" else 1
        best = minimize(objective, np.zeros(D + 1), (stars, V[item], offset, times, decay), tol=1e-10).x
        found = predictor(np.full(ITEMS, user), np.arange(ITEMS))
        np.testing.assert_allclose(found, 3.3 + c + V @ (mu + best[:D]) + best[D], atol=2e-4)


def small():
    """Return a PMF of ids that are not indices, whose last item was not rated in training."""
    config = pmf.Config(USERS, ITEMS, num_features=D, mean=3.3)
    params = pmf.Params(table(USERS, D), table(ITEMS, D), table(USERS), table(ITEMS))
    params = params._replace(V=jax.numpy.asarray(params.V).at[-1].set(0), c=jax.numpy.asarray(params.c).at[-1].set(0))
    user, item = (x.ravel().astype(np.int32) for x in np.meshgrid(range(USERS), range(ITEMS - 1)))
    known = Ratings(user, item, np.full(len(user), 3, np.float32))
    catalogue = Catalogue(10 * np.arange(USERS), 10 * np.arange(ITEMS), SCALE)
    info = {"recipe": {"decay": {"*": 0.3, "c": 0.1}}}
    return Model(get("pmf"), catalogue, info, params, config, KnownUsers(USERS, known))


def test_new_items_minimise_the_objective_and_old_ones_are_unchanged():
    model = small()
    # items 45 and 999 are new, 110 is known without ratings, 40 is trained; user 7 is not known
    ids = Catalogue(np.array([7, 0, 20, 60]), np.array([40, 45, 110, 999]), SCALE)
    new = Ratings(
        np.array([1, 2, 3, 0, 1, 2], np.int32), np.array([1, 1, 1, 1, 2, 0], np.int32),
        np.array([5, 2, 4, 1, 4, 1], np.float32),
    )  # fmt: skip
    extended = model.with_new_items(new, ids)
    assert extended.catalogue.items.tolist() == [0, 10, 20, 30, 40, 45, 50, 60, 70, 80, 90, 100, 110]
    U, b = np.asarray(model.params.U, np.float64), np.asarray(model.params.b, np.float64)
    for item, users, stars in ((45, [0, 2, 6], [5, 2, 4]), (110, [0], [4])):
        X, usual = np.hstack([U[users], np.ones((len(users), 1))]), USERS  # who have rated each item of training
        best = np.linalg.solve(X.T @ X + usual * np.diag([0.3] * D + [0.1]), X.T @ (np.array(stars) - 3.3 - b[users]))
        found = extended.predict(10 * np.arange(USERS), [item] * USERS, clip=False)
        np.testing.assert_allclose(found, 3.3 + b + U @ best[:D] + best[D], atol=2e-4)
    users, items = (x.ravel() for x in np.meshgrid(model.catalogue.users, model.catalogue.items[:-1]))
    np.testing.assert_array_equal(extended.predict(users, items), model.predict(users, items))
    assert 45 not in {answer.item for answer in extended.recommend(20, top=100)}, "user 20 has rated it"
    assert 45 in {answer.item for answer in extended.recommend(30, top=100)}
    assert len(extended.similar(45, top=100)) == ITEMS
    with pytest.raises(UserError, match="no rating is of an item that was not in training"):
        model.with_new_items(take(new, [3, 5]), ids)
    with pytest.raises(UserError, match=r"needs a way to take new items; .* has none"):
        dataclasses.replace(model, record=get("rbm")).with_new_items(new, ids)


def test_ratings_of_new_items_by_users_of_validation_alone_are_ignored():
    whole = small()
    known = whole.known.ratings
    model = dataclasses.replace(whole, known=KnownUsers(USERS, take(known, known.user != 2)))
    new = Ratings(np.array([0, 1, 2], np.int32), np.zeros(3, np.int32), np.array([5, 2, 1], np.float32))
    ids = Catalogue(np.array([0, 10, 20]), np.array([45]), SCALE)
    extended, expected = (model.with_new_items(ratings, ids) for ratings in (new, take(new, [0, 1])))
    np.testing.assert_array_equal(extended.predict([0, 10], [45, 45]), expected.predict([0, 10], [45, 45]))
    assert not extended.in_training.user[2]
    with pytest.raises(UserError, match="by a user that was"):
        model.with_new_items(take(new, [2]), ids)


def test_the_prior_of_a_new_user_is_that_of_one_with_the_mean_number_of_ratings():
    model, users = small(), newcomers()
    V, c = np.asarray(model.params.V, np.float64), np.asarray(model.params.c, np.float64)
    predictor = model.fold_in(users)
    for user in range(3):
        mine = users.ratings.user == user
        item, stars = users.ratings.item[mine], users.ratings.stars[mine]
        X = np.hstack([V[item], np.ones((len(item), 1))])
        ridge = (ITEMS - 1) * 0.3 * np.eye(D + 1)  # of all users, of training
        best = np.linalg.solve(X.T @ X + ridge, X.T @ (stars - 3.3 - c[item]))
        found = predictor(np.full(ITEMS, user), np.arange(ITEMS))
        np.testing.assert_allclose(found, 3.3 + c + V @ best[:D] + best[D], atol=2e-4)
    unregularised = dataclasses.replace(model, info={"recipe": {"decay": {"*": 0.0}}})
    assert new_users.prior(unregularised, np.ones(USERS, bool))[1] == {
        "*": pytest.approx((ITEMS - 1) * als.FOLD_IN_DECAY)
    }
    per_row = dataclasses.replace(model, config=dataclasses.replace(model.config, prior="per-row"))
    of_bias = dataclasses.replace(model, config=bias.Config(USERS, ITEMS, prior="per-rating", decay_users=2.0), info={})
    assert new_users.prior(of_bias, np.ones(USERS, bool)) == (of_bias.config, {}), "its decay is in its configuration"
    assert new_users.prior(per_row, np.ones(USERS, bool)) == (per_row.config, per_row.decay)


@pytest.mark.extended
def test_few_ratings_of_a_new_user_are_better_than_none(data_dir, tmp_path):
    """On MovieLens 100K, of users that were not in training: with one, two and five of their ratings known."""
    table = reading.read(next((data_dir / "ml-100k").glob("u.data*")))
    held_out = splits.users(jax.random.key(5), table.ratings._replace(time=None), 0.15)
    queried, known = held_out.queried, held_out.known
    data = Dataset("held out", held_out.train, EMPTY, None, table.catalogue, "", "")
    model = training.train("pmf", splits.carve(jax.random.key(1), data), tmp_path / "pmf").model

    def rmse(predictor):
        return metrics.evaluate(predictor(queried.user, queried.item), queried.stars, model.catalogue.scale).rmse

    order = np.random.default_rng(0).permutation(len(known.user))
    known = take(known, order[np.argsort(known.user[order], kind="stable")])
    place = np.arange(len(known.user)) - np.searchsorted(known.user, known.user)
    users = (KnownUsers(model.catalogue.num_users, take(known, place < number)) for number in (0, 1, 2, 5, 1000))
    none, *some, all_ = (rmse(model.fold_in(each)) for each in users)
    assert all(error < none for error in some)
    assert all_ < none - 0.07


@pytest.mark.parametrize("kind", ["pmf", "wmf", "cpmf"])
def test_new_users_with_any_number_of_ratings_share_a_compiled_program(kind):
    items, record = 300, get(kind)
    config = record.config(num_users=USERS, num_items=items, num_features=D)
    params = jax.tree.map(lambda shape: table(*shape.shape), record.shapes(config))
    compiled = (implicit_als._solutions if kind == "wmf" else als.solve)._cache_size
    before = compiled()
    for number in (3, 5, 10, 33, 40, 65, 100, 130, 200):
        item = np.arange(number, dtype=np.int32)
        users = KnownUsers(1, Ratings(np.zeros_like(item), item, 1 + item.astype(np.float32) % 5))
        record.capability(FoldsIn).predictor(params, config, users, {})
    assert compiled() <= before + 1


def test_predictions_do_not_depend_on_the_number_of_pairs(monkeypatch):
    model = small()
    user, item = draws().integers(-1, USERS, 700), draws().integers(-1, ITEMS, 700)
    whole = model.predictor(user, item)
    np.testing.assert_array_equal(model.predictor(user[:5], item[:5]), whole[:5])
    monkeypatch.setattr(pairwise, "PAIRS_AT_ONCE", 256)
    np.testing.assert_array_equal(model.predictor(user, item), whole)
    assert len(model.predictor(user[:0], item[:0])) == 0


HURRIED = {"epochs": 8, "batch_size": 500, "rate": {"*": 0.08}}


@pytest.mark.parametrize("kind", [pytest.param("pmf", marks=pytest.mark.extended), "bias"])
def test_folded_in_users_of_movielens_1m_are_predicted_nearly_as_well_full_float32_ones(kind, data_dir, tmp_path):
    """Folded in from half of their ratings: RMSE on the other half within 0.01 of that of training with that half."""
    read = reading.read([data_dir / "ml-1m" / "ratings-notime.dat.gz"], Reading(scale="1,5,1"))
    held = splits.users(jax.random.key(1), read.ratings, 1000 / 6040)
    assert len(np.unique(held.queried.user)) == 1000
    errors = []
    for name, parts in (("without", (held.train,)), ("with", (held.train, held.known))):
        ratings = Ratings(*(np.concatenate(column) for column in zip(*(p[:3] for p in parts), strict=True)))
        split = splits.random(jax.random.key(2), ratings, test=0.05)
        catalogue = read.catalogue
        data = Dataset(name, split.train, split.test, None, catalogue, digest(split.train, split.test, catalogue), "")
        recipe, config = get(kind).recipes["tuned"]
        if recipe is not None:
            recipe, config = dataclasses.replace(recipe, **HURRIED), {"num_features": 20, "init_scale": 0.03}
        model = training.train(kind, data, tmp_path / name, recipe=recipe, config=config).model
        predictor = model.predictor
        if name == "without":
            predictor = model.fold_in(KnownUsers(catalogue.num_users, held.known))
            strangers = model.predictor(held.queried.user, held.queried.item)
            errors.append(np.sqrt(np.mean((strangers - held.queried.stars) ** 2)))
        predicted = predictor(held.queried.user, held.queried.item)
        errors.append(np.sqrt(np.mean((predicted - held.queried.stars) ** 2)))
    unknown, folded, trained = errors
    assert abs(folded - trained) < 0.01
    assert folded < unknown - 0.03


def test_users_without_ratings_are_predicted_from_item_biases():
    model = small()
    predictor = model.fold_in(KnownUsers(1, EMPTY))
    np.testing.assert_allclose(predictor(np.zeros(ITEMS), np.arange(ITEMS)), 3.3 + model.params.c, rtol=1e-6)
