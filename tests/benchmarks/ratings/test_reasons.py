"""Experiments on claims that do not hold: bins of movies, and verdicts of planted predictions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from planted_store import SCALE, SEEDS, Planted

from benchmarks.core.verdict import verdicts
from benchmarks.ratings import reasons
from benchmarks.ratings.measures import BINS
from benchmarks.ratings.store import Spec


def answers(store, name):
    """Return the answer of each claim of an experiment."""
    rows = reasons.TABLES[name].rows(store.scale, SEEDS)
    found = verdicts(*(reasons.TABLES[name].claims(store, rows, part) for part in ("test", "valid")))
    return [verdict["answer"] for verdict in found]


def test_bins_of_movies_hold_equally_many_ratings_of_the_test(tmp_path):
    store = Planted(tmp_path, lambda spec, part: 0.5)
    counts = np.bincount(store.data.train.item, minlength=store.data.catalogue.num_items)
    bins = reasons.movie_bins(store, "test")
    assert set(bins.of) == set(range(BINS))
    judged = np.bincount(bins.of[store.data.test.item], minlength=BINS)
    largest = np.bincount(store.data.test.item).max()
    assert np.abs(judged - len(store.data.test.item) / BINS).max() <= largest
    for number, (fewest, most) in enumerate(zip(bins.fewest, bins.most, strict=True)):
        inside = counts[bins.of == number]
        assert (fewest, most) == (inside.min(), inside.max())
    assert np.all(bins.most[:-1] <= bins.fewest[1:])


@pytest.mark.parametrize("worse", ["rare", "frequent"])
def test_verdicts_follow_the_bins_of_movies(tmp_path, worse):
    class OfSome(Planted):
        """The RBM errs by more on movies of few ratings, or of many."""

        def _planted(self, spec, part):
            ratings = getattr(self.data, part)
            bins = reasons.movie_bins(self, part).of[ratings.item]
            there = (bins < 3) if worse == "rare" else (bins > 6)
            more = np.where(there & (spec.model == "rbm"), 2.0, 1.0)
            return ratings.stars + more * (super()._planted(spec, part) - ratings.stars)

    store = OfSome(tmp_path, lambda spec, part: 0.3)
    assert answers(store, "why-rbm-movies") == (["yes", "yes"] if worse == "rare" else ["no", "no"])


@pytest.mark.parametrize(("growing", "answer"), [(-0.05, "yes"), (0.05, "no")])
def test_verdicts_follow_the_number_of_ratings(tmp_path, growing, answer):
    def error(spec, part):
        millions = None if spec.trained_on is None else spec.trained_on.millions
        gap = 0.2 + growing * reasons.SHARES.index(millions) if spec.model == "rbm" else 0.0
        return 0.4 + gap

    assert answers(Planted(tmp_path, error), "why-rbm-ratings") == [answer]


def test_validation_chooses_the_decay_of_each_size(tmp_path):
    """More features are worse with one decay, and better with the one that suits them."""
    sizes = sorted({spec.size for row in reasons.TABLES["why-pmf-features"].rows(SCALE, SEEDS) for spec in row.specs()})
    best = dict(zip(sizes, reasons.DECAYS, strict=False))

    def error(spec, part):
        decay = dict(spec.changes)["decay.*"]
        return 0.4 - 0.1 * sizes.index(spec.size) + 15 * abs(decay - best[spec.size])

    store = Planted(tmp_path, error)
    assert answers(store, "why-pmf-features") == ["no", "yes"]


@pytest.mark.parametrize("as_in_the_thesis", [True, False])
def test_verdicts_of_online_svd_follow_its_models(tmp_path, as_in_the_thesis):
    def error(spec, part):
        if spec.model == "svd":
            return 0.6 if spec.changes and as_in_the_thesis else 0.45
        if spec.model == "svd-bias":
            from_zero, from_mean = (0.62, 0.44) if as_in_the_thesis else (0.40, 0.46)
            return from_zero if spec.changes else from_mean
        if spec.changes:  # PMF without priors
            return 0.46 + 0.0004 * spec.size * (1 if as_in_the_thesis else -1)
        return 0.42

    store = Planted(tmp_path, error)
    store.scale = replace(store.scale, features={size: size for size in (10, 50, 100, 500)})
    rises = grows = own = "yes" if as_in_the_thesis else "no"
    helped = ["no", "yes"] if as_in_the_thesis else ["yes", "no"]  # from 0, from the mean
    assert answers(store, "why-svd") == [rises, grows, own, *helped]


def test_the_rank_is_of_singular_values_above_a_hundredth_of_the_largest(tmp_path, monkeypatch):
    random, values = np.random.default_rng(0), [3.0, 1.0, 0.2, 0.04, 0.02]
    left, right = (np.linalg.qr(random.normal(size=(number, len(values))))[0] for number in (120, 40))
    mixed = random.normal(size=(len(values), len(values)))  # of features, which leaves UVᵀ as it is
    params = left * values @ mixed, right @ np.linalg.inv(mixed).T
    monkeypatch.setattr(reasons.jaxcf, "load", lambda directory: SimpleNamespace(params=params))

    class Trained(Planted):
        def get(self, spec):
            return SimpleNamespace(**vars(super().get(spec)), directory=None)

    store = Trained(tmp_path, lambda spec, part: 0.5)
    assert reasons._with_rank(store, (Spec("pmf", len(values)),), "test")["rank"] == 4


@pytest.mark.extended
def test_every_experiment_is_recorded_and_drawn(place):
    results = place.tables(*reasons.TABLES)[0]
    assert set(results) == set(reasons.TABLES)
    for name, result in results.items():
        assert result["complete"]
        assert (place.out / f"{name}.planted.tiny.png").stat().st_size < 300_000
        assert all(verdict["section"] == reasons.OURS for verdict in result["verdicts"])
    for row in results["why-pmf-features"]["rows"]:
        assert 1 <= row["cells"]["rank"]["mean"] <= int(row["label"][0])
    *bins, every = results["why-rbm-movies"]["rows"]
    assert sum(row["cells"].get("ratings", {"mean": 0})["mean"] for row in bins) == every["cells"]["ratings"]["mean"]
