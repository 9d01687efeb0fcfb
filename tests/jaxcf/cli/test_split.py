"""`jaxcf split`: shares and folds are those that are given; parts of counts are as the whole."""

import numpy as np
import pytest

from jaxcf.cli.main import main
from jaxcf.data import reading
from jaxcf.data.options import Reading


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


def test_a_thesis_split_without_validation_or_test_ratings_is_refused(tmp_path, capsys):
    """Training would refuse the empty file."""
    (tmp_path / "few.csv").write_text("".join(f"u{user},m1,3,{user}\n" for user in range(5)))
    assert main(["split", str(tmp_path / "few.csv"), "--scheme", "thesis", "--out", str(tmp_path / "parts")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "jaxcf: of 5 ratings none is drawn for valid (--scheme thesis) - "
        "give more ratings, another --seed, or --scheme random"
    )
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("scheme", ["random", "kfold", "users"])
def test_another_seed_gives_another_split(split, scheme):
    one, again, other = (split(scheme, "--seed", seed, out=out) for seed, out in ((3, "a"), (3, "b"), (4, "c")))
    assert one == again
    assert all(one[name] != other[name] for name in one)


@pytest.fixture
def plays(tmp_path):
    """Write files of plays by 12 users, where some pairs have several lines: with counts, and without."""
    draws = np.random.default_rng(0)
    rows = [f"u{user},m{item}" for user in range(12) for item in draws.choice(6, 4, replace=False)]
    counted = [f"{row},{draws.integers(1, 9)}" for row in [*rows, *rows[:9]]]
    files = {
        "counted.csv": ["user,item,plays", *counted],
        "repeated.csv": ["user,item", *rows, *rows[:9]],
        "pairs.csv": ["user,item", *rows],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def read_counts(*files):
    table = reading.read(files, Reading.of({}, counts=True), counts=True)
    users, items = table.catalogue.users[table.ratings.user], table.catalogue.items[table.ratings.item]
    rows = list(zip(users.tolist(), items.tolist(), table.ratings.stars.tolist(), strict=True))
    assert len({row[:2] for row in rows}) == len(rows)
    return sorted(rows)


@pytest.mark.parametrize("name", ["counted", "repeated", "pairs"])
def test_parts_of_counts_are_read_as_the_whole(plays, call, name):
    whole, out = plays / f"{name}.csv", plays / name
    call("split", whole, "--counts", "--out", out)
    parts = [out / f"{part}.csv" for part in ("train", "valid", "test")]
    assert sorted(row for part in parts for row in read_counts(part)) == read_counts(whole)
    header = parts[0].read_text().splitlines()[0].replace('"', "")
    assert header == ("user,item" if name == "pairs" else "user,item,count")


@pytest.mark.parametrize(
    ("options", "values", "written"),
    [
        (["--counts"], ["16777217", "123456789", "33554433", "3"], ["16777217", "123456789", "33554433", "3"]),
        (["--counts"], ["16777217", "2", "5", "1\na,x,16777218"], ["33554435", "2", "5", "1"]),
        ([], ["33.333333333", "66.6666667", "0.1", "4.50"], ["33.333333333", "66.6666667", "0.1", "4.5"]),
        (["--duplicates", "mean"], ["0.1", "2.5", "5", "1\na,x,0.3"], ["0.2", "2.5", "5", "1"]),
    ],
)
def test_values_are_written_as_they_are_read(tmp_path, call, options, values, written):
    pairs = ["a,x", "a,y", "b,x", "b,y"]
    rows = [f"{pair},{value}" for pair, value in zip(pairs, values, strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(["user,item,value", *rows]) + "\n")
    call("split", tmp_path / "all.csv", *options, "--valid", 0, "--test", 0.5, "--out", tmp_path / "out")
    parts = [(tmp_path / "out" / f"{part}.csv").read_text().replace('"', "") for part in ("train", "test")]
    found = [row for part in parts for row in part.splitlines()[1:]]
    assert sorted(found) == [f"{pair},{value}" for pair, value in zip(pairs, written, strict=True)]


def test_cross_validation_of_counts_has_the_folds_of_split(plays, call):
    whole = ["--ratings", plays / "counted.csv"]
    options = ["--num-features", 2, "--epochs", 2, "--seed", 3]
    found, _ = call("cross-validate", "wmf", *whole, *options, "--folds", 2)
    call(
        "split", plays / "counted.csv", "--counts", "--scheme", "kfold", "--folds", 2, "--seed", 3, "--out", plays / "p"
    )
    for number, fold in enumerate(found["folds"], 1):
        model = plays / f"m{number}"
        call("train", "wmf", "--ratings", plays / "p" / f"train{number}.csv", *options, "--out", model)
        by_hand, _ = call("eval", model, "--ratings", plays / "p" / f"test{number}.csv")
        assert fold["ndcg@10"] == pytest.approx(by_hand["ndcg@10"], rel=1e-6)


def test_stars_are_not_added_up_and_pairs_are_no_ratings(plays, capsys):
    (plays / "stars.csv").write_text("user,item,stars\na,b,4\na,b,5\n")
    for argv, said in (
        (["stars.csv", "--duplicates", "sum"], "only counts can be added up, not stars (--duplicates sum)"),
        (["pairs.csv"], "pairs are for models of implicit data, and split by --counts"),
    ):
        assert main(["split", str(plays / argv[0]), *argv[1:], "--out", str(plays / "out")]) == 2
        assert said in capsys.readouterr().err
        assert not (plays / "out").exists()
