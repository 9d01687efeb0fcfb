"""Whatever file of a model or a checkpoint is damaged: it is refused in one line, or has no part in the numbers.

Afterwards, `--resume` makes the model whole.
"""

import json
import os
import re
import warnings

import numpy as np
import pytest

import jaxcf
import jaxlm
from harm import BITS, CUTS, SAMPLE, copied, files, harmed
from jaxcf.models import REGISTRY as RATING_MODELS
from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint, manifest
from jaxlm.cli.main import main as lm
from jaxlm.models import REGISTRY as LANGUAGE_MODELS

NAMES = [*LANGUAGE_MODELS.names(), *RATING_MODELS.names()]
QUICK = [pytest.param(name, 3, 1, id=f"{name}-quick") for name in SAMPLE]
ALL = [pytest.param(name, BITS, CUTS, marks=pytest.mark.slow, id=name) for name in NAMES]
WITHOUT_PART = re.compile(
    r"README.md|scores.json|(journal|timing).jsonl|bootstrap/|checkpoint-"
)  # in a model's numbers


def outcome(answer, folder):
    """Return the numbers of a model, or None where it is refused in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return answer(folder)
        except UserError as error:
            refusal = error
    assert "\n" not in str(refusal)
    assert len(str(refusal)) <= 400
    assert refusal.do
    return None


@pytest.mark.parametrize(("name", "bits", "cuts"), [*QUICK, *ALL])
def test_a_damaged_file_of_a_model_is_refused_or_without_effect(name, bits, cuts, trained, answer, tmp_path):
    folder, rng = copied(trained(name), tmp_path / "model"), np.random.default_rng(0)
    whole = answer(folder)
    for path in files(folder):
        own = WITHOUT_PART.match(path.relative_to(folder).as_posix()) is None
        content, refused = path.read_bytes(), 0
        for number, changed in enumerate(harmed(content, bits if own else 2, cuts if own else 1, rng)):
            path.write_bytes(changed)
            found = outcome(answer, folder)
            if found is None:
                refused += 1
            else:
                np.testing.assert_array_equal(found, whole, err_msg=f"{path}, change {number}")
        path.unlink()
        assert (outcome(answer, folder) is None) == own, path
        path.write_bytes(content)
        if own and path.name != manifest.NAME:
            assert refused == bits + cuts, path
    np.testing.assert_array_equal(answer(folder), whole)


@pytest.fixture
def stopped(command, tmp_path):
    """stopped(name) -> the folder of a training that has not finished, with two checkpoints."""

    def of(name):
        out = tmp_path / "stopped"
        main, argv = command(name, out)
        for resume in ([], ["--resume"]):
            assert main([*argv, "--quiet", "--max-minutes", "1e-7", *resume]) == 0
        stage = out / "bootstrap" if (out / "bootstrap").exists() else out
        assert len(checkpoint.every(stage)) == 2
        return out, stage

    return of


NOT_SGD = {"unigram", "gt", "kn", "class-ngram", "cache", "user-bias", "item-bias", "bias", "popularity", "wmf"}
SGD = [name for name in NAMES if name not in NOT_SGD]
QUICK_SGD = [param for param in QUICK if param.values[0] in SGD]
ALL_SGD = [param for param in ALL if param.values[0] in SGD]


@pytest.mark.parametrize(("name", "bits", "cuts"), [*QUICK_SGD, *ALL_SGD])
def test_a_damaged_checkpoint_is_found_and_the_one_before_serves(
    name, bits, cuts, stopped, trained, command, answer, capsys
):
    (out, stage), rng = stopped(name), np.random.default_rng(1)
    before, newest = checkpoint.every(stage)
    for path in files(newest):
        content = path.read_bytes()
        for changed in harmed(content, bits, cuts, rng):
            path.write_bytes(changed)
            harmless = path.name == manifest.NAME and manifest.damage(newest) is None  # as a bit of "size"
            assert harmless or checkpoint.latest(stage, warn=False) == before, path
        path.unlink()
        assert checkpoint.latest(stage, warn=False) == before, path
        path.write_bytes(content)
    path = max(files(newest / "arrays"), key=lambda p: p.stat().st_size)
    path.write_bytes(next(harmed(path.read_bytes(), 1, 0, rng)))
    main, argv = command(name, out)
    capsys.readouterr()
    assert main([*argv, "--quiet", "--resume"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(rf"{newest.name} is damaged .* the checkpoint before it is used", line)
    np.testing.assert_array_equal(answer(out), answer(trained(name)))


HARM = {
    "vocabulary": lambda folder: (folder / "vocabulary.txt").write_text("w1\t3\n<eos>\t1\n"),
    "configuration": lambda folder: (folder / "config.json").write_text("[]"),
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "other configuration": lambda folder: change(folder / "config.json", '"seed": 1', '"seed": 2'),
    "tree": lambda folder: (folder / "tree.npz").unlink(),
    "known": lambda folder: (folder / "known.npz").write_bytes(b"PK"),
    "catalogue": lambda folder: (folder / "catalogue.npz").unlink(),
    "manifest": lambda folder: (folder / "manifest.json").write_text("[]"),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "parameters": lambda folder: (folder / "parameters" / "state.json").write_text("{}"),
    "first stage": lambda folder: (folder / "bootstrap" / "vocabulary.txt").unlink(),
}


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def fits(name, harm):
    only = {"tree": ["hlbl"], "first stage": ["hlbl"], "known": RATING_MODELS.names()}
    only |= {"catalogue": RATING_MODELS.names(), "vocabulary": LANGUAGE_MODELS.names()}
    return name in only.get(harm, NAMES)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        pytest.param(name, harm, marks=[] if name in SAMPLE else [pytest.mark.slow])
        for name in SGD
        for harm in HARM
        if fits(name, harm)
    ],
)
def test_resume_makes_a_damaged_model_whole(name, harm, trained, command, answer, tmp_path, capsys):
    folder = copied(trained(name), tmp_path / "model")
    HARM[harm](folder)
    main, argv = command(name, folder)
    assert main([*argv, "--quiet"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "--resume" in line or "--overwrite" in line
    assert main([*argv, "--quiet", "--resume"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == (harm != "no manifest")  # which a kill may leave
    assert said == "" or " is damaged (" in said
    np.testing.assert_array_equal(answer(folder), answer(trained(name)))
    assert main([*argv, "--quiet", "--resume"]) == 0
    assert capsys.readouterr().err == ""


def test_a_lost_configuration_is_rebuilt_from_checkpoints(stopped, command, trained, answer, capsys):
    out, _ = stopped("pmf")
    (out / "config.json").unlink()
    main, argv = command("pmf", out)
    assert main([*argv, "--quiet"]) == 2
    assert "config.json is lost or damaged" in capsys.readouterr().err
    assert main([*argv, "--quiet", "--resume", "--decay", "0.5"]) == 2
    assert "another training: recipe differs in decay" in capsys.readouterr().err
    assert not (out / "config.json").exists()
    assert main([*argv, "--quiet", "--resume"]) == 0
    assert "it is trained on from checkpoint-00000002" in capsys.readouterr().err
    np.testing.assert_array_equal(answer(out), answer(trained("pmf")))


@pytest.mark.parametrize("name", ["kn", "bias", "lbl"])
@pytest.mark.parametrize("harm", ["configuration", "no configuration", "no manifest"])
def test_a_damaged_model_can_be_replaced(name, harm, trained, command, answer, tmp_path, capsys):
    folder = copied(trained(name), tmp_path / "model")
    HARM[harm](folder)
    main, argv = command(name, folder)
    assert main([*argv, "--quiet", "--overwrite"]) == 0
    np.testing.assert_array_equal(answer(folder), answer(trained(name)))


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to itself", "deeply nested"])
@pytest.mark.parametrize("name", ["config.json", "manifest.json", "journal.jsonl", "vocabulary.txt"])
def test_what_is_no_file_is_refused_at_once(kind, name, trained, tmp_path, capsys):
    path = copied(trained("lbl"), tmp_path / "model") / name
    path.unlink()
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "link to itself": lambda path: path.symlink_to(path)}
    make.get(kind, lambda path: path.write_text("[" * 200_000 + "\n"))(path)
    # without its journal a model is whole
    assert lm(["info", str(path.parent)]) == (0 if name == "journal.jsonl" and kind not in ("pipe", "folder") else 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 1 + (name == "journal.jsonl")
    assert any(word in lines[0] for word in ("damaged", "configuration", "missing or changed"))


def test_lost_parameters_are_said_also_without_a_manifest(trained, command, tmp_path, capsys):
    folder = copied(trained("pmf"), tmp_path / "model")
    HARM["no manifest"](folder)
    HARM["parameters"](folder)
    info = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(info | {"epochs": "3"}))
    main, argv = command("pmf", folder)
    assert main([*argv, "--quiet", "--resume"]) == 0
    assert "it is trained again from the start" in capsys.readouterr().err


def test_what_an_audit_found_is_refused(trained, answer, tmp_path):
    """Each loaded once, and gave other numbers."""
    listed = {"format": 1, "sha256": {}, "size": {}}
    for name, file, content in (
        ("kn", "vocabulary.txt", "w1\t3\n<eos>\t1\n<unk>\t0\n"),
        ("pmf", "config.json", None),
        ("lbl", "config.json", None),
        ("lbl", "manifest.json", json.dumps(listed)),
        ("lbl", "manifest.json", "[]"),
        ("lbl", "parameters/manifest.json", json.dumps(listed)),
    ):
        folder = copied(trained(name), tmp_path / "model")
        if content is None:
            info = json.loads((folder / file).read_text())
            if name == "pmf":
                info["config"]["mean"] += 0.5
            else:
                info["corpus"]["reading"]["lower"] = True
            content = json.dumps(info, indent=1) + "\n"
        (folder / file).write_text(content)
        with pytest.raises(UserError, match="the model is damaged: "):
            answer(folder)
        if name != "pmf":
            with pytest.raises(UserError, match="the model is damaged: "):
                jaxlm.load(folder, verify=True)
        else:
            with pytest.raises(UserError, match="the model is damaged: "):
                jaxcf.load(folder, verify=True)
