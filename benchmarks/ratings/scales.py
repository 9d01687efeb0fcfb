"""How large chapter 5's benchmarks are: the same tables and figures, from seconds to the size of the Netflix Prize."""

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.data import sets as data
from benchmarks.data.rating_sets import RatingSet, drawn
from jaxcf.contract import FROM_DATA
from jaxcf.data.synthetic import NETFLIX, NETFLIX_SHARES, Planted
from jaxcf.models import get
from jaxfit.recipe import Recipe


@dataclass(frozen=True)
class Scale:
    """What shrinks from the thesis' setting: data, models, how finely rated sets grow."""

    name: str
    about: str
    data: str  # the data set unless --data names one
    features: dict[int, int]  # the thesis' numbers of features, with 10, 50, 100 and 500 among them -> ours
    hidden: dict[int, int]  # likewise of hidden units, with 50 and 200
    rated_sets: tuple[int, int] = (9, 5)  # by which the rated set grows: Figures 5.1 and 5.2
    planted: Planted = Planted()  # noqa: RUF009
    shares: tuple[float, float] | None = (
        None  # of planted ratings, for validation and test; None: latest nine
    )
    tuned: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # fields of a kind's tuned recipe, at this size
    epochs: int | None = None  # of every recipe


_FEATURES, _HIDDEN = {n: n for n in (10, 25, 50, 100, 200, 500)}, {n: n for n in (25, 50, 100, 200)}
_RBM = {"batch_size": 50, "rate": {"*": 0.02}, "decay": {"*": 0.0}, "epochs": 20}
SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "tiny", "a few planted ratings, for the tests: seconds", "planted",
            {10: 2, 50: 3, 100: 2, 500: 3}, {50: 3, 200: 5}, rated_sets=(1, 1),  # sizes repeat: fewer models
            planted=Planted(num_users=120, num_items=40, num_ratings=2500), epochs=2,
        ),
        Scale(
            "smoke", "100,000 planted ratings, models of few features: minutes on two cores", "planted",
            {10: 3, 50: 8, 100: 15, 500: 30}, {25: 3, 50: 5, 100: 10, 200: 20}, rated_sets=(3, 2),
            tuned={"rbm": _RBM, "crbm": _RBM},
        ),
        Scale("cpu", "MovieLens 1M, models of the thesis' sizes: hours on two cores", "ml-1m", _FEATURES, _HIDDEN),
        Scale(
            "full", "as many ratings as the Netflix Prize (--data netflix), planted: for a GPU", "planted",
            _FEATURES, _HIDDEN, planted=NETFLIX, shares=NETFLIX_SHARES,
        ),
    )
}  # fmt: skip


def recipe(kind: str, name: str, scale: Scale) -> tuple[Recipe | None, dict[str, Any]]:
    """The recipe of a kind of model, and the configuration that belongs to it, at this scale.

    None: a bias model, which is solved exactly.
    """
    chosen, config = get(kind).recipes[name]
    if chosen is None:
        return None, dict(config)
    changes = dict(scale.tuned.get(kind, {})) if name == "tuned" else {}
    changes |= {} if scale.epochs is None else {"epochs": scale.epochs}
    return replace(chosen, **changes), dict(config)


def full_config(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """All of a kind's configuration but what the data decide: with its defaults, and what makes it this kind."""
    described = get(kind)
    of_data = {f.name: 2 for f in fields(described.config) if f.name in FROM_DATA}
    whole = asdict(described.config(**{**config, **described.fixed, **of_data}))
    return {name: value for name, value in whole.items() if name not in FROM_DATA}


def rating_set(name: str, scale: Scale, data_dir: Path | None = None) -> RatingSet:
    """A data set of ratings, split."""
    if name == "planted":
        return drawn(scale.planted, scale.shares)
    return data.load(name, data_dir)
