"""Neighbours by cosine, against brute force."""

import numpy as np
import pytest

from jaxlm.cli import queries
from jaxlm.cli.main import main
from jaxlm.tasks.neighbours import nearest, unit_vectors


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
