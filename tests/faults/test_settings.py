"""Settings that cannot be: refused before anything runs, or by a training that says so as soon as it diverges."""

import math
import os

import pytest

import jaxcf.cli.main
import jaxlm.cli.main
from jaxcf import training as train_ratings
from jaxcf.data import reading
from jaxfit.devices import memory
from jaxfit.errors import UserError
from jaxlm import training as train_words
from jaxlm.data import user_text

MAINS = {"jaxlm": jaxlm.cli.main.main, "jaxcf": jaxcf.cli.main.main}
BAD = {
    "jaxlm train lbl": {
        "--rate": ["nan", "inf", "-1", "R=nan", "0.1,b=-1", "1e39"],
        "--decay": ["nan", "inf", "-1", "R=-1"],
        "--drops": ["0.1,nan", "-0.5", "inf"],
        "--dropout": ["nan", "1", "-0.1"],
        "--init-scale": ["nan", "inf", "-1"],
        "--seed": ["-1", str(2**32), str(2**64), "1.5"],
        "--epochs": ["0", "-1", str(10**12)],
        "--batch-size": ["0", str(10**12)],
        "--num-features": ["0", str(10**12)],
        "--context-size": ["0", str(10**12)],
        "--max-minutes": ["nan", "inf", "-1"],
        "--checkpoint-minutes": ["nan", "inf", "-1"],
        "--devices": ["0", "100000"],
        "--vocab-size": ["2", str(10**12)],
        "--max-expansion": ["0", "x"],
    },
    "jaxlm train hlbl": {"--epsilon": ["nan", "0.6", "-1"], "--copies": ["0", str(10**6)]},
    "jaxlm train nplm": {"--feature-dropout": ["nan", "1"], "--num-hidden": ["0", str(10**12)]},
    "jaxlm train kn": {"--order": ["0", str(10**12)], "--min-count": ["0"]},
    "jaxcf train bias": {"--decay-users": ["nan", "inf", "-1"], "--decay-items": ["nan"], "--skip-bad": ["-1"]},
    "jaxcf train cpmf": {"--block": ["-1"], "--rate": ["Y=nan"]},
    "jaxcf train rbm": {"--center": ["nan"], "--smooth": ["nan", "-1"], "--cd-steps": ["0", "1.5", "nan"]},
}
CASES = [(f"{c} {o}={v}", o) for c, options in BAD.items() for o, values in options.items() for v in values]


@pytest.mark.parametrize(("line", "option"), CASES, ids=[line for line, _ in CASES])
def test_options_out_of_their_bounds_are_refused_before_any_file_is_read(tmp_path, capsys, line, option):
    program, *argv = line.split()
    data = "--train" if program == "jaxlm" else "--ratings"
    assert MAINS[program]([*argv, data, str(tmp_path / "no such file"), "--out", str(tmp_path / "o")]) == 2
    found = capsys.readouterr().err
    assert found.count("\n") == 1
    assert f"({option})" in found
    assert not (tmp_path / "o").exists()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text("".join(f"{'abcdefgh'[i % 8]} {'abcdefgh'[i * 5 % 8]} c d\n" for i in range(40)))
    return path


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    path = tmp_path_factory.mktemp("ratings") / "ratings"
    path.write_text("".join(f"{u},{i},{1 + (u * i) % 5}\n" for u in range(30) for i in range(8)))
    return path


def test_python_refuses_what_the_commands_refuse(tmp_path, text, ratings):
    corpus = user_text.from_files([str(text)]).corpus
    data = reading.read_dataset([str(ratings)], [str(ratings)]).dataset
    for config in ({"init_scale": math.nan}, {"dropout": 1.0}, {"num_features": 0}, {"context_size": 1.5}):
        with pytest.raises(UserError, match=f"invalid value .* \\(--{next(iter(config)).replace('_', '-')}\\)"):
            train_words.train("lbl", corpus, tmp_path / "o", config=config)
    for config in ({"init_scale": -1.0}, {"num_features": 10**12}):
        with pytest.raises(UserError, match="invalid value"):
            train_ratings.train("pmf", data, tmp_path / "o", config=config)
    for seed in (-1, 2**32, 2**64):
        with pytest.raises(UserError, match="--seed"):
            train_words.train("lbl", corpus, tmp_path / "o", seed=seed)
        with pytest.raises(UserError, match="--seed"):
            train_ratings.train("pmf", data, tmp_path / "o", seed=seed)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("jaxlm train lbl", "--num-features 1000000000"),
        ("jaxlm train nplm", "--num-hidden 2000000000"),
        ("jaxlm train hlbl --tree random", "--num-features 2000000000"),
        ("jaxcf train pmf", "--num-features 1000000000"),
        ("jaxcf train pmf --solver als", "--num-features 1000000000"),
        ("jaxcf train rbm", "--num-hidden 1000000000"),
    ],
)
def test_models_larger_than_the_memory_are_refused(tmp_path, capsys, monkeypatch, text, ratings, line, options):
    monkeypatch.setattr(memory, "available", lambda: 24 * 10**9)
    program, *argv = f"{line} {options} --quiet".split()
    data = ["--train", str(text)] if program == "jaxlm" else ["--ratings", str(ratings)]
    assert MAINS[program]([*argv, *data, "--out", str(tmp_path / "o")]) == 2
    found = capsys.readouterr().err
    assert "for the parameters and their copies, and this machine has 24 GB" in found
    assert not (tmp_path / "o/config.json").exists()


def test_a_minibatch_far_larger_than_the_data_is_refused_and_the_folder_stays_usable(tmp_path, capsys, text):
    argv = ["train", "lbl", "--train", str(text), "--out", str(tmp_path / "o"), "--epochs", "1", "--num-features", "2"]
    assert MAINS["jaxlm"]([*argv, "--batch-size", "100000"]) == 2
    assert (
        "a minibatch of 100,000 examples, and there are 190 in all (--batch-size) - give at most 1,000"
        in capsys.readouterr().err
    )
    assert MAINS["jaxlm"]([*argv, "--batch-size", "1", "--epochs", "20000000"]) == 2
    assert "3,800,000,000 steps in all, which 32 bits do not count (--epochs) - give at most" in capsys.readouterr().err
    assert MAINS["jaxlm"]([*argv, "--batch-size", "1000", "--quiet"]) == 0


DIVERGES = [
    *[("jaxlm", model, rate) for model in ("lbl", "hlbl", "nplm") for rate in ("1e3", "1e38")],
    *[("jaxcf", model, rate) for model in ("svd", "svd-bias", "pmf", "cpmf") for rate in ("1e3", "1e38")],
    *[("jaxcf", model, "1e38") for model in ("rbm", "crbm")],
]
SAMPLE = {("lbl", "1e3"), ("pmf", "1e3"), ("rbm", "1e38")}


@pytest.mark.parametrize(
    ("program", "model", "rate"),
    [pytest.param(*case, marks=() if case[1:] in SAMPLE else pytest.mark.slow) for case in DIVERGES],
)
def test_a_rate_that_diverges_at_once_leaves_no_finished_model(tmp_path, capsys, text, ratings, program, model, rate):
    data = ["--train", str(text)] if program == "jaxlm" else ["--ratings", str(ratings)]
    more = ["--tree", "random"] if model == "hlbl" else []
    argv = ["train", model, *data, *more, "--out", str(tmp_path / "o"), "--epochs", "2", "--rate", rate, "--decay", "0"]
    assert MAINS[program]([*argv, "--quiet"]) == 2
    assert "finite" in capsys.readouterr().err
    assert not (tmp_path / "o/parameters").exists()


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ("pmf --solver als --decay 1e-30", "give another --decay\n"),
        ("pmf --solver als --decay 1e38", "give another --decay\n"),
        ("wmf --alpha 1e38", "give another --decay, or a smaller --alpha\n"),
    ],
)
def test_sweeps_that_are_not_finite_leave_no_model(tmp_path, capsys, ratings, options, advice):
    argv = ["train", *options.split(), "--ratings", str(ratings), "--out", str(tmp_path / "o"), "--quiet"]
    assert MAINS["jaxcf"](argv) == 2
    assert f"sweep 1 is not finite (training) - {advice}" in capsys.readouterr().err
    assert not (tmp_path / "o/parameters").exists()
