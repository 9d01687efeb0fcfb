"""Retrieval of documents, against a loop over queries, labels and ranks."""

import itertools

import numpy as np
import pytest

from jaxlm.tasks.intervals import bootstrap
from jaxlm.tasks.retrieval import RECALLS, retrieve


def by_hand(queries, database, query_labels, labels, recalls):
    """Compute precision at levels of recall, document by document."""
    rows = []
    for vector, wanted in zip(queries, query_labels, strict=True):
        cosines = [vector @ other / np.linalg.norm(vector) / np.linalg.norm(other) for other in database]
        ranked = sorted(range(len(database)), key=lambda i: (-cosines[i], i))
        of_labels = []
        for label in wanted:
            relevant = sum(label in each for each in labels)
            if not relevant:
                continue
            curve, seen = [], 0
            for level in recalls:
                for k in range(1, len(ranked) + 1):
                    seen = sum(label in labels[i] for i in ranked[:k])
                    if seen and seen >= level * relevant - 1e-9:
                        curve.append(seen / k)
                        break
            of_labels.append(curve)
        if of_labels:
            rows.append(np.mean(of_labels, axis=0))
    return np.array(rows)


def drawn(number, seed):
    draws = np.random.default_rng(seed)
    kinds = [[str(k) for k in np.flatnonzero(draws.random(4) < 0.4)] for _ in range(number)]
    vectors = np.array([sum((np.eye(4)[int(k)] for k in each), np.zeros(4)) for each in kinds])
    return vectors + draws.normal(size=(number, 4)), kinds


@pytest.mark.parametrize("held", [1 << 24, 40])  # of cosines at a time: all, and few
def test_precision_is_that_of_a_loop(held, monkeypatch):
    monkeypatch.setattr("jaxlm.tasks.retrieval.NUMBERS", held)
    (queries, wanted), (database, labels) = drawn(15, 0), drawn(30, 1)
    wanted[0], wanted[1] = [], ["in no document"]
    found = retrieve(queries, database, wanted, labels)
    expected = by_hand(queries, database, wanted, labels, RECALLS)
    np.testing.assert_allclose(found.precision, expected)
    assert 2 <= 15 - len(found.precision) < 15
    assert np.all(found.mean[:-1] > found.by_chance[:-1] + 0.02)
    shares = [np.mean([np.mean([k in each for each in labels]) for k in own]) for own in wanted[2:] if own]
    assert found.by_chance[-1] > np.mean(shares)


def test_chance_is_the_mean_over_all_orders():
    labels = [["a"], ["a", "b"], ["a"], ["b"], ["c"]]
    found = retrieve(np.ones((2, 2)), np.ones((5, 2)), [["a", "b"], ["c"]], labels, (0.1, 0.5, 1.0))
    every = [
        retrieve(np.eye(5)[:2], np.eye(5), [["a", "b"], ["c"]], [labels[i] for i in order], (0.1, 0.5, 1.0)).mean
        for order in itertools.permutations(range(5))
    ]
    np.testing.assert_allclose(found.by_chance, np.mean(every, axis=0))


def test_each_level_of_recall_has_the_interval_of_its_own_precision():
    found = retrieve(drawn(15, 0)[0], drawn(30, 1)[0], drawn(15, 0)[1], drawn(30, 1)[1], (0.1, 0.5, 1.0))
    for level, interval in enumerate(found.intervals()):
        own = found.precision[:, level]
        assert interval == bootstrap(lambda units, own=own: own[units].mean(axis=1), len(own))
        assert interval[0] < own.mean() < interval[1]
    assert len(set(found.intervals())) == 3


def test_labels_that_vectors_tell_are_found_first_and_all_documents_have_their_share():
    vectors = np.eye(3)[[0, 0, 1, 1, 1, 2]]
    labels = [["a"], ["a"], ["b"], ["b"], ["b"], ["c"]]
    found = retrieve(vectors, vectors, labels, labels, (0.5, 1.0))
    np.testing.assert_array_equal(found.precision, 1)
    turned = retrieve(vectors, -vectors, [["a"]] * 6, labels, (1.0,))
    assert turned.precision[0, 0] == pytest.approx(2 / 6), "the farthest come last"
    low, high = found.intervals()[0]
    assert low == high == 1


def test_without_a_label_nothing_is_retrieved():
    found = retrieve(np.ones((2, 3)), np.ones((4, 3)), [[], []], [["a"]] * 4)
    assert found.precision.shape == (0, len(RECALLS))
    assert np.all(np.isnan(found.by_chance))
