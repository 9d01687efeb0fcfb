"""Errors as sums, bins of users, and rankings whose ties are broken without favour."""

import itertools
import math

import numpy as np
import pytest

from jaxcf import metrics as evaluate
from jaxcf import ranking
from jaxcf.data.ratings import Ratings, RatingScale, by_user

STARS = RatingScale(1, 5, 1)


def test_errors_equal_a_loop():
    rng = np.random.default_rng(0)
    predicted, stars = rng.normal(3, 2, 200).astype(np.float32), rng.integers(1, 6, 200).astype(np.float32)
    result = evaluate.evaluate(predicted, stars, STARS)
    errors = [float(p) - float(s) for p, s in zip(predicted, stars, strict=True)]
    clipped = [min(5.0, max(1.0, float(p))) - float(s) for p, s in zip(predicted, stars, strict=True)]
    assert result.count == 200
    assert result.rmse == pytest.approx(math.sqrt(sum(e * e for e in clipped) / 200))
    assert result.rmse_unclipped == pytest.approx(math.sqrt(sum(e * e for e in errors) / 200))
    assert result.mae == pytest.approx(sum(abs(e) for e in clipped) / 200)
    assert result.mae_unclipped == pytest.approx(sum(abs(e) for e in errors) / 200)
    assert result.rmse < result.rmse_unclipped
    assert math.isnan(evaluate.evaluate([], [], STARS).rmse)
    cut = evaluate.evaluate(predicted[:77], stars[:77], STARS) + evaluate.evaluate(predicted[77:], stars[77:], STARS)
    assert cut.record() == pytest.approx(result.record())
    with pytest.raises(ValueError, match="not finite"):
        evaluate.evaluate([np.nan], [1], STARS)


def test_bins_have_equal_sizes():
    counts = np.array([5, 0, 3, 3, 8, 3, 1, 9, 2, 7, 0])
    bins = evaluate.bins(counts, 3)
    assert bins.of.tolist() == [1, -1, 0, 1, 2, 1, 0, 2, 0, 2, -1]
    assert (bins.fewest.tolist(), bins.most.tolist()) == ([1, 3, 7], [3, 5, 9])
    sizes = np.bincount(evaluate.bins(np.arange(1, 1004), 10).of)
    assert sorted(sizes) == [100] * 7 + [101] * 3
    assert evaluate.bins([4, 4], 3).most.tolist() == [0, 4, 4]  # fewer users than bins


def brute_force(scores, gains, k):
    """Average over all orders that the scores allow."""
    results = []
    for order in itertools.permutations(range(len(scores))):
        if any(scores[a] < scores[b] for a, b in itertools.pairwise(order)):
            continue
        top = [gains[i] for i in order[:k]]
        dcg = sum(g / math.log2(p + 2) for p, g in enumerate(top))
        results.append((sum(g > 0 for g in top), dcg))
    hits, dcg = np.mean(results, axis=0)
    ideal = sum(g / math.log2(p + 2) for p, g in enumerate(sorted(gains, reverse=True)[:k]))
    return hits / k, hits / sum(g > 0 for g in gains), dcg / ideal


@pytest.mark.parametrize("k", [1, 3, 10, 2**45])  # the last is of more places than fit into memory
def test_ranking_is_the_mean_over_orders_of_ties(k):
    rng = np.random.default_rng(k)
    query, scores, gains, expected = [], [], [], []
    for user in range(12):
        size = rng.integers(1, 8)
        mine, worth = rng.integers(0, 4, size), rng.integers(0, 2, size) * (user > 1)
        query += [user] * size
        scores += mine.tolist()
        gains += worth.tolist()
        if worth.any():
            expected.append(brute_force(mine.tolist(), worth.tolist(), k))
    mixed = rng.permutation(len(query))
    result = ranking.rank(np.array(query)[mixed], np.array(scores)[mixed], np.array(gains)[mixed], k)
    assert len(result.users) == len(expected)
    assert result.skipped == 12 - len(expected) > 0
    np.testing.assert_allclose((result.precision, result.recall, result.ndcg), np.mean(expected, axis=0))


def test_equal_scores_rank_like_random_ones():
    """A model that predicts the same for all is as good as chance, in whatever order items lie."""
    gains = np.zeros(100)
    gains[:10] = 1
    result = ranking.rank(np.zeros(100, int), np.full(100, 3.5), gains, 10)
    assert result.precision == pytest.approx(0.1)
    assert result.recall == pytest.approx(0.1)
    assert ranking.rank(np.zeros(100, int), gains, gains, 10).ndcg == pytest.approx(1)
    assert ranking.rank([0, 0], [2, 1], [0, 1], 5).recall == 1, "the last place counts where lists are shorter than k"
    assert len(ranking.rank([], [], []).users) == 0


def test_ndcg_equals_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(5)
    scores, gains = rng.integers(0, 6, (20, 30)) / 2, rng.integers(0, 2, (20, 30))
    query = np.repeat(np.arange(20), 30)
    for k in (1, 5, 30):
        theirs = metrics.ndcg_score(gains, scores, k=k)
        assert ranking.rank(query, scores.ravel(), gains.ravel(), k).ndcg == pytest.approx(theirs)


def test_rankings_add_up():
    rng = np.random.default_rng(6)
    query, scores, gains = rng.integers(0, 9, 200), rng.random(200), rng.integers(0, 2, 200)
    half = query < 4
    parts = [ranking.rank(query[m], scores[m], gains[m], 5) for m in (half, ~half)]
    whole = ranking.rank(query, scores, gains, 5).record()
    assert (parts[0] + parts[1]).record() == pytest.approx(whole)
    assert whole["ranking_measures"] == "not in the thesis"
    with pytest.raises(ValueError, match="do not add up"):
        _ = parts[0] + ranking.Ranking(10)


def test_unseen_pairs_exclude_training_ratings():
    train = Ratings(np.array([0, 0, 2], np.int32), np.array([1, 3, 0], np.int32), np.ones(3, np.float32))
    test = Ratings(np.array([0, 2, 2], np.int32), np.array([2, 1, 2], np.int32), np.array([5, 3, 4], np.float32))
    ranked, relevant = ranking.unseen(np.array([2, 0], np.int32), by_user(train, 3), by_user(test, 3), 4, 4)
    np.testing.assert_array_equal(ranked, [[0, 1, 1, 1], [1, 0, 1, 0]])
    np.testing.assert_array_equal(relevant, [[0, 0, 1, 0], [0, 0, 1, 0]])


@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_recommendations_are_ranked_as_if_all_items_were_sorted(k):
    """What is left out below the first k places, whatever scores are equal, changes no measure."""
    rng = np.random.default_rng(k)
    users, items = 9, 12
    pairs = rng.permutation(users * items)[:60]
    user, item = (part.astype(np.int32) for part in np.divmod(pairs, items))
    stars = rng.integers(1, 6, 60).astype(np.float32)
    train, test = Ratings(user[:30], item[:30], stars[:30]), Ratings(user[30:], item[30:], stars[30:])
    scores = rng.integers(0, 4, (users, items)).astype(np.float32)
    found = ranking.recommended(lambda users: scores[users], train, test, users, items, k, 3.0)
    asked = np.unique(test.user)
    ranked, relevant = ranking.unseen(asked, by_user(train, users), by_user(test, users), items, 3.0)
    row, column = np.nonzero(ranked)
    whole = ranking.rank(asked[row], scores[asked[row], column], relevant[row, column], k)
    for name in ("users", "precisions", "recalls", "ndcgs"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name))
    assert (found.skipped, found.k) == (whole.skipped, k)
    lists = [
        sorted(np.flatnonzero(mine), key=lambda i, u=u: -scores[u, i])[:k]
        for u, mine in zip(asked, ranked, strict=True)
    ]
    assert found.coverage == len({i for one in lists for i in one}) / items


def test_a_ranking_of_no_user_says_so_in_place_of_its_coverage():
    known = Ratings(np.zeros(1, np.int32), np.zeros(1, np.int32), np.ones(1, np.float32))
    found = ranking.recommended(lambda users: np.zeros((len(users), 2), np.float32), known, known, 1, 2, 1)
    assert found.coverage == 0.5
    assert str(found) == "not ranked: no relevant item is new to its user"


def test_a_user_who_has_rated_all_items_is_counted_as_not_ranked():
    """The numbers of users that are ranked and of those that are not add up to the users of the test."""
    user, item = np.array([0, 0, 0, 1], np.int32), np.array([0, 1, 2, 0], np.int32)
    known = Ratings(user, item, np.ones(4, np.float32))
    test = Ratings(np.array([0, 1], np.int32), np.array([1, 2], np.int32), np.ones(2, np.float32))
    found = ranking.recommended(lambda users: np.zeros((len(users), 3), np.float32), known, test, 2, 3, 1)
    assert (found.users.tolist(), found.skipped) == ([1], 1)
