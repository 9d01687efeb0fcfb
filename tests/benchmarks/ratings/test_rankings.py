"""The benchmark of rankings at the smallest scale, against its parts."""

import numpy as np
import pytest

import jaxcf
from benchmarks.core.verdict import judge
from benchmarks.ratings import rankings
from benchmarks.ratings.scales import SCALES
from benchmarks.speed.peers.rankers import PEERS, Peer
from jaxcf import ranking
from jaxcf.data.positives import positives


def _loaded(problem):
    """Rank by popularity, as a package might, given what it is given."""
    return ranking.by_popularity(problem.positives, problem.num_items)


@pytest.fixture
def _own_peer(monkeypatch):
    for name in [*PEERS]:
        monkeypatch.delitem(PEERS, name)
    monkeypatch.setitem(PEERS, "another package", Peer("numpy", _loaded))
    monkeypatch.setitem(PEERS, "not installed", Peer("no_such_package", _loaded))


@pytest.mark.extended
@pytest.mark.usefixtures("_own_peer")
def test_rankings_are_of_the_models_and_of_installed_packages(place, store) -> None:
    result, _, _ = place.table("ranking")
    rows = {row["label"][0]: row for row in result["rows"]}
    assert set(rows) == {"popularity", "user and item bias", "PMF", "WMF", "another package"}
    for column, cell in rows["popularity"]["cells"].items():
        assert cell["values"] == rows["another package"]["cells"][column]["values"]
    split = store.ratings(rankings.rows(SCALES["tiny"], 1)[0].specs()[0]).data
    (folder,) = (model for model in result["models"] if "wmf" in model)
    model = jaxcf.load(place.work / "models" / folder)
    known, wanted = positives(split.train, 4.0), positives(split.test, 4.0)
    np.testing.assert_array_equal(model.known.ratings.item, known.item)
    sizes = split.catalogue.num_users, split.catalogue.num_items
    found = ranking.recommended(model.scorer, known, wanted, *sizes, 10)
    for column, value in (("ndcg@10", found.ndcg), ("recall@10", found.recall), ("coverage@10", found.coverage)):
        assert rows["WMF"]["cells"][column]["mean"] == pytest.approx(value)
    assert {verdict["answer"] for verdict in result["verdicts"]} == {"unresolved"}, "of one seed"
    (no_worse,) = [claim for claim in rankings.claims(store, rankings.rows(SCALES["tiny"], 1), "test")
                   if "another package" in claim.text]  # fmt: skip
    assert judge(no_worse)["comparisons"][0]["claimed"] == [-rankings.MARGIN, None]
