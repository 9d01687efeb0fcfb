"""Warnings: columns that look swapped, equal ratings, files that share no users or items."""

import warnings

import numpy as np
import pytest

from jaxcf.data import checks
from jaxcf.data.reading import Reading, read, read_dataset
from rating_files import write_file


def unequal(num_users=300, num_items=600, least=20):
    """Draw pairs of which every user has at least some, and many items have few, as published data have."""
    draws = np.random.default_rng(0)
    weight = 1 / np.arange(1, num_items + 1) ** 2.0
    items = [
        draws.choice(num_items, least + draws.integers(30), replace=False, p=weight / weight.sum())
        for _ in range(num_users)
    ]
    return np.repeat(np.arange(num_users), [len(part) for part in items]), np.concatenate(items)


def body(user, item):
    return "".join(f"{u},{i},{1 + (u + i) % 5}\n" for u, i in zip(user.tolist(), item.tolist(), strict=True))


def test_columns_that_look_swapped_are_warned_of(tmp_path):
    user, item = unequal()
    read(write_file(tmp_path, "right.csv", body(user, item)))
    swapped = write_file(tmp_path, "swapped.csv", body(item, user))
    with pytest.warns(UserWarning, match=r"swapped.csv: the columns of users and items look swapped.*--columns 2,1,3"):
        read(swapped)
    read(swapped, Reading(columns="2,1,3"))  # said by the user
    read(write_file(tmp_path, "named.csv", "user,item,stars\n" + body(item, user)))  # or by a header


@pytest.mark.parametrize(
    ("users", "items"),
    [
        (np.repeat(np.arange(5000), 2), np.tile(np.arange(300), 34)[:10_000]),  # few ratings of each user
        (np.repeat(np.arange(3000), np.where(np.arange(3000) % 4, 40, 1)), None),  # a small catalogue
        (np.zeros(0, int), np.zeros(0, int)),
    ],
)
def test_other_data_do_not_look_swapped(users, items):
    if items is None:
        items = np.random.default_rng(0).integers(0, 80, len(users))
    assert not checks.look_swapped(users, items)


def test_movielens_looks_swapped_only_when_it_is(data_dir):
    names = ["ml-100k/u.data", *(f"ml-100k/{fold}.base" for fold in ("u1", "u2", "u3", "u4", "u5", "ua", "ub"))]
    for name in (*names, "ml-1m/ratings-notime.dat.gz", "ml-1m/moviedata.mat:train_vec"):
        ratings = read(data_dir / name).ratings  # warnings are errors
        assert not checks.look_swapped(ratings.user, ratings.item)
        assert checks.look_swapped(ratings.item, ratings.user)
    for name in ("ml-100k/u1.test", "ml-100k/ua.test", "ml-1m/moviedata.mat:probe_vec"):
        read(data_dir / name)


def test_equal_ratings_are_warned_of(tmp_path):
    with pytest.warns(UserWarning, match=r"all 3 training ratings are 1: nothing can be learned"):
        read_dataset(write_file(tmp_path, "r.csv", "1,2,1\n1,3,1\n2,2,1\n"))


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("valid", "x1,2,3", "no user of the validation ratings occurs in training (user x1 there, 1 in training)"),
        ("test", "1,y2,3", "no item of the test ratings occurs in training (item y2 there, 2 in training)"),
        ("test", "x1,y2,3", "no user and no item of the test ratings occurs in training (user x1 there, 1 in train"),
        ("rated", "x1,y2", "no user and no item of --rated occurs in training"),
        ("valid", "1,2,3", None),
    ],
)  # fmt: skip
def test_files_without_common_ids_are_warned_of(tmp_path, name, line, said):
    train = write_file(tmp_path, "train.csv", "1,2,3\n1,3,4\n4,2,1\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_dataset(train, **{name: write_file(tmp_path, name, line + "\n")})
    assert [said in str(warning.message) for warning in caught] == ([True] if said else [])


@pytest.mark.parametrize(("scale", "other"), [((1, 5), (0, 100)), ((0, 100), (1, 5))])
def test_other_scales_than_that_of_training_are_warned_of(tmp_path, scale, other):
    draws = np.random.default_rng(0)

    def file(name, low, high):
        rows = [f"{u},{i},{draws.integers(low, high + 1)}\n" for u in range(10) for i in range(10)]
        return write_file(tmp_path, name, "".join(rows))

    train, same, held_out = file("train", *scale), file("same", *scale), file("other", *other)
    read_dataset(train, valid=same, test=same)  # warnings are errors
    name, title = ("valid", "validation") if scale == (1, 5) else ("test", "test")  # others are off the scale
    with pytest.warns(UserWarning, match=f"the {title} ratings look like ratings on another scale: most are outside"):
        read_dataset(train, **{name: held_out})
