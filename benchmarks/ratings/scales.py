"""The sizes of the benchmarks of recommenders, from seconds to the size of the Netflix Prize, and their ratings."""

from dataclasses import dataclass
from pathlib import Path

import jax

from benchmarks.core import scale as core
from benchmarks.data import sets as data
from benchmarks.data.rating_sets import RatingSet, drawn, of
from jaxcf.data.synthetic import NETFLIX, NETFLIX_SHARES, Planted, planted
from jaxfit.errors import UserError

MOVIELENS_1M = Planted(num_users=6040, num_items=3706, num_ratings=1_000_209)


@dataclass(frozen=True)
class RecommenderScale(core.Scale):
    """A scale of recommenders: it also shrinks repetitions, and the number of steps in which rated sets grow."""

    # the thesis' numbers of features, with 10, 50, 100 and 500 among them -> ours
    features: dict[int, int]
    hidden: dict[int, int]  # likewise of hidden units, with 50 and 200
    rated_sets: tuple[int, int] = (9, 5)  # steps in which the rated set grows: Figures 5.1 and 5.2
    seeds: int = 3
    # the largest size in tables of all sizes with the recipe "thesis", whose 250 passes take long; None: all
    largest: int | None = None
    others: bool = True  # whether tables have models that are not of the thesis
    groups: int = 5  # Figure 5.5: groups of users, each left out of one training
    splits: int = 5  # random-splits
    planted: Planted = Planted()  # noqa: RUF009
    # shares of planted ratings for validation and test; None: the latest nine of each user
    shares: tuple[float, float] | None = None


_FEATURES, _HIDDEN = {n: n for n in (10, 25, 50, 100, 200, 500)}, {n: n for n in (25, 50, 100, 200)}
_RBM = {"batch_size": 50, "rate": {"*": 0.02}, "decay": {"*": 0.0}, "epochs": 20}
SCALES = {
    scale.name: scale
    for scale in (
        RecommenderScale(
            "tiny", "a few planted ratings, for the tests: seconds", "planted",
            {10: 2, 50: 3, 100: 2, 500: 3}, {50: 3, 200: 5},  # sizes repeat: fewer models
            rated_sets=(1, 1), seeds=1, groups=2, splits=2,
            planted=Planted(num_users=120, num_items=40, num_ratings=2500), epochs=2, window=0.01,
        ),
        RecommenderScale(
            "smoke", "100,000 planted ratings, models of few features: minutes on two cores", "planted",
            {10: 3, 50: 8, 100: 15, 500: 30}, {25: 3, 50: 5, 100: 10, 200: 20}, rated_sets=(3, 2),
            tuned={"rbm": _RBM, "crbm": _RBM},
        ),
        RecommenderScale(
            "cpu", "MovieLens 1M, models of the thesis' sizes: hours on two cores", "ml-1m", _FEATURES, _HIDDEN,
            largest=100,
        ),
        RecommenderScale(
            "full", "as many ratings as the Netflix Prize (--data netflix), planted: for a GPU", "planted",
            _FEATURES, _HIDDEN, planted=NETFLIX, shares=NETFLIX_SHARES,
        ),
    )
}  # fmt: skip


def rating_set(name: str, scale: RecommenderScale, data_dir: Path | None = None) -> RatingSet:
    """Load a data set of ratings, split."""
    if name == "planted":
        return drawn(scale.planted, scale.shares)
    return data.load(name, data_dir)


def speed_ratings() -> RatingSet:
    """Load the ratings that speed is measured on: MovieLens 1M if it is there, otherwise as many planted ones."""
    try:
        return data.load("ml-1m", None)
    except UserError as error:
        found = planted(jax.random.key(0), MOVIELENS_1M, 0.045, 0.1)
        why = f"as there is no MovieLens 1M ({error.what}; set {data.VARIABLE})"
        return of(found, "planted", f"planted, {why}")
