"""Files, and pairs of words, larger than the memory that a process may use train to the same result as in memory."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

MB = 1 << 20
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "ARROW_IO_THREADS", "NPROC"), "2")  # each has a stack, which counts
RATINGS = ["train", "pmf", "--num-features", "4", "--epochs", "1", "--batch-size", "4096", "--rate", "0.01", "--quiet"]
TEXT = ["train", "lbl", "--num-features", "2", "--epochs", "1", "--batch-size", "32768", "--quiet"]
PAIRS = ["train", "glove", "--num-features", "2", "--epochs", "1", "--batch-size", "4096", "--quiet"]
RUN = """
import importlib, resource, sys
from pathlib import Path
from jaxcf.data import reading, values
from jaxcf.data.formats import text_pieces
from jaxfit.minibatches import epochs, streaming
from jaxfit.files import large_arrays
from jaxlm.data import cooccurrence, encoding, files, user_text

name, limit, command, train, valid, small = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(), *sys.argv[4:]
main = importlib.import_module(f"{name}.cli.main").main
given = "--ratings" if name == "jaxcf" else "--train"
# what is held at a time, in proportion to the size of the files; these numbers decide the order of pairs of words
large_arrays.PIECE = cooccurrence.PIECE = 1 << 16
cooccurrence.CHUNK = cooccurrence.LARGEST = 1 << 17
if limit:
    reading.LARGE = user_text.LARGE = epochs.WINDOW = 1 << 16
    text_pieces.BYTES_AT_ONCE = files.CHUNK = encoding.CHUNK = 1 << 18
    values.RATINGS_AT_ONCE = 1 << 20
    streaming.BLOCK_BYTES = 1 << 18
    # what is loaded is there
    assert main([*command, given, small, "--valid", valid, "--out", "small"]) == 0
    status = Path("/proc/self/status").read_text().splitlines()
    taken = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (taken + limit * (1 << 20),) * 2)
sys.exit(main([*command, given, train, "--valid", valid, "--out", "model"]))
"""


def ratings(place: Path) -> None:
    """Write 6 million ratings, 64 MB, of distinct pairs in a mixed order; users come back all over the file."""
    users, items = 3000, 2000
    pair = np.arange(users * items) * 7919 % (users * items)
    user, item = np.divmod(pair, items)
    table = pa.table({"user": user + 10_000, "item": item, "stars": 1 + (user * 7 + item * 3) % 5})
    for name, number in (("train", len(pair)), ("small", 5000), ("valid", 5000)):
        pcsv.write_csv(table.slice(0, number), place / name)


def text(place: Path) -> None:
    """Write eight million words, 120 MB."""
    words = [f"{letter * 14} " for letter in "abcdefgh"]
    rng = np.random.default_rng(0)
    lines = ["".join(words[k] for k in rng.integers(0, 8, 20)).rstrip() + "\n" for _ in range(4000)]
    for name, number in (("train", 100), ("small", 1), ("valid", 1)):
        with (place / name).open("w") as file:
            for k in range(number):
                file.writelines(lines[k * 37 % 4000 :] + lines[: k * 37 % 4000])


def pairs(place: Path) -> None:
    """Write 300,000 words of which six million pairs, 96 MB, are near one another."""
    rng = np.random.default_rng(0)
    for name, number in (("train", 300_000), ("small", 30_000), ("valid", 30_000)):
        words = rng.integers(0, 20_000, (number // 100, 100))
        (place / name).write_text("".join(" ".join(f"w{word}" for word in line) + "\n" for line in words))


@pytest.mark.parametrize(
    ("name", "command", "write", "room"),
    [
        pytest.param("jaxcf", RATINGS, ratings, 70, marks=pytest.mark.extended),
        pytest.param("jaxcf", [*RATINGS, "--devices", "2", "--stream"], ratings, 70, marks=pytest.mark.slow),
        pytest.param("jaxlm", TEXT, text, 110, marks=pytest.mark.slow),
        pytest.param("jaxlm", PAIRS, pairs, 90, marks=pytest.mark.extended),
    ],
)
def test_data_larger_than_the_memory_train_to_the_same_result(name, command, write, room, tmp_path):
    """Memory for data is limited to `room` MB beyond what the same command has taken with a small file."""
    write(tmp_path)
    assert write is pairs or (tmp_path / "train").stat().st_size > room * MB

    def train(folder: str, limit: int) -> Any:
        place = tmp_path / folder
        place.mkdir()
        files = [str(tmp_path / part) for part in ("train", "valid", "small")]
        done = subprocess.run(
            [sys.executable, "-c", RUN, name, str(limit), " ".join(command), *files],
            cwd=place, env=os.environ | THREADS, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return jax.device_get(importlib.import_module(name).load(place / "model").params)

    jax.tree.map(np.testing.assert_array_equal, train("limited", room), train("unlimited", 0))
