"""Files that nobody should give: each ends in one line, at once, whichever option names it."""

import bz2
import io
import lzma
import os
import socket
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import jaxcf.cli.main
import jaxlm.cli.main
from jaxfit.files import limits

ROOT = Path(__file__).parents[2]
MAINS = {"jaxlm": jaxlm.cli.main.main, "jaxcf": jaxcf.cli.main.main}
TEXT = "".join(f"{'abcdefgh'[i % 8]} {'abcdefgh'[i * 5 % 8]} c d\n" for i in range(40))
RATINGS = "user,item,rating\n" + "".join(f"{u},{i},{1 + (u * i) % 5}\n" for u in range(8) for i in range(6))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a working folder with a good text and good ratings."""
    (tmp_path / "text").write_text(TEXT)
    (tmp_path / "ratings").write_text(RATINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def complaint(capsys):
    """Run a command line that must fail as a user's mistake, and return its line."""

    def run(line):
        program, *argv = line.split(" ")
        capsys.readouterr()
        assert MAINS[program](argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        last = err.splitlines()[-1]
        assert len(last) <= 400
        assert last.startswith(f"{program}: ")
        return last

    return run


# BAD stands for the file
INPUTS = [
    "jaxlm train kn --out o --train BAD",
    "jaxlm train kn --out o --train text --valid BAD",
    "jaxlm train kn --out o --train text --vocab BAD",
    "jaxlm train hlbl --out o --train text --tree BAD",
    "jaxlm eval BAD --text text",
    "jaxcf train bias --out o --ratings BAD",
    "jaxcf train bias --out o --ratings ratings --test BAD",
    "jaxcf train cpmf --out o --ratings ratings --rated BAD",
    "jaxcf split BAD --scheme random --out o",
    "jaxcf eval BAD --ratings ratings",
]
OF_MODELS = [
    "jaxlm eval kn --text BAD",
    "jaxlm score kn BAD",
    "jaxcf eval bias --ratings BAD",
    "jaxcf predict bias --pairs BAD",
    "jaxcf recommend bias --user 1 --titles BAD",
]
WORDS = ("a named pipe", "a device", "a socket", "no regular file", "no model here")


@pytest.mark.parametrize("line", [*INPUTS, *OF_MODELS])
def test_special_files_end_in_one_line_at_once(place, complaint, line):
    for model, data in (
        ("jaxlm train kn --out kn --train", "text"),
        ("jaxcf train bias --out bias --ratings", "ratings"),
    ):
        program, *argv = f"{model} {data} --quiet".split()
        assert MAINS[program](argv) == 0
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for bad in ("fifo", "socket", "/dev/zero", "/dev/tty"):
            if os.path.exists(bad):
                assert any(word in complaint(line.replace("BAD", bad)) for word in WORDS), bad
    assert not os.path.exists("o/config.json")


@pytest.mark.parametrize(
    "command",
    ["jaxlm.cli.main train kn --quiet --out o --train", "jaxcf.cli.main train bias --quiet --out o --ratings"],
)
@pytest.mark.parametrize(
    "given",
    [
        "<(cat FILE)",
        *(
            pytest.param(given, marks=pytest.mark.slow)
            for given in ("- < FILE", "/dev/stdin < <(gzip -c FILE)", "- < fifo")
        ),
    ],
)
def test_pipes_of_the_shell_are_read(place, command, given):
    os.mkfifo("fifo")
    file = "text" if "jaxlm" in command else "ratings"
    feed = f"cat {file} > fifo & " if "fifo" in given else ""
    line = f"{feed}{sys.executable} -m {command} {given.replace('FILE', file)}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    assert (place / "o/config.json").exists()


@pytest.mark.parametrize(
    "line", ["jaxlm.cli.main train kn --out o --train -", "jaxcf.cli.main train bias --out o --ratings -"]
)
def test_a_device_as_standard_input_is_refused(place, line):
    with open("/dev/zero", "rb") as zero:
        argv = [sys.executable, "-m", *line.split()]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, stdin=zero, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 2
    assert done.stderr.endswith("the file is a device (-) - name a file\n")


def repeated(compress, finish, piece, times):
    """Return a compressor's file that expands to `times` pieces."""
    return b"".join(compress(piece) for _ in range(times)) + finish()


def bombs():
    piece = b"1,2,3\n" * 100_000
    xz, bz, gz = lzma.LZMACompressor(preset=0), bz2.BZ2Compressor(9), zlib.compressobj(9, wbits=31)
    return {
        "bomb.xz": repeated(xz.compress, xz.flush, piece, 4),
        "bomb.bz2": repeated(bz.compress, bz.flush, b"\0" * 600_000, 4),  # which bzip2 packs fastest
        "bomb.gz": repeated(gz.compress, gz.flush, piece, 4),
    }


@pytest.fixture(scope="module")
def compressed(tmp_path_factory):
    """Make a folder of files that expand to 2.4 MB."""
    folder = tmp_path_factory.mktemp("bombs")
    for name, content in bombs().items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("name", ["bomb.xz", "bomb.bz2", "bomb.gz"])
def test_bombs_are_refused(place, compressed, complaint, monkeypatch, name):
    monkeypatch.setattr(limits, "SMALL", 1 << 20)
    for line in ("jaxcf train bias --out o --ratings BAD", "jaxcf recommend bias --user 1 --titles BAD"):
        if "recommend" in line:
            assert MAINS["jaxcf"](["train", "bias", "--out", "bias", "--quiet", "--ratings", "ratings"]) == 0
        found = complaint(line.replace("BAD", str(compressed / name)))
        assert "becomes more than 100 times larger when it is read" in found
        assert "--max-expansion" in found
    found = complaint(f"jaxcf train bias --out o --max-expansion 1000000 --ratings {compressed / name}")
    assert "times larger" not in found


def test_limits_are_no_part_of_a_training(place):
    argv = ["train", "lbl", "--epochs", "1", "--num-features", "2", "--train", "text", "--out", "o", "--quiet"]
    assert MAINS["jaxlm"]([*argv, "--max-line-mb", "7", "--max-expansion", "9"]) == 0
    assert "max_line" not in (place / "o/config.json").read_text()
    assert MAINS["jaxlm"]([*argv, "--resume"]) == 0


def npz(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, member in members.items():
            array = io.BytesIO()
            if isinstance(member, bytes):
                array.write(member)
            else:
                np.save(array, member)
            file.writestr(f"{name}.npy", array.getvalue())
    return content.getvalue()


def header(shape):
    text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


SMALL_TREE = np.array([[1, -1], [-2, -3]], np.int32)
TREES = {
    "10^12 words": (npz(version=1, num_words=10**12, children=SMALL_TREE), "1000000000000 words, but there are only 3"),
    "words beyond 64 bits": (npz(version=1, num_words=np.float64(1e30), children=SMALL_TREE), "not a tree file"),
    "10^12 nodes": (npz(version=1, num_words=3, children=header("(1000000000000, 2)")), "declares int32"),
    "no array": (npz(version=1, num_words=3, children=b"hello"), "not a tree file"),
    "versions": (npz(version=[1, 2], num_words=3, children=SMALL_TREE), "not a tree file"),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_of_declared_sizes_are_refused(place, complaint, name):
    content, message = TREES[name]
    Path("tree.npz").write_bytes(content)
    assert message in complaint("jaxlm train hlbl --train text --out o --tree tree.npz")


ARPA = {
    f"ngram 1={'9' * 5000}": "expected ngram 1=<number>, found 'ngram 1=9999",
    f"ngram 1={'9' * 12}": "only 2 of 999999999999 1-grams",
    f"ngram {'1' * 5000}=2": "expected ngram 1=<number>",
}


@pytest.mark.parametrize("count", ARPA)
def test_counts_of_arpa_files_are_held_against_their_lines(place, complaint, count):
    Path("lm.arpa").write_text(f"\\data\\\n{count}\n\n\\1-grams:\n-1 a\n-1 </s>\n\n\\end\\\n")
    assert ARPA[count] in complaint("jaxlm score lm.arpa text")


def test_a_message_about_many_columns_is_one_short_line(place, complaint):
    Path("wide").write_text(",".join(f"column{i}" for i in range(10**5)) + "\n")
    found = complaint("jaxcf train bias --out o --ratings wide")
    assert found.startswith("jaxcf: the columns cannot be identified: column0, ")
    assert found.endswith(
        " (wide, line 1) - name or number those of user, item and stars, in this order: --columns USER,ITEM,STARS"
    )


@pytest.mark.parametrize(
    "line",
    [
        f"jaxlm train lbl --out o --rate {'1' * 10**6}x",
        f"jaxlm train lbl --out o --{'x' * 10**6}",
        f"jaxlm {'x' * 10**6}",
        f"jaxlm train kn --out o --train {'n' * 300}",
        "jaxlm train kn --out o --train text --vocab words",
        f"jaxcf train bias --out o --ratings ratings --delimiter {'ab' * 10**6}",
    ],
    ids=["value", "option", "command", "name", "word", "delimiter"],
)
def test_messages_about_long_things_are_one_short_line(place, complaint, line):
    Path("words").write_text(f"{'w' * 10**6}\n" * 2)
    assert "…" in complaint(line)
