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
    parts = evaluate.by_group(predicted, stars, STARS, rng.integers(-1, 3, 200), 4)
    assert parts[3].count == 0
    assert math.isnan(parts[3].rmse)
    cut = evaluate.evaluate(predicted[:77], stars[:77], STARS) + evaluate.evaluate(predicted[77:], stars[77:], STARS)
    assert cut.record() == pytest.approx(result.record())
    with pytest.raises(ValueError, match="not finite"):
        evaluate.evaluate([np.nan], [1], STARS)


def test_bins_have_equal_sizes_and_separate_errors():
    counts = np.array([5, 0, 3, 3, 8, 3, 1, 9, 2, 7, 0])
    bins = evaluate.bins(counts, 3)
    assert bins.of_user.tolist() == [1, -1, 0, 1, 2, 1, 0, 2, 0, 2, -1]
    assert (bins.fewest.tolist(), bins.most.tolist()) == ([1, 3, 7], [3, 5, 9])
    assert evaluate.bins(counts, 11, least=0).of_user.tolist() == [7, 0, 4, 5, 9, 6, 2, 10, 3, 8, 1]
    sizes = np.bincount(evaluate.bins(np.arange(1, 1004), 10).of_user)
    assert sorted(sizes) == [100] * 7 + [101] * 3
    assert evaluate.bins([4, 4], 3).most.tolist() == [0, 4, 4]  # fewer users than bins
    user = np.array([4, 0, 0, 1, 9])
    of_bins = evaluate.by_group([1, 2, 3, 4, 5], [1, 1, 1, 1, 1], STARS, bins.of_user[user], 3)
    assert [(part.count, part.squared) for part in of_bins] == [(0, 0), (2, 5), (2, 16)]


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


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ranking_is_the_mean_over_orders_of_ties(k):
    rng = np.random.default_rng(k)
    query, scores, gains, expected = [], [], [], []
    for user in range(12):
        size = rng.integers(1, 8)
        mine, worth = rng.integers(0, 4, size), rng.integers(0, 3, size) * (user > 1)
        query += [user] * size
        scores += mine.tolist()
        gains += worth.tolist()
        if worth.any():
            expected.append(brute_force(mine.tolist(), worth.tolist(), k))
    mixed = rng.permutation(len(query))
    result = ranking.rank(np.array(query)[mixed], np.array(scores)[mixed], np.array(gains)[mixed], k)
    assert result.users == len(expected)
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
    assert ranking.rank([], [], []).users == 0


def test_ndcg_equals_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(5)
    scores, gains = rng.integers(0, 6, (20, 30)) / 2, rng.integers(0, 4, (20, 30)).astype(float)
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
    assert whole["ranking_measures"] == "not the thesis'"
    with pytest.raises(ValueError, match="do not add up"):
        _ = parts[0] + ranking.Ranking(10)


def test_unseen_pairs_exclude_training_ratings():
    train = Ratings(np.array([0, 0, 2], np.int32), np.array([1, 3, 0], np.int32), np.ones(3, np.float32))
    test = Ratings(np.array([0, 2, 2], np.int32), np.array([2, 1, 2], np.int32), np.array([5, 3, 4], np.float32))
    user, item, gain = ranking.unseen(np.array([2, 0], np.int32), by_user(train, 3), by_user(test, 3), 4, 4)
    assert list(zip(user.tolist(), item.tolist(), gain.tolist(), strict=True)) == [
        (2, 1, 0), (2, 2, 1), (2, 3, 0), (0, 0, 0), (0, 2, 1),
    ]  # fmt: skip
