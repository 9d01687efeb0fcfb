"""`jaxcf train`: what it prints and writes; in a folder that holds a model, after a divergence, for more epochs."""

import errno
import fcntl
import json
import os
import re
import shlex
import sys

import jax
import numpy as np
import pytest

import jaxcf
from jaxcf.cli import main as cli
from jaxfit import validation
from jaxfit.run_dir import checkpoint, metadata, replacement


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Train pmf on ratings of 40 users and 20 items; its exit status, standard output and standard error."""
    draws = np.random.default_rng(0)
    rows = [f"{user},{item},{draws.integers(1, 6)}\n" for user in range(40) for item in draws.permutation(20)[:8]]
    for name, part in (("one", rows[::2]), ("two", rows[1::2])):
        (tmp_path / f"{name}.csv").write_text("".join(["user,item,rating\n", *part]))
    monkeypatch.chdir(tmp_path)

    def run(*options, out="model", model="pmf"):
        argv = ["train", model, "--ratings", "one.csv", "--valid", "two.csv", "--out", out]
        argv += [] if model in ("user-bias", "wmf") else ["--batch-size", "50"]
        status = cli.main([*argv, *map(str, options)])
        return status, *capsys.readouterr()

    return run


CONSTANT = ("--no-anneal", "--patience", 9)


def journal(out):
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


def test_a_training_that_diverged_can_begin_anew(train, tmp_path, monkeypatch):
    status, _, err = train("--rate", 1e30)
    assert status == 2
    assert err.splitlines()[-1].endswith("begin anew with a lower --rate")
    assert train("--epochs", 1)[0] == 0
    # after an epoch, whose parameters are kept until others are there
    scores = iter([1.0, np.nan])
    monkeypatch.setattr(validation.Validation, "mean", lambda *_: next(scores))
    status, _, err = train(*CONSTANT, "--checkpoint-minutes", 0, out="late")
    assert status == 2
    assert "not finite after step" in err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert checkpoint.every(tmp_path / "late")
    assert train("--rate", 1e30, out="late")[0] == 2
    assert checkpoint.every(tmp_path / "late")
    assert train("--epochs", 1, out="late")[0] == 0
    assert jaxcf.load("late").info["recipe"]["rate"] == {"*": 0.03}
    assert not (tmp_path / ".late.next").exists()


def test_a_replaced_model_stays_until_the_new_one_is_trained(train, tmp_path):
    assert train("--epochs", 1)[0] == 0
    before = (tmp_path / "model" / "config.json").read_bytes()
    for options in (("--rate", 1e30), ("--scale", "1,2,1"), ("--max-minutes", 0)):
        train("--overwrite", *options)
        assert (tmp_path / "model" / "config.json").read_bytes() == before
    assert train("--overwrite", "--resume")[0] == 0  # goes on with the last
    assert len(journal(tmp_path / "model")) == 25
    status, _, err = train("--overwrite", "--epochs", 2)
    assert status == 0
    assert "pmf: model stays as it is until its new model has been trained" in err
    assert len(journal(tmp_path / "model")) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"one.csv", "two.csv", "model"}


def test_a_replacement_that_saved_nothing_leaves_no_trace(train, tmp_path):
    assert train("--epochs", 1, *CONSTANT)[0] == 0
    for options in (("--scale", "1,2,1"), ("--rate", 1e30)):
        assert train("--overwrite", *options)[0] == 2
        assert not (tmp_path / ".model.next").exists()
    assert train("--epochs", 2, *CONSTANT, "--resume")[0] == 0  # of the old model
    assert len(journal(tmp_path / "model")) == 2


def test_two_trainings_do_not_replace_the_same_model(train, tmp_path):
    assert train("--epochs", 1)[0] == 0
    assert train("--overwrite", "--max-minutes", 0)[0] == 0
    kept = set((tmp_path / ".model.next").rglob("*"))
    descriptor = os.open(tmp_path / "model", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as another process does that trains
    status, _, err = train("--overwrite")
    os.close(descriptor)
    assert status == 2
    assert "another process is training there (model)" in err
    assert set((tmp_path / ".model.next").rglob("*")) == kept


def test_models_beside_each_other_are_not_taken_for_one(train, tmp_path):
    for name in ("one", "two"):
        assert train(out=f"runs/{name}", model="user-bias")[0] == 0
    status, _, err = train("--overwrite", out="runs", model="user-bias")
    assert status == 2
    assert "the folder has files, but no model (runs) - choose another --out" in err
    assert train("--rate", 1e30, out="runs/three")[0] == 2
    assert train(out="runs", model="user-bias")[0] == 0
    assert (tmp_path / "runs" / "three" / "config.json").exists()


@pytest.mark.parametrize(("model", "scores"), [("pmf", ["rmse_clipped", "ratings"]), ("wmf", ["ndcg@10"])])
def test_a_test_changes_nothing_and_is_evaluated_as_by_eval(train, tmp_path, capsys, model, scores):
    """Its users and items that training lacks are unknown ones, not rows of the tables."""
    (tmp_path / "test.csv").write_text("user,item,rating\n0,1,5\n1,new,2\nnew,3,4\nnewer,newer,1\n2,19,3\n")
    status, _, err = train("--epochs", 2, out="without", model=model)
    assert status == 0, err
    _, out, _ = train("--epochs", 2, "--test", "test.csv", "--json", out="with", model=model)
    one, other = (jaxcf.load(name) for name in ("without", "with"))
    assert jax.tree.map(np.shape, one.params) == jax.tree.map(np.shape, other.params)
    jax.tree.map(np.testing.assert_array_equal, one.params, other.params)
    assert cli.main(["eval", "with", "--ratings", "test.csv", "--json"]) == 0
    by_eval = json.loads(capsys.readouterr().out)
    assert [json.loads(out)["test"][score] for score in scores] == [by_eval[score] for score in scores]
    if model == "pmf":
        assert train("--epochs", 2, "--resume", out="with")[0] == 0


def test_a_note_says_that_a_model_stays_where_that_takes_a_while(train):
    note = "stays as it is until"
    assert train("--rate", 1e30)[0] == 2
    assert note not in train("--epochs", 1)[2]
    assert note in train("--epochs", 1, "--overwrite")[2]
    status, _, err = train("--overwrite", model="user-bias")
    assert status == 0
    assert note not in err


def test_results_are_printed_once_they_are_in_place(train, monkeypatch):
    def fail(new, directory):
        raise OSError(errno.EACCES, "permission denied")

    assert train("--epochs", 1)[0] == 0
    monkeypatch.setattr(replacement, "put", fail)
    status, out, _ = train("--epochs", 1, "--overwrite")
    assert (status, out) == (2, "")


def test_why_a_training_had_finished_is_said(train):
    early = ("--no-anneal", "--patience", 1, "--rate", 0.5)
    assert train("--epochs", 80, *early)[0] == 0
    status, out, _ = train("--epochs", 90, *early, "--resume")
    assert status == 0
    assert re.search(r"had finished before: it ended after \d+ epochs, the last 1 without improvement", out)


@pytest.mark.parametrize(("options", "used"), [([], False), (["--no-anneal"], True)])
def test_a_patience_is_shown_where_it_is_used(train, tmp_path, capsys, options, used):
    assert train("--epochs", 1, *options)[0] == 0
    assert cli.main(["info", "model"]) == 0
    assert ("patience 1" in capsys.readouterr().out) == used
    assert ("| recipe: patience | 1 |" in (tmp_path / "model" / "README.md").read_text()) == used
    with pytest.raises(SystemExit):
        cli.main(["train", "pmf", "--help-all"])
    assert "default: 250 in thesis, 1 in tuned, with --no-anneal" in " ".join(capsys.readouterr().out.split())


def test_an_item_is_named_as_those_like_it(train, capsys):
    assert train("--epochs", 1)[0] == 0
    assert cli.main(["similar", "model", "--item", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {type(item) for item in (answer["item"], answer["similar"][0]["item"])} == {int}


def test_files_that_are_named_one_by_one_add_up(train, tmp_path):
    assert train("--epochs", 1, "--ratings", "two.csv", "--valid", "one.csv", "--duplicates", "mean")[0] == 0
    described = jaxcf.load("model").info["data"]
    assert (described["training ratings"], described["validation ratings"]) == (320, 320)


@pytest.mark.parametrize("model", ["pmf", "rbm"])
def test_more_epochs_equal_as_many_at_once(train, tmp_path, model):
    one, other = tmp_path / "one", tmp_path / "other"
    assert train("--epochs", 3, *CONSTANT, out="one", model=model)[0] == 0
    assert len(checkpoint.every(one)) == 1
    for epochs in (5, 5):
        assert train("--epochs", epochs, *CONSTANT, "--resume", out="one", model=model)[0] == 0
    assert train("--epochs", 5, *CONSTANT, out="other", model=model)[0] == 0
    for name in ("config.json", "journal.jsonl", "known.npz", "catalogue.npz"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    for a, b in zip(*(jax.tree.leaves(jaxcf.load(out).params) for out in (one, other)), strict=True):
        np.testing.assert_array_equal(a, b)
    status, _, err = train("--epochs", 4, *CONSTANT, "--resume", out="one", model=model)
    assert status == 2
    assert "5 epochs are trained already (one) - give --epochs 5 or more" in err


@pytest.mark.parametrize("changed", [True, False])
def test_a_journal_that_was_changed_is_said_when_training_goes_on(train, tmp_path, changed):
    said = "journal.jsonl: it is missing or changed: what is shown of the epochs may be wrong"
    path = tmp_path / "model" / "journal.jsonl"
    assert train("--epochs", 2, *CONSTANT)[0] == 0
    if changed:
        path.write_text(path.read_text().replace('"epoch": 0', '"epoch": 7'))
    status, _, err = train("--epochs", 3, *CONSTANT, "--resume")
    assert status == 0
    assert (said in err) == changed


def test_more_epochs_need_a_checkpoint(train, tmp_path):
    """As of a model that an earlier version finished."""
    assert train("--epochs", 1, *CONSTANT)[0] == 0
    metadata.drop_checkpoints(tmp_path / "model")
    status, _, err = train("--epochs", 2, *CONSTANT, "--resume")
    assert status == 2
    assert "no checkpoint is left from which a training of 1 epochs could go on" in err


def test_what_a_kill_left_of_a_checkpoint_is_removed(train, tmp_path):
    assert train("--epochs", 1, *CONSTANT)[0] == 0
    before = sorted((tmp_path / "model").iterdir())
    for kind in ("new", "old"):
        (tmp_path / "model" / f".checkpoint-00000030.{kind}-88d8172e9cb3").mkdir()
        (tmp_path / "model" / ".checkpoint-00000030.new-88d8172e9cb3.lock").touch()
        assert train("--epochs", 1, *CONSTANT, "--resume")[0] == 0
        assert sorted((tmp_path / "model").iterdir()) == before


def test_a_schedule_of_steps_does_not_go_on_for_more_epochs(train):
    options = "--cd-steps", "1,2", *CONSTANT
    assert train("--epochs", 1, *options, model="rbm")[0] == 0
    status, _, err = train("--epochs", 2, *options, "--resume", model="rbm")
    assert status == 2
    assert "what its steps do is scheduled over all epochs, 1 there and 2 here" in err


def test_a_cosine_does_not_go_on_for_more_epochs(train, tmp_path):
    assert train("--epochs", 2, "--checkpoint-minutes", 0)[0] == 0
    assert not checkpoint.every(tmp_path / "model")  # but in training
    status, _, err = train("--epochs", 3, "--resume")
    assert status == 2
    assert "its rate falls as a cosine over all epochs, 2 there and 3 here" in err


def test_a_log_says_metrics_rate_and_times(train):
    status, out, err = train("--epochs", 2)
    assert status == 0
    number = r"\d\.\d{4}"
    said = rf"pmf: epoch 2 of 2, RMSE {number} on training, RMSE {number} on validation, rate 0\.00114, "
    assert re.fullmatch(said + r"\d:\d\d elapsed, 0:00 left", err.splitlines()[-1])
    assert "at most 0:0" in train("--epochs", 2, *CONSTANT, "--overwrite")[2]
    again = train("--epochs", 2, "--quiet", "--overwrite")
    assert again[::2] == (0, "")
    assert again[1].splitlines()[:2] == out.splitlines()[:2]  # results, but for their times


def test_with_json_standard_output_is_one_object(train, capsys):
    status, out, err = train("--epochs", 2, "--json")
    assert status == 0
    assert json.loads(out)["epochs"] == 2
    assert "epoch 2" in err
    assert cli.main(["info", "model", "--json", "--plot", "curve.svg"]) == 0
    found = json.loads(capsys.readouterr().out)
    shown = [line["shown"]["validation RMSE"] for line in found["history"]]
    assert min(shown) == pytest.approx(found["validation RMSE"])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_learning_curve_is_drawn(train, tmp_path, capsys, suffix):
    assert train("--epochs", 2)[0] == 0
    assert cli.main(["info", "model", "--plot", f"curve.{suffix}"]) == 0
    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert (tmp_path / f"curve.{suffix}").read_bytes().startswith(beginning)


@pytest.mark.parametrize(
    ("out", "said"),
    [("curve.gif", "name a file that ends in .png, .svg, .pdf"), ("curve.png", "pip install -e '.[benchmarks]'")],
)
def test_what_keeps_a_curve_from_being_drawn_is_one_line(train, capsys, monkeypatch, out, said):
    assert train("--epochs", 1)[0] == 0
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["info", "model", "--plot", out]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("pmf", ["--epochs", "1"], ["| recipe: epochs | 1 |", "| jaxlib | ", "| seed | 1 |"]),
        ("pmf", ["--solver", "als", "--epochs", "1"], ["| solver | als |"]),
        ("bias", [], ["| sha256 | "]),
    ],
)
def test_a_model_card_says_what_a_model_is(train, tmp_path, capsys, model, options, said):
    argv = ["train", model, "--ratings", "one.csv", "--test", "two.csv", "--out", "model", *options]
    assert cli.main(argv) == 0
    text = (tmp_path / "model" / "README.md").read_text()
    for part in (f"# {model}: ", "jaxcf.load('model')", "| training ratings | ", "| rmse_clipped | ", *said):
        assert part in text
    (tmp_path / "model" / "README.md").write_text("mine")
    python = text.partition("```python")[2].partition("```")[0]
    exec(python, {})  # a changed card is no damage


def test_a_card_is_not_written_over_by_a_training_that_had_finished(train, tmp_path):
    assert train("--epochs", 1)[0] == 0
    card = tmp_path / "model" / "README.md"
    card.write_text("mine")
    assert train("--epochs", 1, "--resume")[0] == 0
    assert card.read_text() == "mine"


def test_the_commands_of_a_card_can_be_pasted(tmp_path):
    (tmp_path / "r.csv").write_text('user,item,rating\nO\'Neill & co,"say ""hi""",5\nO\'Neill & co,it\'s,3\n')
    place = tmp_path / "my model's"
    assert cli.main(["train", "user-bias", "--ratings", str(tmp_path / "r.csv"), "--out", str(place)]) == 0
    text = (place / "README.md").read_text()
    shell, python = (text.partition(f"```{language}\n")[2].partition("```")[0] for language in ("sh", "python"))
    assert shlex.split(shell)[-4:] == ["recommend", str(place), "--user", "O'Neill & co"]
    exec(python, {})


@pytest.mark.parametrize("line", ["{}", '{"epoch": 0, "valid": null}', '{"epoch": 1, "valid": 1.0, "shown": 3}'])
def test_lines_of_a_journal_that_are_no_epochs_are_left_out(train, tmp_path, capsys, line):
    assert train("--epochs", 1)[0] == 0
    with (tmp_path / "model" / "journal.jsonl").open("a") as file:
        file.write(line + "\n")
    assert cli.main(["info", "model", "--plot", "curve.svg", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["history"]) == 1 + ("shown" in line)
