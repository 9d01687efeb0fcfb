"""Data sets: found, and read as their publishers wrote them."""

import hashlib
import tarfile
import zipfile

import numpy as np
import pytest

from benchmarks.data import corpora, fetch
from benchmarks.data import sets as data
from jaxfit.errors import UserError


def test_what_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"the data set ptb is not here .*python -m benchmarks data ptb"):
        data.load("ptb", tmp_path)
    with pytest.raises(UserError, match=r"the data set holmes is not here .*microsoft"):
        data.find("holmes", tmp_path)
    with pytest.raises(UserError, match=r"has to be fetched by hand .*save it as"):
        fetch.fetch("holmes", tmp_path)
    with pytest.raises(UserError, match=r"there is no data set 'nothing' to fetch - choose one of ptb, "):
        data.find("nothing", tmp_path)
    monkeypatch.delenv(data.VARIABLE, raising=False)
    for action in (data.find, fetch.fetch):
        with pytest.raises(UserError, match="BENCHMARK_DATA"):
            action("ptb")
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match=str(tmp_path)):
        data.find("ptb")


def test_built_in():
    for name in data.BUILT_IN:
        corpus = data.load(name)
        assert corpus.name == name
        assert len(corpus.train) > 30_000


NOVEL = """\
The Project Gutenberg Etext of a Novel\r
***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***\r
Why is this "Small Print!" statement here?  You know: lawyers.\r
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\r
\r
CHAPTER 12\r
\r
"Is Mr. J. Doe\r
well-known?" said Mrs. Roe.  He was; it was _true_.\r
\r
THE END\r
"""


def test_novel():
    body = NOVEL + "\r\nMore." * 400
    want = [
        "chapter N",
        '" is mr . j . doe well-known ? " said mrs . roe .',
        "he was ; it was true .",
        "the end",
        "more .",
    ]
    for end in ("", "\r\n\r\nEnd of The\r\nProject Gutenberg Etext of a Novel\r\nthanks\r\n\x1a"):
        got = corpora.novel(body + end).splitlines()
        assert got[:5] == want
        assert set(got[5:]) == {"more ."}
    assert corpora.novel(NOVEL.replace("\r\n", "\r") + "\rMore." * 400).splitlines()[:5] == want
    with pytest.raises(UserError, match="SMALL PRINT"):
        corpora.novel("A novel.")


def test_holmes(tmp_path, monkeypatch):
    """Files in name order whatever the packing; every part begins with a new file."""
    path = tmp_path / "novels.tar.gz"
    body = {f"{x}.TXT": (NOVEL + f"\r\n{x}1 tells {x}2. " * 60).encode() for x in ("C", "A", "D", "B")}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in body.items():
            (tmp_path / name).write_bytes(content)
            archive.add(tmp_path / name, name)
    with pytest.raises(UserError, match="not the 522 novels"):
        corpora.holmes([path], "", "")
    ordered = [hashlib.sha256(body[name]).digest() for name in sorted(body)]
    monkeypatch.setattr(corpora, "HOLMES", hashlib.sha256(b"".join(ordered)).hexdigest())
    corpus = corpora.holmes([path], "", "", sizes=(300, 100, 100), size=20)
    words = corpus.vocabulary.words
    assert len(words) == 20
    assert [words[i] for i in corpus.train[:3]] == ["chapter", "N", "<eos>"]
    for ids, wanted in ((corpus.train, 300), (corpus.valid, 100), (corpus.test, 100)):
        assert wanted <= len(ids) < wanted + 20
        assert ids[-1] == corpus.vocabulary.eos
        assert (ids[:3] == corpus.train[:3]).all()
    with pytest.raises(UserError, match="the text ends after"):
        corpora.holmes([path], "", "", sizes=(300, 100, 10_000))


def test_brown(tmp_path):
    path = tmp_path / "brown.zip"
    pages = {
        "brown/cats.txt": b"x",
        "brown/ca02": b"\n\n\tThe/at dog/nn either/or/cc ran/vbd ./.\n",
        "brown/ca01": b"\tThe/at The/at cat/nn either/or/cc\n\n\tThe/at The/at\n\n\tThe/at cat/nn\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in pages.items():
            archive.writestr(name, content)
    corpus = corpora.brown([path], "", "", sizes=(6, 2))
    words = np.array(corpus.vocabulary.words)
    assert words[corpus.train].tolist() == ["The", "The", "<unk>", "<unk>", "<eos>", "The", "The", "<eos>"]
    assert words[corpus.valid].tolist() == ["The", "<unk>", "<eos>"]
    assert words[corpus.test].tolist() == ["The", "<unk>", "<unk>", "<unk>", "<unk>", "<eos>"]


def test_real_data(data_dir):
    """Counts known from the literature, where the data is."""
    known = {
        "ptb": (929_589, 73_760, 82_430, 10_000),
        "wikitext-2": (2_088_628, 217_646, 245_569, 33_278),
        "brown": (800_005, 200_000, 1_161_192 + 57_340 - 1_000_005, 13_845),
    }
    for name, counts in known.items():
        corpus = data.load(name, data_dir)
        assert (*map(len, (corpus.train, corpus.valid, corpus.test)), len(corpus.vocabulary)) == counts
        assert np.bincount(corpus.train).tolist() == corpus.vocabulary.counts.tolist()
