"""How a command ends: a process that is in error ends at once, whatever its threads do."""

import argparse

import pytest

from jaxfit.cli import command
from jaxfit.cli.parser import Parser
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError


def build() -> Parser:
    parser = Parser(prog="toy")
    parser.set_defaults(run=fail)
    return parser


def fail(args: argparse.Namespace) -> None:
    raise UserError("it is wrong", "here", "mend it")


@pytest.mark.parametrize("own", [True, False])
def test_a_process_in_error_ends_here_and_a_call_returns_the_status(monkeypatch, capsys, own):
    """Threads of Arrow or XLA that are still at work would crash while Python ends."""
    ended = []
    monkeypatch.setattr(processes, "leave", ended.append)
    monkeypatch.setattr("sys.argv", ["toy"])
    assert command.run("toy", build, None if own else []) == 2
    assert ended == ([2] if own else [])
    assert capsys.readouterr().err == "toy: it is wrong (here) - mend it\n"
