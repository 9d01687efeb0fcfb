"""What the train commands of both packages share: what is said after a signal, and at the end."""

import signal
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxfit.cli.command import Stopped
from jaxfit.cli.training_options import plan, print_end, stoppable
from jaxfit.devices import distributed as processes
from jaxfit.errors import Interrupted, UserError
from jaxfit.process.signals import Signalled
from jaxfit.recipe import Recipe
from jaxfit.run_dir import manifest, metadata
from jaxfit.run_dir.run import Trained


@pytest.mark.parametrize(
    ("raised", "saved", "said"),
    [
        (Interrupted(), True, r"by Ctrl-C, all is saved \(out\) - give the same command with --resume to go on$"),
        (Interrupted(signal.SIGTERM), True, r"by SIGTERM, all is saved \(out\) - give the same command with --resume"),
        (Signalled(signal.SIGHUP), True, r"by SIGHUP \(out\) - give the same command with --resume to go on from what"),
        (Signalled(signal.SIGTERM), False, "stopped by SIGTERM - give the same command again to begin anew"),
        (KeyboardInterrupt, True, r"\(out\) - give the same command with --resume to go on from what is saved"),
        (KeyboardInterrupt, False, "give the same command again to begin anew"),
        (KeyboardInterrupt, None, "give the same command again to begin anew"),
    ],
)
def test_a_signal_says_how_to_go_on(raised, saved, said, tmp_path):
    """saved: whether anything has been; None: the training cannot be resumed."""
    if saved:
        (tmp_path / metadata.PARAMETERS).mkdir()
    with pytest.raises(Stopped, match=said), stoppable(Path("out"), None if saved is None else tmp_path):
        raise raised


def test_what_was_begun_is_resumed_unless_it_was_to_replace_another_model(tmp_path):
    """Before anything is saved, the former stays, and the latter is removed."""
    (tmp_path / manifest.NAME).write_text("{}")
    with pytest.raises(Stopped, match="with --resume to go on"), stoppable(tmp_path, tmp_path):
        raise KeyboardInterrupt
    with pytest.raises(Stopped, match="again to begin anew"), stoppable(tmp_path.parent / "other", tmp_path):
        raise KeyboardInterrupt


@pytest.mark.parametrize(("before", "said"), [(False, r", the model is complete \("), (True, "again to begin anew")])
def test_a_signal_after_a_model_was_written_says_so(before, said, tmp_path):
    if before:
        (tmp_path / manifest.NAME).write_text("{}")

    def train():
        (tmp_path / manifest.NAME).write_text("{}")
        raise KeyboardInterrupt

    with pytest.raises(Stopped, match=said), stoppable(tmp_path, None):
        train()


@dataclass(frozen=True)
class Config:
    pass


def test_a_process_with_another_resume_is_named_before_data_are_read(monkeypatch):
    monkeypatch.setattr(processes, "several", lambda: True)
    monkeypatch.setattr(processes, "agreed", lambda known: {**known, "--resume": True})
    monkeypatch.setattr(processes, "anywhere", bool)
    monkeypatch.setattr(processes, "_index", lambda: 1)
    args = Namespace(parser=Namespace(prog="toy train"), seed=1, quiet=True)
    recipe = Recipe("sgd", batch_size=10, epochs=1, rate={"*": 0.1}, decay={"*": 0.0})
    with pytest.raises(UserError, match=r"its --resume is not that of process 0 \(True there, False here\)"):
        plan(args, Config, {"tuned": (recipe, {})})


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        (Trained(None, None, {}), "its training had finished before\n"),
        (
            Trained(SimpleNamespace(info={"epochs": 12, "recipe": {"epochs": 25, "patience": 2}}), None, {}),
            "its training had finished before: it ended after 12 epochs, the last 2 without improvement (--patience)\n",
        ),
        (Trained(None, None, {"estimate": 1.25}), "time: estimate 1.2 s\n"),
        (
            Trained(None, None, {"tree": 2.0}, "max-minutes"),
            "stopped after --max-minutes: give the same command with --resume to go on\ntime: tree 2.0 s\n",
        ),
    ],
)
def test_the_end_of_a_training_is_printed(trained, said, capsys):
    print_end(trained, "words")
    assert capsys.readouterr().out == said
