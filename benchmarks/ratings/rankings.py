"""How well models rank what a user likes: models of implicit data, of ratings, and those of other packages."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import metadata

import numpy as np

import jaxcf
from benchmarks.core.comparisons import Comparisons
from benchmarks.core.table import Column, Measured, Row, Table
from benchmarks.core.verdict import ABOVE, Claim, Comparison, Scores
from benchmarks.ratings.scales import RecommenderScale
from benchmarks.ratings.store import USUAL, RatingStore, Spec
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.rankers import PEERS, Problem
from jaxcf import ranking
from jaxcf.contract import Scorer
from jaxcf.data.positives import positives

POSITIVE = 4.0  # stars
JUDGED, MARGIN = "ndcg@10", 2e-3  # what the verdicts are of, and how much worse still counts as not worse
POPULARITY = Spec("popularity", changes=(("positive", POSITIVE),))

Make = Callable[[RatingStore, Spec], Scorer]


def rows(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    """Return the rows: models of implicit data and of ratings, and those of other packages that are installed."""
    size, splits = scale.features[USUAL], range(1, 1 + (seeds or scale.seeds))
    models: dict[str, tuple[Make, Spec, int, str]] = {
        "popularity": (_trained, POPULARITY, 0, ""),
        "user and item bias": (_trained, Spec("bias"), 0, ""),
        "PMF": (_trained, Spec("pmf", size), size, ""),
        "WMF": (_trained, replace(POPULARITY, model="wmf", size=size), size, ""),
    }
    # the spec of a peer has the split and the seed
    models |= {
        name: (partial(_peer, name, size), POPULARITY, size, _version(peer.package))
        for name, peer in PEERS.items() if missing(peer.package) is None
    }  # fmt: skip
    return [
        Row((name, str(features or ""), version), tuple((replace(spec, split=k, seed=k),) for k in splits), {},
            partial(measure, make))
        for name, (make, spec, features, version) in models.items()
    ]  # fmt: skip


def _version(module: str) -> str:
    """Return the version of the package of a module; "" if it is unknown."""
    try:
        return metadata.version(module.partition(".")[0])
    except metadata.PackageNotFoundError:
        return ""


def _trained(store: RatingStore, spec: Spec) -> Scorer:
    return jaxcf.load(store.get(spec).directory).scorer


def _peer(name: str, size: int, store: RatingStore, spec: Spec) -> Scorer:
    data = store.ratings(spec).data
    sizes = data.catalogue.num_users, data.catalogue.num_items
    return PEERS[name].train(Problem(positives(data.train, POSITIVE), *sizes, size, spec.seed))


def measure(make: Make, store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Rank, for each user with positives in a part of the data, all items but those of the user's training positives.

    Args:
        make: makes the scorer of a model.
    """
    (spec,) = specs
    first, more = _ranked(make, store, spec, part)
    users = store.data.catalogue.num_users
    count = np.bincount(first.users, minlength=users).astype(np.float64)

    def scores(numbers: np.ndarray) -> Scores:
        return Scores(np.bincount(first.users, numbers, users), count, np.positive)

    return {
        "ndcg@10": scores(first.ndcgs), "recall@10": scores(first.recalls), "recall@50": scores(more.recalls),
        "coverage@10": first.coverage,
    }  # fmt: skip


@cache
def _ranked(make: Make, store: RatingStore, spec: Spec, part: str) -> tuple[ranking.Ranking, ranking.Ranking]:
    """Return the rankings at 10 and at 50 places."""
    data = store.ratings(spec).data
    known, wanted = positives(data.train, POSITIVE), positives(getattr(data, part), POSITIVE)
    scorer, sizes = make(store, spec), (data.catalogue.num_users, data.catalogue.num_items)
    first, more = (ranking.recommended(scorer, known, wanted, *sizes, k) for k in (10, 50))
    return first, more


def claims(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return our expectations of the rankings."""
    found = Comparisons(store, [replace(row, label=row.label[:1]) for row in rows], part)

    def compare(one: str, other: str, claimed: tuple[float, float] = ABOVE) -> list[Comparison]:
        figures = [(name, JUDGED) for name in (one, other)]
        return [found.compare("", figures, claimed)] if {one, other} <= found.rows.keys() else []

    target = partial(Claim, "our target")
    return [
        target("WMF ranks better than popularity", compare("WMF", "popularity")),
        target("WMF ranks better than PMF", compare("WMF", "PMF")),
        target("popularity ranks better than PMF", compare("popularity", "PMF")),
        *(
            target(f"WMF ranks no worse than {name} (NDCG@10 at most {MARGIN:g} below)",
                   compare("WMF", name, (-MARGIN, np.inf)))
            for name in PEERS
        ),
    ]  # fmt: skip


TABLE = Table(
    RatingStore, "ranking", "", "How well models rank what a user likes", ("model", "features", "version"),
    (
        Column("ndcg@10", "NDCG@10", 4), Column("recall@10", "recall@10", 4), Column("recall@50", "recall@50", 4),
        Column("coverage@10", "coverage@10", 3),
    ),
    rows,
    f"Not of the thesis. Positives are ratings of at least {POSITIVE:g} stars. The ratings are split anew for every "
    "seed, 85.5/4.5/10 at random (of MovieLens 1M as it is here there are no times, by which to hold the latest out). "
    "Models of implicit data are trained on the positives of the training ratings, bias models and PMF on all training "
    "ratings. Ranked are, for each user with positives in the test, all items but those of the user's training "
    "positives. Coverage is the share of the items that are among the first ten of any user. Other packages are shown "
    "where they are installed; of `implicit`, whose objective is WMF's but for the growth of the prior with the "
    "positives, one row has settings that were chosen as WMF's were, and the other its defaults. They were chosen by "
    "the validation ratings of a further split, a tenth of which is in the test of each of these.",
    claims,
)  # fmt: skip
