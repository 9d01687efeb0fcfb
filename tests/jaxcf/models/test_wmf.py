"""Weighted matrix factorization against dense algebra on a few users and items, and on data of known groups."""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest

from jaxcf import ranking
from jaxcf.contract import NO_PAIRS, KnownUsers
from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale
from jaxcf.models import pairwise, wmf
from jaxcf.solvers import implicit_als, tiles
from jaxfit.devices import platform as platforms
from jaxfit.devices.platform import tracing_for
from jaxfit.errors import UserError

USERS, ITEMS, D = 9, 7, 3
CONFIG = wmf.Config(num_users=USERS, num_items=ITEMS, num_features=D, alpha=2.0, decay=0.3, init_scale=0.5)
FORMS = {"linear": CONFIG, "log": replace(CONFIG, confidence="log", epsilon=0.5, exponent=0.5)}
PARAMS = wmf.init(jax.random.key(0), CONFIG)


def table():
    """Draw counts, [USERS, ITEMS]: the first user took most items, the last user and the last item have none."""
    rng = np.random.default_rng(0)
    r = rng.poisson(0.5, (USERS, ITEMS))
    r[0] = rng.integers(1, 5, ITEMS)
    r[-1], r[:, -1] = 0, 0
    return r


def positives(r):
    user, item = (part.astype(np.int32) for part in np.nonzero(r))
    return Ratings(user, item, r[user, item].astype(np.float32))


def confidence(r, form):
    return 1 + (2.0 * r if form == "linear" else 2.0 * np.log(1 + r / 0.5))


def strength(p, form):
    """Return what |x|² of each row is multiplied by; p: preferences."""
    return 0.3 * p.sum(axis=1) ** FORMS[form].exponent


def dense(r, others, form):
    """Eq. 4 for every row, by dense matrices of all pairs; 0 without positives."""
    others, p = np.asarray(others, np.float64), (r > 0).astype(float)
    found = np.zeros((len(r), D))
    for u in np.flatnonzero(p.any(axis=1)):
        C, prior = np.diag(confidence(r[u], form)), strength(p, form)[u] * np.eye(D)
        found[u] = np.linalg.solve(others.T @ C @ others + prior, others.T @ C @ p[u])
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("on", ["cpu", "gpu"])
def test_solves_equal_dense_ones(form, on, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 4)
    monkeypatch.setattr(tiles, "CHUNK_TILES", 3)  # several chunks
    monkeypatch.setattr(tiles, "CHUNK_ROWS", 2)
    monkeypatch.setattr(platforms, "HELD", 3 * (D + 2) ** 2)
    monkeypatch.setattr(tiles, "cores", lambda: 3)
    r = table()
    with tracing_for(on):
        of_users, of_items = wmf.make_data(positives(r), FORMS[form], wmf.in_one_part)
        in_parts, _ = wmf.make_data(positives(r), FORMS[form], wmf.make_sides)
    assert min(len(part.row) for part in (*of_users, *of_items)) > 1
    assert len(in_parts) == (3 if on == "cpu" else 1)
    X = wmf.solve(of_users, *PARAMS, *wmf.strength(FORMS[form]))
    np.testing.assert_allclose(X, dense(r, PARAMS.Y, form), rtol=1e-4, atol=1e-5)
    Y = wmf.solve(of_items, *PARAMS[::-1], *wmf.strength(FORMS[form]))
    np.testing.assert_allclose(Y, dense(r.T, PARAMS.X, form), rtol=1e-4, atol=1e-5)
    assert not X[-1].any()
    assert not Y[-1].any()
    # D steps of conjugate gradients, from anywhere, are exact
    monkeypatch.setattr(implicit_als, "CG_STEPS", D)
    monkeypatch.setattr(implicit_als, "_improvements", jax.jit(implicit_als._improvements.__wrapped__))
    improved = wmf.improve(in_parts, *PARAMS, *wmf.strength(FORMS[form]))
    np.testing.assert_allclose(improved, X, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_the_objective_and_the_specification_are_sums_over_all_pairs(form):
    r, (X, Y) = table(), (np.asarray(rows, np.float64) for rows in PARAMS)
    of_pairs = confidence(r, form) * ((r > 0) - X @ Y.T) ** 2
    of_users = of_pairs.sum(axis=1) + strength(r > 0, form) * (X**2).sum(axis=1)
    of_items = strength((r > 0).T, form) * (Y**2).sum(axis=1)
    found = wmf.objective(PARAMS, positives(r), FORMS[form])
    assert found == pytest.approx(of_users.sum() + of_items.sum(), rel=1e-5)
    losses = [wmf.loss(x, PARAMS.Y, row, FORMS[form]) for x, row in zip(PARAMS.X, r.astype(np.float32), strict=True)]
    np.testing.assert_allclose(losses, of_users, rtol=1e-5)


def test_a_users_solution_is_the_minimum_of_the_specification():
    r = table()
    X = wmf.solve(wmf.make_data(positives(r), CONFIG, wmf.in_one_part)[0], *PARAMS, *wmf.strength(CONFIG))
    of_all = jax.vmap(jax.grad(wmf.loss), (0, None, 0, None))
    at_start = of_all(PARAMS.X, PARAMS.Y, r.astype(np.float32), CONFIG)
    assert np.abs(of_all(X, PARAMS.Y, r.astype(np.float32), CONFIG)).max() < 1e-4 * np.abs(at_start).max()


@pytest.mark.parametrize(("half", "lay_out"), [(wmf.solve, wmf.in_one_part), (wmf.improve, wmf.make_sides)])
def test_the_objective_falls_in_every_half_sweep(half, lay_out):
    r, params = positives(table()), PARAMS
    (of_users, of_items), prior = wmf.make_data(r, CONFIG, lay_out), wmf.strength(CONFIG)
    values = [wmf.objective(params, r, CONFIG)]
    for _ in range(4):
        params = params._replace(X=half(of_users, *params, *prior))
        values.append(wmf.objective(params, r, CONFIG))
        params = params._replace(Y=half(of_items, *params[::-1], *prior))
        values.append(wmf.objective(params, r, CONFIG))
    assert all(after < before for before, after in itertools.pairwise(values))
    assert values[-1] < 0.5 * values[0]


def test_the_number_of_cores_changes_nothing(monkeypatch):
    monkeypatch.setattr(tiles, "CHUNK_TILES", 2)
    found = []
    for number in (1, 2, 3):
        monkeypatch.setattr(tiles, "cores", lambda number=number: number)
        of_users, _ = wmf.make_data(positives(table()), CONFIG, wmf.make_sides)
        assert len(of_users) == number
        found.append(np.asarray(wmf.improve(of_users, *PARAMS, *wmf.strength(CONFIG))))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_sweep_in_parts_can_be_compiled(monkeypatch):
    monkeypatch.setattr(tiles, "CHUNK_TILES", 2)
    monkeypatch.setattr(tiles, "cores", lambda: 2)
    data = wmf.make_data(positives(table()), CONFIG, wmf.make_sides)
    compiled = jax.jit(lambda params, data: wmf.sweep(params, data, CONFIG, wmf.improve))(PARAMS, data)
    for found, expected in zip(compiled, wmf.sweep(PARAMS, data, CONFIG, wmf.improve), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_new_users_are_solved_for():
    r = table()
    scores = wmf.fold_in(PARAMS, CONFIG, KnownUsers(2, positives(r[[0, 3]])), {})(np.int32([1, 0, -1]))
    X = dense(r[[3, 0]], PARAMS.Y, "linear")
    np.testing.assert_allclose(scores[:2], X @ np.asarray(PARAMS.Y).T, rtol=1e-4, atol=1e-5)
    assert not scores[2].any()


def test_a_prior_is_needed():
    with pytest.raises(UserError, match="exact solutions need a decay"):
        wmf.sweep(
            PARAMS, wmf.make_data(positives(table()), CONFIG, wmf.in_one_part), replace(CONFIG, decay=0.0), wmf.solve
        )


def test_validation_must_hold_what_is_new_to_its_users():
    r = positives(table())
    catalogue = Catalogue(np.arange(USERS), np.arange(ITEMS), RatingScale(1, 5, 0))
    setup = wmf.prepare(
        wmf.solve, wmf.in_one_part, jax.random.key(0), Dataset("", r, r, None, catalogue, "", ""), None, CONFIG, None
    )
    with pytest.raises(UserError, match="no validation positive is new to its user"):
        setup.error(setup.params)


def test_sweeps_start_from_two_draws_and_are_judged_by_all_pairs_and_validation():
    """By the objective of a positive, and by NDCG: the first places of items that are not taken in training."""
    r = table()
    train, valid = positives(r), positives(np.where(r == 0, np.eye(USERS, ITEMS), 0))
    data = Dataset("d", train, valid, None, Catalogue(np.arange(USERS), np.arange(ITEMS), RatingScale(0, 9, 1)), "", "")
    sweeps = wmf.prepare(wmf.solve, wmf.in_one_part, jax.random.key(0), data, NO_PAIRS, CONFIG, None)
    X, Y = (np.asarray(rows) for rows in sweeps.params)
    assert not np.any(X[:ITEMS] == Y)
    assert sweeps.objective(sweeps.params) == pytest.approx(wmf.objective(sweeps.params, train, CONFIG) / (r > 0).sum())
    gains = []
    for user, item in zip(valid.user, valid.item, strict=True):  # each has one
        scores = X[user] @ Y.T
        place = 1 + np.sum(scores[r[user] == 0] > scores[item])
        gains.append(1 / np.log2(place + 1))
    assert len(gains) > 2
    assert 1 - sweeps.error(sweeps.params) == pytest.approx(np.mean(gains))


def test_users_of_a_group_are_recommended_what_the_group_takes():
    """Each of three groups takes its own items, all equally popular: held-out ones are found, by taste alone."""
    rng = np.random.default_rng(1)
    users, items = 60, 30
    same = np.arange(users)[:, None] % 3 == np.arange(items) % 3
    taken = same & (rng.random((users, items)) < 0.6)
    user, item = (part.astype(np.int32) for part in np.nonzero(taken))
    held = rng.random(len(user)) < 0.2
    train, test = (Ratings(user[m], item[m], np.ones(m.sum(), np.float32)) for m in (~held, held))
    config = replace(CONFIG, num_users=users, num_items=items)
    params, data = wmf.init(jax.random.key(0), config), wmf.make_data(train, config, wmf.make_sides)
    for _ in range(5):
        params = wmf.sweep(params, data, config, wmf.improve)
    scorers = pairwise.by_products(*params), lambda users: same[users], ranking.by_popularity(train, items)
    found, best, popular = (ranking.recommended(one, train, test, users, items, 5).recall for one in scorers)
    assert found > 0.95 * best > 1.9 * popular


def test_the_cost_is_of_all_normal_equations_and_their_solutions():
    found = wmf.cost(replace(CONFIG, num_users=5, num_items=2), 70)
    assert 70 * found.operations == pytest.approx(70 * 4 * (9 + 3) + 7 * (9 + 4 * 9))
    assert (found.read, 70 * found.added) == (6, pytest.approx(7 * 3))
