"""Titles of items beside what is recommended: files of every layout, in JSON, and those of other items."""

import csv
import gzip
import io
import json

import numpy as np
import pytest

from jaxcf.cli import main as cli
from jaxcf.cli.recommend import read_titles
from jaxfit.errors import UserError
from rating_files import write_file

ITEMS = np.array([1, 2, 30])
TITLES = {"1": "Toy Story", "2": "American President, The", "30": "Zoë: \x85 | 7;8"}
QUOTED = io.StringIO()
csv.writer(QUOTED).writerows([("movieId", "title", "genres"), *((*row, "Comedy|Drama") for row in TITLES.items())])
BODIES = {
    "movies.dat": "".join(f"{item}::{title}::Comedy|Drama, old\n" for item, title in TITLES.items()),
    "movies.tsv": "".join(f"{item}\t{title}\n" for item, title in TITLES.items()),
    "movies.csv": QUOTED.getvalue(),
    "no header.csv": "".join(QUOTED.getvalue().splitlines(keepends=True)[1:]),
    "books.csv": '"ISBN";"Title"\n' + "".join(f'{item} ;"{title}";x,y\n' for item, title in TITLES.items()),
    "blank.csv": "\n" + QUOTED.getvalue(),
}


@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "latin-1", "gzip"])
@pytest.mark.parametrize("name", BODIES)
def test_titles_of_every_layout(tmp_path, capsys, name, form):
    body = BODIES[name].encode("utf-8" if form == "gzip" else form)
    titles = read_titles(str(write_file(tmp_path, name, gzip.compress(body) if form == "gzip" else body)), ITEMS)
    assert {item: titles[item] for item in TITLES} == TITLES
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "number", "titles"),
    [
        ("ml-1m/movies.dat", 3883, {"1": "Toy Story (1995)", "11": "American President, The (1995)"}),
        ("ml-100k/u.item", 1682, {"1": "Toy Story (1995)", "34": "Doom Generation, The (1995)"}),
    ],
)
def test_titles_of_movielens(data_dir, name, number, titles):
    found = read_titles(str(data_dir / name), ITEMS)
    assert len(found) == number
    assert titles.items() <= found.items()


def test_titles_of_u_item_with_a_comma_in_the_first(tmp_path):
    titles = read_titles(str(write_file(tmp_path, "u.item", "2|American President, The|x\n1|Toy Story|y\n")), ITEMS)
    assert titles == {"2": TITLES["2"], "1": TITLES["1"]}


def test_titles_of_other_items_are_warned_of(tmp_path):
    path = str(write_file(tmp_path, "movies.csv", "a,Toy Story\nb,Heat\n"))
    said = r"movies.csv is of an item of the model \(b there, 1 in the model\): no titles"
    with pytest.warns(UserWarning, match=said):
        read_titles(path, ITEMS)


def test_titles_in_parquet_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"the file is a parquet file .* - write the ids and titles as CSV"):
        read_titles(str(write_file(tmp_path, "movies.parquet", b"PAR1, PAR1")), ITEMS)


def test_files_without_titles_are_refused(tmp_path):
    for body, what in (("Toy Story\n", "no id and title"), ("\n\n", "no id and title"), ("", "is empty")):
        with pytest.raises(UserError, match=what):
            read_titles(str(write_file(tmp_path, "movies.csv", body)), ITEMS)


def test_a_title_may_be_long(tmp_path):
    path = str(write_file(tmp_path, "movies.csv", '1,"Toy, Story"\n2,' + "y" * 200_000 + '\n30,"Heat"\n'))
    assert read_titles(path, ITEMS) == {"1": "Toy, Story", "2": "y" * 200_000, "30": "Heat"}


def test_json_has_titles_if_requested(tmp_path, capsys):
    ratings = write_file(
        tmp_path, "r.csv", "".join(f"{u},{i},{1 + u * i % 5}\n" for u in range(40) for i in (1, 2, 30))
    )
    titles, model = write_file(tmp_path, "movies.csv", "1,Toy Story\n30,Heat\n"), str(tmp_path / "m")
    argv = ["train", "svd", "--ratings", str(ratings), "--out", model, "--epochs", "1"]
    assert cli.main(argv) == 0
    for ask, key in (
        (["recommend", model, "--user", "5"], "recommended"),
        (["similar", model, "--item", "1"], "similar"),
    ):
        capsys.readouterr()
        assert cli.main([*ask, "--json"]) == 0
        plain = json.loads(capsys.readouterr().out)[key]
        assert cli.main([*ask, "--json", "--titles", str(titles)]) == 0
        titled = json.loads(capsys.readouterr().out)[key]
        plain, titled = (found["5"] if key == "recommended" else found for found in (plain, titled))
        names = {1: "Toy Story", 2: None, 30: "Heat"}
        assert titled == [{**answer, "title": names[answer["item"]]} for answer in plain]
