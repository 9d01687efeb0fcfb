"""Downloads that break: they continue or begin anew, go over https alone unless asked, and leave nothing half-done."""

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.data import download, first_use
from jaxfit.cli import command
from jaxfit.errors import UserError

ROOT = Path(__file__).parents[2]
CONTENT = bytes(range(256)) * 4000  # a million bytes


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT, and breaks off after `most` bytes of each answer."""

    most, ranges, etag, redirect, content, pause = len(CONTENT), True, '"one"', None, CONTENT, 0.0
    behind = 0  # bytes before those asked for, from which it goes on

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        server, content = self.server, self.server.content
        server.asked.append(self.headers.get("Range"))
        if server.redirect:
            self.send_response(302)
            self.send_header("Location", server.redirect)
            self.end_headers()
            return
        begin = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        first = int(begin[1]) if begin and server.ranges and self.headers["If-Range"] == server.etag else 0
        if first >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        first = max(0, first - server.behind)
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - first))
        self.send_header("ETag", server.etag)
        self.end_headers()
        try:
            self.wfile.write(content[first : first + server.most])
            if server.most < len(content):
                self.wfile.flush()
                time.sleep(server.pause)
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "WAIT", 0.0)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch(server, target):
    download.download(f"{server.url}/{target.name}", target, allow_http=True)
    assert target.read_bytes() == server.content
    assert [path.name for path in target.parent.iterdir() if path.suffix == ".part"] == []


def test_a_connection_that_breaks_is_continued_at_once(tmp_path, server, capsys):
    server.most = 400_000
    fetch(server, tmp_path / "file")
    assert len(server.asked) == 3
    assert all(server.asked[1:])
    said = capsys.readouterr().err
    assert "trying again" in said
    assert re.search(r"file: the interrupted download continues after [\d,]+ bytes", said)


@pytest.mark.parametrize(
    ("change", "said"),
    [({}, "continues after"), ({"etag": '"two"'}, "begins anew"), ({"ranges": False}, "begins anew"),
     ({"content": CONTENT[:1000], "etag": '"two"'}, "begins anew")],
    ids=["the same file", "another file", "a server without ranges", "a shorter file"],
)  # fmt: skip
def test_a_download_that_was_given_up_continues_or_begins_anew(tmp_path, server, capsys, change, said):
    server.most = 200_000
    with pytest.raises(OSError) as error:  # noqa: PT011
        fetch(server, tmp_path / "file")
    assert error.value.errno is None
    assert not (tmp_path / "file").exists()
    server.most = len(CONTENT)
    for name, value in change.items():
        setattr(server, name, value)
    capsys.readouterr()
    fetch(server, tmp_path / "file")
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 5], ids=["all bytes", "more bytes"])
def test_a_download_stopped_after_its_last_byte_is_whole(tmp_path, server, capsys, size):
    (tmp_path / "file.part").write_bytes((CONTENT + b"more!")[:size])
    about = {"url": f"{server.url}/file", "validator": server.etag}
    (tmp_path / "file.json").write_text(json.dumps(about))
    fetch(server, tmp_path / "file")
    assert server.asked == [f"bytes={size}-", None][: 1 + (size > len(CONTENT))]
    assert ("less of the file than came before" in capsys.readouterr().err) == (size > len(CONTENT))


def test_another_part_than_was_asked_for_is_not_taken(tmp_path, server, capsys):
    server.most, server.behind = 400_000, 1
    with pytest.raises(OSError) as error:  # noqa: PT011
        fetch(server, tmp_path / "file")
    assert "400000 bytes read" in str(error.value)  # in the third attempt, from the start
    assert [bool(part) for part in server.asked] == [False, True, False]
    assert "the server sent another part of the file" in capsys.readouterr().err
    server.most, server.behind = len(CONTENT), 0
    fetch(server, tmp_path / "file")


@pytest.mark.parametrize(
    "url", ["ftp://example.com/f", "example.com/f", "https:///", "https://[bad/f", "https://a..b/f"]
)
@pytest.mark.parametrize("allow_http", [False, True])
def test_what_is_no_url_is_refused_at_once(tmp_path, capsys, url, allow_http):
    with pytest.raises(UserError, match=r"this is no URL of a file \(.*\) - give one that begins with https://"):
        download.download(url, tmp_path / "f", allow_http=allow_http)
    assert "trying again" not in capsys.readouterr().err


def test_a_file_cut_short_is_no_file(tmp_path, server):
    server.most, server.ranges = 1000, False
    with pytest.raises(OSError):  # noqa: PT011
        fetch(server, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_http_is_refused_unless_asked_for_also_where_a_server_redirects_to_it(tmp_path, server, monkeypatch, capsys):
    def run(*argv):
        status = command.run("benchmarks", benchmarks.parser, ["data", "brown", "--data-dir", str(tmp_path), *argv])
        return status, capsys.readouterr().err.splitlines()[-1]

    status, line = run("--base-url", server.url)
    assert status == 2
    assert line.startswith("benchmarks: the download over http is not encrypted (http://127.0.0.1:")
    assert line.endswith("give --allow-http to take it all the same")
    assert server.asked == []
    # of a server with https, which redirects
    real = download.requests.adapters.HTTPAdapter.send
    monkeypatch.setattr(
        download.requests.adapters.HTTPAdapter, "send",
        lambda self, request, **more: real(self, _plain(request, server.server_port), **more),
    )  # fmt: skip
    server.redirect = f"http://127.0.0.1:{server.server_port}/elsewhere"
    status, line = run("--base-url", f"https://127.0.0.1:{server.server_port}")
    assert status == 2
    assert "the download over http is not encrypted" in line
    assert len(server.asked) == 1
    monkeypatch.undo()
    server.redirect = None
    status, line = run("--base-url", server.url, "--allow-http")
    assert status == 2
    assert "brown.zip is not the published file: sha256 " in line
    assert list(tmp_path.iterdir()) == []


def _plain(request, port):
    """Return the same request without encryption: there is no certificate for a server on this machine."""
    request.url = request.url.replace(f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}")
    return request


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_fetch_that_is_stopped_leaves_no_data_and_continues(tmp_path, sent):
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.most, server.pause = 900_000, 30.0
        argv = ["data", "brown", "--data-dir", tmp_path, "--base-url", server.url, "--allow-http"]
        command_line = [sys.executable, "-m", "benchmarks", *map(str, argv)]
        first = subprocess.Popen(command_line, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ})
        part = tmp_path / ".fetching" / "brown" / "brown.zip.part"
        while not part.exists() or part.stat().st_size < 500_000:
            assert first.poll() is None
            time.sleep(0.001)
        first.send_signal(sent)
        _, said = first.communicate(timeout=60)
        assert first.returncode in (130, -sent), said
        assert not (tmp_path / "brown").exists()
        assert part.exists()
        server.most = len(CONTENT)
        again = subprocess.run(command_line, stderr=subprocess.PIPE, text=True, check=False)
        assert "the interrupted download continues after" in again.stderr
        assert "brown.zip is not the published file" in again.stderr  # this server's is not
        assert list(tmp_path.iterdir()) == []
        server.shutdown()


def test_files_without_a_published_sha256_are_held_to_their_first_use(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "b.txt").write_text("b")
    paths = [tmp_path / "a.txt", tmp_path / "parts" / "b.txt"]
    first_use.require_same(tmp_path, paths)
    said = f"no sha256 is published for these files; {tmp_path / first_use.NAME} now records theirs, and later runs"
    assert said in capsys.readouterr().err
    first_use.require_same(tmp_path, paths)
    assert capsys.readouterr().err == ""
    (tmp_path / "c.txt").write_text("c")
    with pytest.raises(UserError, match=r"not that of the first use \(.*c.txt\)"):
        first_use.require_same(tmp_path, [*paths, tmp_path / "c.txt"])
    with pytest.raises(UserError, match=r"the file is missing \(.*parts/b.txt\)"):
        first_use.require_same(tmp_path, paths[:1])
    (tmp_path / "a.txt").write_text("b")
    with pytest.raises(UserError, match=r"not that of the first use \(.*a.txt\) - restore it, or remove SHA256SUMS"):
        first_use.require_same(tmp_path, paths)
    for text in (b"garbage\n", b"\xff"):
        (tmp_path / first_use.NAME).write_bytes(text)
        with pytest.raises(UserError, match=r"the file is damaged .*SHA256SUMS"):
            first_use.require_same(tmp_path, paths)


def test_a_damaged_archive_is_refused_and_removed(tmp_path, server, monkeypatch):
    from benchmarks.data import fetch as fetching

    monkeypatch.setattr(Server, "content", b"PK\x03\x04 and no more")
    with pytest.raises(UserError, match="the archive is not as expected"):
        fetching.fetch("ml-100k", tmp_path, server.url, allow_http=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match=r"ml-1m\.zip is not the published file"):
        fetching.fetch("ml-1m", tmp_path, server.url, allow_http=True)
    assert list(tmp_path.iterdir()) == []
