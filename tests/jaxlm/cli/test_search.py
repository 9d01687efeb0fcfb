"""`jaxlm search`: trials are ordinary trainings, judged by perplexity of validation text."""

import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from jaxlm.cli.main import main
from small_models import write_text


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    for seed, name in enumerate(["train", "valid"]):
        write_text(tmp_path / f"{name}.txt", seed)
    monkeypatch.chdir(tmp_path)


DATA = ("--train", "train.txt", "--valid", "valid.txt")


def found_by(call, *argv):
    return json.loads(call("search", *argv, "--json").splitlines()[-1])


@pytest.mark.parametrize(
    ("model", "options", "tried"),
    [
        ("kn", [], ["--try", "order=1,2,3", "--try", "interpolated=yes,no"]),
        (
            "lbl",
            ["--num-features", "3", "--context-size", "1", "--batch-size", "100", "--epochs", "1"],
            ["--try", "rate=0.1..0.9", "--try", "decay=1e-5..1e-3", "--trials", "2"],
        ),
    ],
)
def test_the_best_is_that_of_separate_trainings(call, model, options, tried):
    found = found_by(call, model, *DATA, *options, *tried, "--out", "s")
    assert found["measure"] == "validation perplexity"
    scores = {}
    for trial in found["trials"]:
        words = shlex.split(trial["train"])[1:-1]
        result = json.loads(call(*words, f"own/{trial['trial']}", "--json").splitlines()[-1])
        scores[trial["trial"]] = result["valid"]["perplexity"]
        assert trial["score"] == result["valid"]["perplexity"]
        assert result["config"] == json.loads(Path(f"s/{trial['trial']}/config.json").read_text())["config"]
    assert found["best"]["trial"] == min(scores, key=scores.get)


def test_a_table_names_the_best_and_its_command(call):
    out = call("search", "kn", *DATA, "--try", "order=1,2", "--out", "s").splitlines()
    assert out[0].split() == ["trial", "order", "validation", "perplexity", "seconds"]
    first, second = (float(line.split()[2]) for line in out[1:3])
    assert first < second
    assert out[3:] == [
        f"best: s/{out[1].split()[0]}, made by", f"jaxlm train kn {shlex.join(DATA)} --order {out[1].split()[1]} "
        f"--out s/{out[1].split()[0]}",
    ]  # fmt: skip


def test_trials_of_standard_input_are_not_gone_on_with_as_its_text_may_be_another(capsys, monkeypatch, tmp_path):
    def search(*options):
        content = io.BytesIO((tmp_path / "train.txt").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(content)))
        return main(["search", "kn", "--train", "-", *DATA[2:], "--try", "order=1,2", "--out", "s", *options])

    assert search("--trials", "1") == 0
    assert search("--trials", "2", "--resume") == 2
    assert "trials there cannot be resumed, as the data come from a pipe and may have changed (-) - give files" in (
        capsys.readouterr().err
    )


def test_a_trial_whose_options_contradict_fails_and_the_others_do_not(call):
    tried = ["--try", "num-features=4,3", "--num-hidden", "4", "--batch-size", "4", "--epochs", "1"]
    best, worst = found_by(call, "rnn", *DATA, *tried, "--out", "s")["trials"]
    assert (best["settings"], best["ended"]) == ({"num-features": 4}, "done")
    assert worst["ended"] == "failed"
    assert "feature vectors of 3 numbers cannot be those of 4 units" in worst["error"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["kn", "--train", "train.txt", "--try", "order=2"],
            "kn does not hold out validation text (--valid is missing)",
        ),
        (["kn", *DATA, "--try", "vocab_size=20"], "--vocab-size is no option of the model or its training"),
        (["kn", *DATA, "--try", "ordr=2"], "did you mean --order?"),
        (["unigram", *DATA, "--try", "order=2"], "unigram has no option to try"),
        (["skipgram", *DATA, "--try", "rate=0.1"], "skipgram has no perplexity to compare trials by"),
        (["lbl", *DATA, "--try", "tree=random"], "no effect|has no tree"),
    ],
)
def test_mistakes_are_one_line(argv, said, capsys, tmp_path):
    assert main(["search", *argv, "--out", "s"]) == 2
    err = capsys.readouterr().err
    assert any(part in err for part in said.split("|")), err
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()
