"""`jaxcf split`: shares and folds are those that are given."""

import numpy as np
import pytest


@pytest.fixture
def split(tmp_path, call):
    """Split 150 ratings by 30 users; the rows of each part."""
    draws = np.random.default_rng(0)
    rows = [f"u{user},m{item},{draws.integers(1, 6)}\n" for user in range(30) for item in range(5)]
    (tmp_path / "all.csv").write_text("".join(["user,item,stars\n", *rows]))

    def run(scheme, *options, out="parts"):
        call("split", tmp_path / "all.csv", "--scheme", scheme, *options, "--out", tmp_path / out)
        return {path.stem: path.read_text().splitlines()[1:] for path in (tmp_path / out).iterdir()}

    return run


def sizes(parts):
    return {name: len(rows) for name, rows in parts.items()}


def test_shares_of_ratings_are_those_that_are_given(split):
    assert sizes(split("random", "--valid", 0.2, "--test", 0.3)) == {"train": 75, "valid": 30, "test": 45}


def test_there_are_as_many_folds_as_are_given(split):
    tests = {f"test{fold}": 50 for fold in (1, 2, 3)}
    assert sizes(split("kfold", "--folds", 3)) == {**tests, **{f"train{fold}": 100 for fold in (1, 2, 3)}}


def test_as_many_users_are_left_out_as_are_given_with_half_of_their_ratings_known(split):
    parts = split("users", "--users", 0.3)
    assert sizes(parts) == {"train": 21 * 5, "known": 9 * 3, "queried": 9 * 2}
    train, known, queried = ({row.split(",")[0] for row in parts[name]} for name in ("train", "known", "queried"))
    assert known == queried
    assert (len(train), len(known), len(train | known)) == (21, 9, 30)


@pytest.mark.parametrize("scheme", ["random", "kfold", "users"])
def test_another_seed_gives_another_split(split, scheme):
    one, again, other = (split(scheme, "--seed", seed, out=out) for seed, out in ((3, "a"), (3, "b"), (4, "c")))
    assert one == again
    assert all(one[name] != other[name] for name in one)
