"""Trainings that are killed at random moments: one line, in bounded time, and --resume gives the same model."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jaxlm
from small_models import write_text

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP", signal.SIGKILL: None}
MOMENTS = ["lbl: validation text", "lbl: epoch"]  # lines: before its structure is compiled, within the training
SECONDS = 20.0  # in which a process ends; two for a chunk, and the others for a busy machine


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("texts")
    train, valid = (write_text(folder / f"{name}.txt", seed) for seed, name in enumerate(["train", "valid"]))
    return ["--train", train, "--valid", valid]


def start(texts: list[str], out: Path) -> subprocess.Popen:
    """Start a training of about two seconds that saves itself several times a second."""
    options = "--num-features 6 --context-size 2 --batch-size 100 --epochs 100 --checkpoint-minutes 0.003 --resume"
    command = [sys.executable, "-m", "jaxlm.cli.main", "train", "lbl", *texts, *options.split(), "--out", str(out)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )


def kill(process: subprocess.Popen, sent: signal.Signals, moment: str, delay: float) -> bool:
    """Send a signal some time after a line was printed; whether the training ended by it, and not before."""
    assert process.stderr is not None
    said = next((line for line in process.stderr if line.startswith(moment)), "")
    assert said, f"{moment} was not said"
    time.sleep(delay)
    process.send_signal(sent)
    began = time.monotonic()
    _, rest = process.communicate(timeout=SECONDS)
    if process.returncode == 0:
        return False
    name = NAMES[sent]
    lines = [line for line in rest.splitlines() if not line.startswith("lbl: ")]
    if name is None:
        assert process.returncode == -sent
        assert lines == []
    else:
        assert process.returncode == 128 + sent, rest
        assert len(lines) == 1, rest
        assert lines[0].startswith(f"jaxlm: stopped by {name}")
        # before the training proper, or after it, there is nothing to go on with
        anew = f"jaxlm: stopped by {name} - give the same command again to begin anew"
        assert "--resume to go on" in lines[0] or lines[0] in (f"jaxlm: stopped by {name}", anew)
    assert time.monotonic() - began < SECONDS
    return True


@pytest.fixture(scope="module")
def whole(texts, tmp_path_factory) -> Path:
    """Return the model of a training that nothing happened to."""
    out = tmp_path_factory.mktemp("whole") / "lbl"
    process = start(texts, out)
    assert process.wait(120) == 0, process.communicate()[1]
    process.communicate()
    return out


def kill_often(signals: list[signal.Signals], texts: list[str], whole: Path, out: Path, seed: int) -> None:
    """Kill a training by these signals, resume it each time, and compare it with one that was not killed."""
    draw, ended = random.Random(seed), 0
    for sent in signals:
        with start(texts, out) as process:
            ended += kill(process, sent, draw.choice(MOMENTS), draw.uniform(0, 0.3))
    assert ended, "every training had ended before it was killed"
    with start(texts, out) as process:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    for name in ("journal.jsonl", "config.json", "vocabulary.txt"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    killed, trained = jaxlm.load(out), jaxlm.load(whole)
    for one, other in zip(killed.params, trained.params, strict=True):
        np.testing.assert_array_equal(one, other)
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in whole.iterdir())


@pytest.mark.extended
def test_a_training_that_is_killed_by_each_signal_equals_an_uninterrupted_one(texts, whole, tmp_path):
    kill_often(list(NAMES), texts, whole, tmp_path / "lbl", seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("sent", NAMES, ids=lambda sent: sent.name)
def test_ten_kills_by_a_signal(sent, texts, whole, tmp_path):
    kill_often([sent] * 10, texts, whole, tmp_path / "lbl", seed=2)


@pytest.mark.parametrize("model", ["kn", "pmf --solver als"])
def test_a_model_that_is_not_trained_step_by_step_ends_in_one_line(model, tmp_path):
    """Within reading, from standard input that never ends."""
    program = "jaxcf" if "pmf" in model else "jaxlm"
    files = ["--ratings" if program == "jaxcf" else "--train", "-"]
    command = [sys.executable, "-m", f"{program}.cli.main", "train", *model.split(), *files, "--out", "m"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        process.stdin.write(b"1 2 3\n" * 20_000)  # more than a pipe holds: it returns once some is read
        process.stdin.flush()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=SECONDS)
        said = process.stderr.read().decode()
    assert process.returncode == 143
    assert [line for line in said.splitlines() if line.startswith(f"{program}: ")] == [f"{program}: stopped by SIGTERM"]
    assert list(tmp_path.iterdir()) == []
