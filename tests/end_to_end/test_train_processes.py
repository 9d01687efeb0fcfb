"""`jaxlm train` in two processes: the whole way, with the model that the tree is built from, as in one process."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import jaxlm
from jaxlm.cli.main import main


@pytest.mark.extended
def test_two_processes_train_a_model_over_a_learned_tree_as_one_does(tmp_path, capsys):
    draw = np.random.default_rng(0)
    lines = [" ".join(f"w{(i + k) % 20}" for k in range(6)) for i in draw.integers(20, size=200)]
    text = tmp_path / "text"
    text.write_text("\n".join(lines) + "\n")
    one, two = tmp_path / "one", tmp_path / "two"
    small = ["--num-features", "4", "--context-size", "2", "--epochs", "1", "--batch-size", "500"]
    command = ["train", "hlbl", "--train", str(text), "--test", str(text), *small, "--json"]
    with socket.socket() as server:
        server.bind(("localhost", 0))
        port = server.getsockname()[1]
    meet = ["--coordinator", f"localhost:{port}", "--num-processes", "2", "--process-id"]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "jaxlm.cli.main", *command, "--out", two, *meet, me],
            env={**os.environ, "JAX_PLATFORMS": "cpu"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for me in ("0", "1")
    ]  # fmt: skip
    assert main([*command, "--out", str(one), "--devices", "2"]) == 0
    expected = json.loads(capsys.readouterr().out)
    (printed, _), (silent, nothing) = (process.communicate(timeout=240) for process in both)
    assert [process.returncode for process in both] == [0, 0]

    assert nothing == ""
    assert all(line.startswith("[Gloo]") for line in silent.splitlines())
    assert json.loads(printed.splitlines()[-1])["test"] == expected["test"]
    for name in ("journal.jsonl", "bootstrap/journal.jsonl"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    a, b = jaxlm.load(one), jaxlm.load(two)
    np.testing.assert_array_equal(a.structure.children, b.structure.children)
    for name, value in a.params._asdict().items():
        np.testing.assert_array_equal(value, getattr(b.params, name))
    assert sorted(p.name for p in one.iterdir()) == sorted(p.name for p in two.iterdir())
