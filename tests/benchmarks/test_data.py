"""Data sets: fetched from a server on this machine, checked, found, and read as their publishers wrote them."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile

import numpy as np
import pytest

from benchmarks import corpora, data
from jaxfit.errors import UserError

TEXTS = {"train": b" a b c <unk>\n b\n", "valid": b" a c\n", "test": b" c\n"}


def tar(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def server(tmp_path):
    """A folder that is served, and its URL."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def small(monkeypatch):
    """The registry's three-file data sets, with the contents of TEXTS instead."""
    for name in ("ptb", "wikitext-2"):
        files = tuple(
            dataclasses.replace(file, sha256=hashlib.sha256(content).hexdigest())
            for file, content in zip(data.DATA_SETS[name].files, TEXTS.values(), strict=True)
        )
        monkeypatch.setitem(data.DATA_SETS, name, dataclasses.replace(data.DATA_SETS[name], files=files))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "pack", "prefix"), [("ptb", tar, "./"), ("wikitext-2", zipped, "")])
def test_fetch_and_load(tmp_path, server, name, pack, prefix):
    folder, url = server
    data_set = data.DATA_SETS[name]
    members = [prefix + file.member for file in data_set.files]
    content = {"other": b"x", **dict(zip(members, TEXTS.values(), strict=True))}
    (folder / data_set.url.rpartition("/")[2]).write_bytes(pack(content))
    home = tmp_path / "home"
    paths = data.fetch(name, home, url)
    assert [path.read_bytes() for path in paths] == list(TEXTS.values())
    assert sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file()) == sorted(
        file.path for file in data_set.files
    )
    corpus = data.load(name, home)
    assert corpus.name == name
    assert corpus.vocabulary.words == ("<eos>", "b", "<unk>", "a", "c")
    assert [len(ids) for ids in (corpus.train, corpus.valid, corpus.test)] == [7, 3, 2]
    # a gzipped file is the same data, with the same sha256
    paths[0].with_suffix(".txt.gz").write_bytes(gzip.compress(paths[0].read_bytes()))
    paths[0].unlink()
    assert data.load(name, home).sha256 == corpus.sha256
    paths[2].write_bytes(b" b\n")
    with pytest.raises(UserError, match=r"not the published file: .*test.txt\) - fetch it again"):
        data.load(name, home)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("archive", "part"),
    [
        (
            {"train": b" a b c <unk>\n b\n", "valid": b" a c\n", "test": b" d\n"},
            "test.txt is not the published file",
        ),
        ({"train": b" a b c <unk>\n b\n"}, "the archive is not as expected"),
        (b"no archive at all", "the archive is not as expected"),
        (None, "the download failed: 404"),
    ],
)
def test_a_failed_fetch_leaves_all_as_it_was(tmp_path, server, archive, part):
    folder, url = server
    if isinstance(archive, dict):
        archive = tar({f"simple-examples/data/ptb.{name}.txt": content for name, content in archive.items()})
    if archive is not None:
        (folder / "simple-examples.tgz").write_bytes(archive)
    home = tmp_path / "home"
    (home / "ptb").mkdir(parents=True)
    (home / "ptb" / "train.txt").write_bytes(b"earlier")
    with pytest.raises(UserError, match=part) as error:
        data.fetch("ptb", home, url)
    assert error.value.do
    assert [p.name for p in home.rglob("*")] == ["ptb", "train.txt"]
    assert (home / "ptb" / "train.txt").read_bytes() == b"earlier"


def test_no_server(tmp_path):
    with pytest.raises(UserError, match="the download failed"):
        data.fetch("ptb", tmp_path / "home", "http://127.0.0.1:9")


def test_what_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"the data set ptb is not here .*python -m benchmarks data ptb"):
        data.load("ptb", tmp_path)
    with pytest.raises(UserError, match=r"the data set holmes is not here .*microsoft"):
        data.find("holmes", tmp_path)
    with pytest.raises(UserError, match=r"has to be fetched by hand .*save it as"):
        data.fetch("holmes", tmp_path)
    with pytest.raises(UserError, match=r"no data set 'nothing' to fetch - choose one of ptb, "):
        data.find("nothing", tmp_path)
    monkeypatch.delenv(data.VARIABLE, raising=False)
    for action in (data.find, data.fetch):
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
    path.write_bytes(tar(body))
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
    path.write_bytes(zipped(pages))
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
