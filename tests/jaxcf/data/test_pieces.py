"""Ratings that are read a few at a time, and stored in files, are those that are read at once."""

import contextlib
import gzip

import numpy as np
import pytest

import jaxcf
from jaxcf.data import reading, triples, values
from jaxcf.data.formats import text_pieces
from jaxcf.data.ratings import counted, digest, take
from jaxcf.data.reading import Reading, read, read_dataset, read_pairs
from jaxcf.models import pmf
from jaxfit.errors import UserError
from jaxfit.files import large_arrays
from jaxfit.files.large_arrays import stored_in
from jaxfit.files.limits import Limits, limited
from rating_files import rows, write_file

NUMBER = 3000


@pytest.fixture
def in_pieces(tmp_path, monkeypatch):
    """Return a context in which everything is in pieces of a few ratings, and arrays are in files."""

    @contextlib.contextmanager
    def small_pieces():
        with monkeypatch.context() as patch, stored_in(tmp_path, 10):
            patch.setattr(large_arrays, "PIECE", 100)
            patch.setattr(triples, "TURNS", 3)
            patch.setattr(triples, "SORTED", 70)
            patch.setattr(values, "RATINGS_AT_ONCE", 70)
            patch.setattr(text_pieces, "BYTES_AT_ONCE", 512)
            yield

    return small_pieces


def lines(seed=0, repeated=True):
    """Draw ratings of 200 users and 40 items, whose later lines have ids that the first lack; with repeated pairs."""
    rng = np.random.default_rng(seed)
    pair = np.sort(rng.integers(0, 8000, NUMBER)) if repeated else rng.permutation(8000)[:NUMBER]
    stars = rng.integers(2, 11, NUMBER) / 2
    return [f"{p // 40 * 3},{'x' * (p % 3)}{p % 40},{s:g}" for p, s in zip(rng.permutation(pair), stars, strict=True)]


def by_hand(text, how):
    """Compute what is left of ratings: (user, item) -> the stars, in the order of the lines that are left."""
    found = {}
    for row, line in enumerate(text):
        user, item, stars = line.split(",")
        found.setdefault((user, item), []).append((row, float(stars)))
    left = []
    for (user, item), all_of in found.items():
        stars = [each for _, each in all_of]
        value = {"mean": np.mean(stars), "sum": np.sum(stars), "first": stars[0], "last": stars[-1]}[how]
        left.append((all_of[0 if how == "first" else -1][0], (int(user), item, value)))
    return [triple for _, triple in sorted(left)]


@pytest.mark.parametrize("how", ["last", "first", "mean", "sum"])
def test_repeated_ratings_are_resolved_as_by_hand(tmp_path, in_pieces, how):
    text = lines()
    file = write_file(tmp_path, "r.csv", "\n".join(text) + "\n")
    with in_pieces():
        found = read(file, Reading(duplicates=how))
    assert isinstance(found.ratings.user, np.memmap)
    assert rows(found) == [pytest.approx(triple) if how == "mean" else triple for triple in by_hand(text, how)]


def test_the_first_repeated_line_is_named(tmp_path, in_pieces):
    text = lines()
    seen: set[tuple[str, ...]] = set()
    first = next(
        k for k, pair in enumerate(tuple(line.split(",")[:2]) for line in text) if pair in seen or seen.add(pair)
    )
    file = write_file(tmp_path, "r.csv", "\n".join(text) + "\n")
    with in_pieces(), pytest.raises(UserError, match=rf"has already rated .*r.csv, line {first + 1}\)"):
        read(file)


@pytest.mark.parametrize("wrong", ["3,5,", "3,5,x", ",5,3", "3,,3", "3,5", "3,\xff5,1"])
def test_errors_name_the_line_in_a_later_piece_of_a_later_file(tmp_path, in_pieces, wrong):
    text = lines(repeated=False)
    first = write_file(tmp_path, "1.csv", "\n".join(text[:1000]) + "\n")
    content = "\n".join([*text[1000:2500], wrong, *text[2500:]]) + "\n"
    second = write_file(tmp_path, "2.csv", content.encode("latin-1"))
    with in_pieces(), pytest.raises(UserError) as error:
        read([first, second])
    assert error.value.where == f"{second}, line 1501"


def test_data_sets_are_the_same(tmp_path, in_pieces):
    """Also with times, which are not read, a held-out file of pairs, and users of validation that training lacks."""
    text = [f"{line},1{k}" for k, line in enumerate(lines(repeated=False))]
    train = [
        write_file(tmp_path, name, "\n".join(part) + "\n") for name, part in (("1", text[:999]), ("2", text[999:]))
    ]
    valid = write_file(tmp_path, "valid", "\n".join([*text[:20], "9999,1,4,1", "3,99,1,2"]) + "\n")
    pairs = write_file(tmp_path, "pairs", "\n".join(line.rsplit(",", 2)[0] for line in text[990:1010]) + "\n")
    whole = read_dataset(train, valid, pairs)
    with in_pieces():
        found = read_dataset(train, valid, pairs)
    assert found.notes == whole.notes
    assert any("20 of the 22 valid ratings are of pairs that are also in training" in note for note in found.notes)
    assert len(found.dataset.train.user) == NUMBER - 20
    assert found.dataset.sha256 == whole.dataset.sha256
    for name in ("train", "valid", "test"):
        for one, other in zip(getattr(found.dataset, name)[:3], getattr(whole.dataset, name)[:3], strict=True):
            np.testing.assert_array_equal(one, other)
    assert digest(found.dataset.test, found.dataset.test, found.dataset.catalogue) == digest(
        whole.dataset.test, whole.dataset.test, whole.dataset.catalogue
    )


@pytest.mark.parametrize("section_users", [1000, 90])
def test_ratings_on_the_device_are_the_same(section_users, tmp_path, in_pieces, monkeypatch):
    monkeypatch.setattr(triples, "SECTION_USERS", section_users)
    ratings = read(write_file(tmp_path, "r.csv", "\n".join(lines(repeated=False)) + "\n")).ratings
    config = pmf.Config(600, 99, mean=3.25, unit=0.7)
    whole = pmf.make_data(ratings, config)
    with in_pieces():
        np.testing.assert_array_equal(pmf.make_data(ratings, config), whole)


def test_taken_and_counted_are_those_of_numpy(tmp_path, in_pieces):
    ratings = read(write_file(tmp_path, "r.csv", "\n".join(lines(repeated=False)) + "\n")).ratings
    mask = np.random.default_rng(1).random(NUMBER) < 0.3
    with in_pieces():
        for which in (mask, np.flatnonzero(mask)[::-1]):
            for one, other in zip(take(ratings, which)[:3], ratings[:3], strict=True):
                np.testing.assert_array_equal(one, other[which])
        np.testing.assert_array_equal(counted(ratings.user, 700), np.bincount(ratings.user, minlength=700))
    assert counted(ratings.user[:0]).tolist() == []


def test_blank_lines_may_fill_a_piece(tmp_path, in_pieces):
    file = write_file(tmp_path, "r.csv", "1,2,3\n" + "\n" * 2000 + "4,5,1\n" + "\n" * 2000)
    with in_pieces():
        assert rows(read(file)) == [(1, 2, 3), (4, 5, 1)]


def test_many_small_files_are_joined(tmp_path, in_pieces):
    """Their rows are put together, but where a file has other columns."""
    text = lines(repeated=False)[:100]
    files = [write_file(tmp_path, f"{k}.csv", f"{line}\n") for k, line in enumerate(text)]
    with in_pieces():
        found = read(files)
        assert rows(found) == by_hand(text, "last")
        pairs = write_file(tmp_path, "pairs.csv", "1,x\n2,y\n")
        assert [len(each) for each in read_pairs([*files, pairs]).pairs] == [102, 102]
        with pytest.raises(UserError, match=r"no counts here, but there are in .*0\.csv, line 1 \(.*pairs\.csv"):
            read([*files[:50], pairs, *files[50:]], counts=True)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, in_pieces):
    file = write_file(tmp_path, "r.csv", "1,2,3\n" * 200 + "1," + "0" * (3 << 20))
    with in_pieces(), limited(Limits(max_line_mb=1)), pytest.raises(UserError, match="a line is longer than 1 MB"):
        read(file)


def test_a_mask_of_another_length_is_an_error(tmp_path):
    ratings = read(write_file(tmp_path, "r.csv", "1,2,3\n4,5,1\n")).ratings
    with pytest.raises(IndexError):
        take(ratings, np.ones(3, bool))


def test_python_keeps_large_ratings_beside_the_model_and_in_memory_without_one(tmp_path, monkeypatch):
    file = write_file(tmp_path, "r.csv", "\n".join(lines(repeated=False)) + "\n")
    monkeypatch.setattr(reading, "LARGE", 10)
    for out in (tmp_path / "model", None):
        model = jaxcf.train("bias", file, out=out, progress=False)
        assert isinstance(model.known.ratings.user, np.memmap) == (out is not None)


MORE = [line.split(",") for line in lines(seed=3, repeated=False)]


@pytest.mark.parametrize(
    ("content", "how"),
    [
        ("\ufeffuser,item,rating\r\n" + "\r\n".join(map(",".join, MORE)), {}),
        (gzip.compress("\n".join(map("::".join, MORE)).encode()), {}),
        ("".join(f'"é{u}"\t"{i} {i}"\t{s}\n' for u, i, s in MORE).encode("latin-1"), {"encoding": "latin-1"}),
        ("".join(f"{u};{i};{s.replace('.', ',')}\n" for u, i, s in MORE), {"decimal": ","}),
        (
            "".join(f"{k}:\n" + "".join(f"{k * 9 + j},{j % 5 + 1},2005-01-01\n" for j in range(k)) for k in range(60)),
            {},
        ),
    ],
    ids=["header", "gzip", "latin-1", "decimal", "netflix"],
)
def test_files_of_every_layout_are_read_in_pieces(tmp_path, in_pieces, content, how):
    file = write_file(tmp_path, "ratings", content)
    whole = read(file, Reading(**how))
    with in_pieces():
        assert rows(read(file, Reading(**how))) == rows(whole)


def test_a_scale_of_held_out_ratings_is_compared_with_some_of_very_many(tmp_path, in_pieces):
    train = write_file(tmp_path, "train", "\n".join(lines(repeated=False)) + "\n")
    valid = write_file(tmp_path, "valid", "".join(f"0,{k},90\n" for k in range(20)))
    with in_pieces(), pytest.warns(UserWarning, match="look like ratings on another scale"):
        read_dataset(train, valid)
