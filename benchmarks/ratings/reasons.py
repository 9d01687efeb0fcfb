"""Experiments on why claims of chapter 5 do not hold here: because of the data, the recipe or the model."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import jaxcf
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import ABOVE, BELOW, NOT_CLAIMED, Claim, Comparison, Scores
from benchmarks.ratings import figures
from benchmarks.ratings.claims import SIMILAR, RatingModels, grown
from benchmarks.ratings.measures import BINS, errors, less
from benchmarks.ratings.scales import RecommenderScale
from benchmarks.ratings.store import RatingStore, Share, Spec
from jaxcf import models as registry
from jaxcf.metrics import Bins

KINDS, GAP = ("RBM", "PMF"), less("RBM", "PMF")
SHARES = (10, 25, 50, None)  # millions of the thesis' 99 million ratings; None: all
DECAYS = (registry.get("pmf").recipes["tuned"][0].decay["*"], 0.055, 0.07)  # of PMF's features
WITHOUT_PRIORS = tuple((f"decay.{path}", 0.0) for path in ("*", "b", "c"))
# label of a row -> the model, and the changes to it
SVDS: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "Online SVD": ("svd", ()),
    "Online SVD, from 0": ("svd", (("subtract_mean", False),)),
    "Online SVD w. biases": ("svd-bias", ()),
    "Online SVD w. biases, from 0": ("svd-bias", (("subtract_mean", False),)),
    "PMF without priors": ("pmf", WITHOUT_PRIORS),
    "PMF": ("pmf", ()),
}


def _pair(scale: RecommenderScale, units: int) -> tuple[Spec, Spec]:
    """Return the RBM with the thesis' number of hidden units, and the PMF with 50 features."""
    return Spec("rbm", scale.hidden.get(units, max(scale.hidden.values()))), Spec("pmf", scale.features[50])


def movie_bins(store: RatingStore, part: str) -> Bins:
    """Sort movies by their number of training ratings into bins that have about equally many ratings of a part each."""
    data = store.data
    counts, judged = (
        np.bincount(ratings.item, minlength=data.catalogue.num_items) for ratings in (data.train, getattr(data, part))
    )
    order = np.argsort(counts, kind="stable")
    middle = np.cumsum(judged[order]) - judged[order] / 2
    of_movie = np.empty(len(counts), np.int32)
    of_movie[order] = np.minimum(middle * BINS // max(1, judged.sum()), BINS - 1)
    inside = [counts[of_movie == number] for number in range(BINS)]
    ends = np.array([(piece.min(), piece.max()) if len(piece) else (0, 0) for piece in inside])
    return Bins(of_movie, *ends.T)


def _of_movies(number: int, store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure both models on the movies of a bin.

    Args:
        number: number of the bin; BINS for all movies.
    """
    part = store.parts[-1]
    movies = movie_bins(store, part)
    first, last = (number, number) if number < BINS else (0, -1)
    measured: dict[str, Any] = {"fewest": float(movies.fewest[first]), "most": float(movies.most[last])}
    both = _in_bin(store, specs, part, movies, number)
    if both[0].count.any():
        measured |= {"ratings": float(both[0].count.sum()), **dict(zip(KINDS, both, strict=True)), GAP: both}
    return measured


def _in_bin(store: RatingStore, specs: Sequence[Spec], part: str, movies: Bins, number: int) -> tuple[Scores, ...]:
    of_bin = movies.of == number if number < BINS else np.ones(len(movies.of), bool)
    return tuple(store.errors((spec,), part, movies=of_bin) for spec in specs)


def _both(store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure both models on all movies.

    Returns:
        The errors of both, and their gap; `ratings`, thousands that they are trained on.
    """
    one, other = (store.errors((spec,), store.parts[-1]) for spec in specs)
    trained = len(store.training_data(specs[0])[0].train.user) / 1e3
    return {"ratings": trained, "RBM": one, "PMF": other, GAP: (one, other)}


def _with_rank(store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure RMSE, and how many singular values of UVᵀ are more than 1 % of the largest."""
    U, V = (np.linalg.qr(np.asarray(x, np.float64))[1] for x in jaxcf.load(store.get(specs[0]).directory).params[:2])
    values = np.linalg.svd(U @ V.T, compute_uv=False)
    return {**errors(store, specs, part), "rank": float(np.sum(values > values[0] / 100))}


def _by_movies(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    draws = seeded(seeds or scale.seeds, *_pair(scale, 200))
    bins = [Row((str(i + 1),), draws, {}, partial(_of_movies, i)) for i in range(BINS)]
    return [*bins, Row(("all movies",), draws, {}, partial(_of_movies, BINS))]


def _by_ratings(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    rows = []
    for millions in SHARES:
        share = None if millions is None else Share(millions)
        draws = seeded(seeds or scale.seeds, *(replace(spec, trained_on=share) for spec in _pair(scale, 100)))
        rows.append(Row(("all" if millions is None else f"{millions / 99:.0%}",), draws, {}, _both))
    return rows


def _by_decay(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    rows = []
    for theirs in (100, 200, 500):
        for decay in DECAYS if theirs in scale.features else ():
            one = Spec("pmf", scale.features[theirs], changes=(("decay.*", decay),))
            rows.append(Row((str(one.size), f"{decay:g}"), seeded(seeds or scale.seeds, one), {}, _with_rank))
    return rows


def _svds(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    sizes = dict.fromkeys(scale.features[theirs] for theirs in (10, 50, 100, 500))
    return [
        Row((kind, str(size)), seeded(seeds or scale.seeds, Spec(model, size, changes=changes)), {}, errors)
        for kind, (model, changes) in SVDS.items() for size in sizes
    ]  # fmt: skip


def _movies_claims(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    bins = movie_bins(store, part)

    def compare(label: str, numbers: Sequence[int], claimed: tuple[float, float], quantity: Any) -> Comparison:
        draws = [[s for n in numbers for s in _in_bin(store, specs, part, bins, n)] for specs in rows[0].draws]
        return Comparison(label, draws, claimed, quantity)

    last = BINS - 1
    return [
        Claim(OURS, "on the most rated movies, the RBM is nearer to PMF than on the least rated",
              [compare("bin 10 and bin 1", (last, 0), BELOW, grown)]),
        Claim(OURS, f"on the most rated movies, the RBM and PMF are similar (within {SIMILAR:g})",
              [compare("bin 10", (last,), (-SIMILAR, SIMILAR), _difference)]),
    ]  # fmt: skip


def _ratings_claims(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    models = RatingModels(store, rows, part)
    nearer = []
    for before, after in pairwise(rows):
        draws = [
            [models.errors(spec) for spec in (*of_after, *of_before)]
            for of_after, of_before in zip(after.draws, before.draws, strict=True)
        ]
        nearer.append(Comparison(f"{after.label[0]} and {before.label[0]}", draws, BELOW, grown))
    return [Claim(OURS, "with more ratings, the RBM comes nearer to PMF", nearer)]


def _decay_claims(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    models = RatingModels(store, rows, part)
    by_size: dict[str, list[Row]] = {}
    for row in rows:
        by_size.setdefault(row.label[0], []).append(row)
    tried = [[[specs[0] for specs in row.draws] for row in same] for same in by_size.values()]  # [size][decay][seed]
    equal = [of_decays[0] for of_decays in tried]
    chosen = [[store.chosen(of_seed) for of_seed in zip(*of_decays, strict=True)] for of_decays in tried]

    def better(number: int, models_of: Sequence[Sequence[Spec]]) -> Comparison:
        larger, smaller = models_of[number + 1], models_of[number]
        draws = [[models.errors(a), models.errors(b)] for a, b in zip(larger, smaller, strict=True)]
        return Comparison(f"{larger[0].size} and {smaller[0].size}", draws)

    pairs = range(len(tried) - 1)
    return [
        Claim(OURS, "with one decay for all sizes, PMF's RMSE falls with every growth of its features",
              [better(n, equal) for n in pairs]),
        Claim(OURS, "with the decay that validation chooses for each size, it does",
              [better(n, chosen) for n in pairs]),
    ]  # fmt: skip


def _svd_claims(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    models = RatingModels(store, rows, part)
    sizes = models.sizes
    plain, from_zero, biased, biased_from_zero, without, pmf = SVDS
    fewest, most = min(sizes[pmf]), max(sizes[pmf])

    def gap(worse: str, better: str) -> Comparison:
        pairs = [sizes[model][n] for n in (most, fewest) for model in (worse, better)]
        return models.compare(f"{most} and {fewest}", pairs, ABOVE, grown)

    rises = [
        models.compare(f"{b} and {a}", (sizes[without][b], sizes[without][a]), ABOVE)
        for a, b in ((50, 100),) if {a, b} <= set(sizes[without])
    ]  # fmt: skip
    return [
        Claim(OURS, "without priors, and by PMF's recipe, RMSE rises from 50 to 100 features", rises),
        Claim(OURS, "PMF improves on itself without priors more with most features", [gap(without, pmf)]),
        Claim(OURS, "a recipe of its own makes SVD with biases better than PMF's recipe without priors at every size",
              models.better(biased, without)),
        Claim(OURS, f"biases improve SVD considerably (by more than {SIMILAR:g}) where its predictions start from 0",
              models.better(biased_from_zero, from_zero, (-np.inf, -SIMILAR))),
        Claim(OURS, f"biases improve SVD considerably (by more than {SIMILAR:g}) where they start from the mean rating",
              models.better(biased, plain, (-np.inf, -SIMILAR))),
    ]  # fmt: skip


def _difference(one: Any, other: Any) -> Any:
    return one - other


OURS = f"5.4, {NOT_CLAIMED}"
_GAPS = (*(Column(kind, kind, 4) for kind in KINDS), Column(GAP, GAP, 4))
_table = partial(Table, RatingStore)
TABLES = {
    table.name: table
    for table in (
        _table(
            "why-rbm-movies", "5.4.6", "RBM and PMF by the movie's number of ratings", ("bin",),
            (Column("fewest", "fewest ratings", 0), Column("most", "most ratings", 0),
             Column("ratings", "ratings predicted", 0), *_GAPS),
            _by_movies,
            "An experiment on why the RBM is behind PMF here, and in the thesis close to it. An RBM has as many "
            "weights for a movie as hidden units times ratings, PMF as many as features. A movie has 231 training "
            "ratings on average in MovieLens 1M, 5,600 in the Netflix Prize. The RBM has 200 hidden units, PMF 50 "
            "features. Bins are of movies in the order of their training ratings, and have about as many ratings of "
            "the test each.",
            _movies_claims, figures.movies,
        ),
        _table(
            "why-rbm-ratings", "5.4.6", "RBM and PMF by the number of ratings trained on", ("trained on",),
            (Column("ratings", "training ratings (thousands)", 1), *_GAPS), _by_ratings,
            "An experiment on the same question: parts of the training ratings, drawn at random, smaller ones within "
            "larger ones. The RBM has 100 hidden units, PMF 50 features; their recipes are those for all ratings.",
            _ratings_claims, figures.shares,
        ),
        _table(
            "why-pmf-features", "5.4.5", "PMF of many features by the decay of their vectors", ("features", "decay"),
            (Column("valid", "validation RMSE", 4), Column("test", "test RMSE", 4),
             Column("rank", "singular values above 1 %", 1)),
            _by_decay,
            "An experiment on why PMF stops improving with more features. Singular values are those of UVᵀ, counted "
            "where they exceed a hundredth of the largest.",
            _decay_claims, figures.decays,
        ),
        _table(
            "why-svd", "5.4.5", "Online SVD by its own recipe and by PMF's", ("model", "features"),
            (Column("valid", "validation RMSE", 4), Column("test", "test RMSE", 4)), _svds,
            "An experiment on why online SVD improves with its features up to 500, and is not far behind PMF. PMF "
            "without priors is online SVD with biases, by the recipe of PMF: initial features that are a hundred times "
            "larger, a rate that is three times as high (of biases, ten times) and falls to zero in 25 epochs. The "
            "recipe of online SVD takes the epoch that is best on validation.",
            _svd_claims, figures.features_by_model,
        ),
    )
}  # fmt: skip
