"""How a command ends: a process that is in error ends at once, whatever its threads do."""

import argparse
from types import SimpleNamespace

import jax
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


def fail_in_jax(*_: object) -> None:
    raise AssertionError  # as JAX where CUDA is asked for and there is no GPU


def of_jax() -> Parser:
    parser = Parser(prog="toy")
    parser.set_defaults(run=fail_in_jax)
    return parser


def test_an_error_for_want_of_a_device_is_one_line(monkeypatch, capsys):
    """Another one like it is a bug."""
    with pytest.raises(AssertionError):
        command.run("toy", of_jax, [])
    monkeypatch.setattr(jax, "local_devices", fail_in_jax)
    monkeypatch.setattr(jax, "config", SimpleNamespace(jax_platforms="cuda"))
    capsys.readouterr()
    assert command.run("toy", of_jax, []) == 2
    said = capsys.readouterr().err
    assert said.startswith("toy: JAX finds no device for JAX_PLATFORMS=cuda - unset it")
    assert said.count("\n") == 1
