"""Data sets fetched from a server on this machine, and checked."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile

import pytest

from benchmarks.data import fetch
from benchmarks.data import sets as data
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
    """Serve a folder; yield it and its URL."""
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
    """Give the registry's three-file data sets the contents of TEXTS instead."""
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
    paths = fetch.fetch(name, home, url, allow_http=True)
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
        fetch.fetch("ptb", home, url, allow_http=True)
    assert error.value.do
    assert [p.name for p in home.rglob("*")] == ["ptb", "train.txt"]
    assert (home / "ptb" / "train.txt").read_bytes() == b"earlier"


def test_what_is_there_is_not_fetched_again(tmp_path, monkeypatch):
    for part, text in {"train": " a b\n", "valid": " a\n", "test": " b\n"}.items():
        (tmp_path / "ptb").mkdir(exist_ok=True)
        (tmp_path / "ptb" / f"{part}.txt").write_text(text)
    files = tuple(
        dataclasses.replace(file, sha256=data.sha256_of(tmp_path / file.path)) for file in data.named("ptb").files
    )
    monkeypatch.setitem(data.DATA_SETS, "ptb", dataclasses.replace(data.named("ptb"), files=files))
    nowhere = "https://127.0.0.1:9"
    assert fetch.fetch("ptb", tmp_path, nowhere) == [tmp_path / file.path for file in files]
    (tmp_path / "ptb" / "test.txt").write_text("damaged\n")
    with pytest.raises(UserError, match="the download failed"):
        fetch.fetch("ptb", tmp_path, nowhere)


def test_no_server(tmp_path):
    with pytest.raises(UserError, match="the download failed"):
        fetch.fetch("ptb", tmp_path / "home" / "data", "https://127.0.0.1:9")
    assert list(tmp_path.iterdir()) == [], "no folder is left that was made for it"
