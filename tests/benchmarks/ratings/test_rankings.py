"""The benchmark of rankings at the smallest scale, against its parts."""

from dataclasses import replace

import numpy as np
import pytest
from planted_store import SCALE, SEEDS, Planted

import jaxcf
from benchmarks.core.verdict import Scores, judge, verdicts
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


def test_columns_are_the_measures_at_their_places(tmp_path) -> None:
    store, spec = Planted(tmp_path, lambda spec, part: 0.5), rankings.POPULARITY
    data = store.data
    known, sizes = positives(data.train, rankings.POSITIVE), (data.catalogue.num_users, data.catalogue.num_items)
    scorer = ranking.by_popularity(known, sizes[1])
    for part in ("test", "valid"):
        wanted = positives(getattr(data, part), rankings.POSITIVE)
        ten, fifty = (ranking.recommended(scorer, known, wanted, *sizes, k) for k in (10, 50))
        assert fifty.recall > ten.recall
        found = rankings.measure(lambda store, spec: scorer, store, (spec,), part)
        assert found.pop("coverage@10") == ten.coverage
        means = {column: scores.value for column, scores in found.items()}
        expected = {"ndcg@10": ten.ndcg, "recall@10": ten.recall, "recall@50": fifty.recall}
        assert means == pytest.approx(expected)
        assert all(set(np.flatnonzero(scores.count)) == set(ten.users) for scores in found.values())


@pytest.mark.usefixtures("_own_peer")
@pytest.mark.parametrize(
    ("ndcgs", "answers"),
    [
        ({"WMF": 0.3, "popularity": 0.2, "PMF": 0.1, "another package": 0.301}, ["yes"] * 4),
        ({"WMF": 0.1, "popularity": 0.2, "PMF": 0.3, "another package": 0.103}, ["no"] * 4),
        ({"WMF": 0.3, "popularity": 0.2, "PMF": 0.1, "another package": 0.1}, ["yes"] * 4),
    ],
)
def test_verdicts_follow_the_order_of_rankings(ndcgs, answers) -> None:
    """No worse is what is below by less than the margin, or above by anything."""

    def measured(row):
        scores = Scores(np.full(20, ndcgs.get(row.label[0], 0.0)), np.ones(20), np.positive)
        return replace(row, measure=lambda store, specs, part: {rankings.JUDGED: scores})

    rows = [measured(row) for row in rankings.rows(SCALE, SEEDS)]
    found = verdicts(rankings.claims(None, rows, "test"), [])
    assert [verdict["answer"] for verdict in found] == answers
