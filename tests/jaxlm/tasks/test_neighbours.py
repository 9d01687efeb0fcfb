"""Neighbours by cosine and by distance, against brute force."""

import tracemalloc

import numpy as np
import pytest

import jaxlm
from jaxlm.cli.main import main
from jaxlm.tasks import analogies
from jaxlm.tasks.neighbours import near, nearest, shared
from jaxlm.word_vectors import write_text


def test_nearest_equals_brute_force():
    R = np.random.default_rng(0).normal(size=(20, 5))
    R[3] = 0
    cosines = {
        i: R[i] @ R[7] / np.linalg.norm(R[i]) / np.linalg.norm(R[7]) for i in range(20) if i not in (3, 7)
    }  # fmt: skip
    assert min(cosines.values()) < 0, "row 3, which has none, would be before it"
    for top in (4, 18, 100):
        ids, found = nearest(R, 7, top)
        assert ids.tolist() == sorted(cosines, key=cosines.get, reverse=True)[:top]
        np.testing.assert_allclose(found, [cosines[i] for i in ids], rtol=1e-12)
    assert len(nearest(R[[3, 7]], 1, top=2)[0]) == 0


def test_nearest_of_float32_are_those_of_float64():
    """Also where cosines differ by less than float32 tells; of equal ones the first row is the first."""
    rng = np.random.default_rng(3)
    R = (rng.normal(size=300) + 1e-4 * rng.normal(size=(500, 300))).astype(np.float32)
    R *= 10.0 ** rng.integers(-18, 18, (500, 1))
    R[400] = 4 * R[8]
    units = R / np.linalg.norm(R.astype(np.float64), axis=1, keepdims=True)
    for word in (7, 8):
        cosines = units @ units[word]
        expected = [i for i in np.argsort(-cosines.round(15), kind="stable") if i != word][:20]
        ids, found = nearest(R, word, 20)
        assert ids.tolist() == expected
        np.testing.assert_allclose(found, cosines[ids], rtol=1e-14)


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


def test_the_table_is_not_copied():
    R = np.random.default_rng(4).normal(size=(5000, 200)).astype(np.float32)
    tracemalloc.start()
    try:
        nearest(R, 7, 10)
        analogies.answer(R, np.array([[0, 1, 2]]))
        assert tracemalloc.get_traced_memory()[1] < 1.2 * R.nbytes  # of units in float32, by analogies
    finally:
        tracemalloc.stop()


def test_words_are_found_as_they_are_before_they_are_prepared(tmp_path, capsys):
    """Files of word vectors have words with blanks of Unicode, which a text has not."""
    words = ("a", "New\u00a0York", "b")
    write_text(words, np.array([[1.0, 0], [1, 1], [1, 0.9]]), tmp_path / "v.txt")
    assert [each.word for each in jaxlm.load(tmp_path / "v.txt").neighbours(words[1])] == ["b", "a"]
    assert main(["neighbours", str(tmp_path / "v.txt"), words[1], " a "]) == 0
    assert capsys.readouterr().out == f"{words[1]}: b 1.00, a 0.71\n a : b 0.74, {words[1]} 0.71\n"


@pytest.mark.parametrize("shift", [0, 1e8])
def test_distances_do_not_lose_digits_to_a_common_part(shift):
    R = np.random.default_rng(5).integers(-50, 50, size=(40, 6)).astype(float)
    squares = ((R[:, None] - R[None]) ** 2).sum(axis=2)
    found = near(R + shift, 5)
    for i in range(40):
        np.testing.assert_array_equal(np.sort(squares[i][found[i]]), np.sort(np.delete(squares[i], i))[:5])


@pytest.mark.parametrize("name", ["lbl", "hlbl"])
def test_each_model_with_vectors_has_neighbours(place, name, capsys):
    assert main(["neighbours", str(place / name), "he", "--top", "3"]) == 0
    assert capsys.readouterr().out.startswith("he: ")
