"""Neighbours by cosine and by distance, against brute force."""

import numpy as np
import pytest

from jaxlm.cli import queries
from jaxlm.cli.main import main
from jaxlm.tasks.neighbours import nearest, shared, unit_vectors


def test_nearest_equals_brute_force():
    R = np.random.default_rng(0).normal(size=(20, 5))
    R[3] = 0
    ids, found = nearest(unit_vectors(R), 7, top=4)
    cosines = {
        i: 0.0 if i == 3 else R[i] @ R[7] / np.linalg.norm(R[i]) / np.linalg.norm(R[7]) for i in range(20) if i != 7
    }
    assert ids.tolist() == sorted(cosines, key=cosines.get, reverse=True)[:4]
    np.testing.assert_allclose(found, [cosines[i] for i in ids], rtol=1e-12)
    assert len(nearest(unit_vectors(R), 7, top=100)[0]) == 19


def test_shared_neighbours_equal_brute_force():
    rng = np.random.default_rng(1)
    first = rng.normal(size=(30, 4))
    second = first[:, :2] + 0.3 * rng.normal(size=(30, 2))
    expected = []
    for i in range(30):
        near = [
            set(sorted((j for j in range(30) if j != i), key=lambda j: np.linalg.norm(R[j] - R[i]))[:5])
            for R in (first, second)
        ]
        expected.append(len(near[0] & near[1]) / 5)
    np.testing.assert_allclose(shared(first, second, 5), expected, rtol=1e-12)
    assert 0 < np.mean(expected) < 1


def test_neighbours_stay_where_vectors_turn_and_shift_and_are_due_to_chance_for_others():
    rng = np.random.default_rng(2)
    R, others = rng.normal(size=(400, 8)), rng.normal(size=(400, 8))
    turned = 1000 + 3 * R @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    assert shared(R, turned, 10).tolist() == [1.0] * 400
    assert np.mean(shared(R, others, 10)) == pytest.approx(10 / 399, abs=0.01)


def test_the_table_is_normalised_once_for_many_words(place, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(queries.neighbours, "unit_vectors", lambda table: calls.append(1) or unit_vectors(table))
    assert main(["neighbours", str(place / "lbl"), "he", "she", "tea", "--top", "2"]) == 0
    assert capsys.readouterr().out.count("\n") == 3
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["lbl", "hlbl"])
def test_each_model_with_vectors_has_neighbours(place, name, capsys):
    assert main(["neighbours", str(place / name), "he", "--top", "3"]) == 0
    assert capsys.readouterr().out.startswith("he: ")
