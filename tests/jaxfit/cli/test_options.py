"""Options from dataclasses, and the one-line complaints of a command."""

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pytest

from jaxfit.cli import command, options
from jaxfit.cli.parser import Parser, parse
from jaxfit.errors import UserError
from jaxfit.process.signals import Signalled
from jaxfit.recipe import option


@dataclass(frozen=True)
class Settings:
    size: int = option(100, "how large", "features", first=True)
    share: float = option(0.1, "how much, in %", below=1)
    wide: bool = option(False, "all of it")
    rule: Literal["sgd", "adam"] = option("sgd", "which")
    drops: tuple[float, ...] = option((0.1,), "factors", below=1)
    limit: float | None = option(None, "at most", "minutes")
    rate: Mapping[str, float] = option(None, "how fast")


def parser(**kwargs) -> Parser:
    result = Parser("tool")
    options.add(result, Settings, **kwargs)
    return result


def given(*argv, **kwargs):
    return options.given(parse(parser(**kwargs), argv), Settings)


def test_only_what_is_given_is_set():
    assert given() == {}
    arguments = "--size 7 --share 0.5 --wide --rule adam --drops 0.1,0.01 --limit 3 --rate 0.01,b=0.1"
    assert given(*arguments.split()) == {
        "size": 7,
        "share": 0.5,
        "wide": True,
        "rule": "adam",
        "drops": (0.1, 0.01),
        "limit": 3.0,
        "rate": {"*": 0.01, "b": 0.1},
    }
    assert given("--no-wide") == {"wide": False}
    assert given("--drops", "none") == {"drops": ()}


def test_names_can_be_changed_left_out_and_made_switches():
    assert given("--breadth", rename={"wide": "breadth"}) == {"wide": True}
    for arguments, kwargs in ((["--size", "1"], {"skip": ["size"]}), (["--no-wide"], {"switches": True})):
        with pytest.raises(UserError, match="no option"):
            given(*arguments, **kwargs)


@pytest.mark.parametrize(
    "arguments",
    [
        "--size 0",
        "--size 1.5",
        "--size nan",
        "--share 1",
        "--share -0.1",
        "--share nan",
        "--rule sdg",
        "--drops x",
        "--drops 0.1,1",
    ],
)
def test_values_out_of_bounds_name_their_option(arguments):
    with pytest.raises(UserError) as raised:
        given(*arguments.split())
    assert raised.value.where == arguments.split()[0]
    assert raised.value.do


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--scale", "-10,10,3"], "argument (--scale) - a value that begins with - follows =: --scale=-10,10,3"),
        (["--names", "-a;b"], "argument (--names) - a value that begins with - follows =: '--names=-a;b'"),
        (["--scale", "1", "--scale", "-1x"], "argument (--scale) - a value that begins with - follows =: --scale=-1x"),
        (["--scale", "--names", "a"], "argument (--scale) - see tool --help"),
        (["--scale"], "argument (--scale) - see tool --help"),
    ],
)
def test_a_value_that_begins_with_a_dash_is_given_after_an_equals_sign(argv, said):
    parser = Parser("tool")
    parser.add_argument("--scale")
    parser.add_argument("--names", nargs="+")
    with pytest.raises(UserError) as error:
        parse(parser, argv)
    assert str(error.value).endswith(said)


def test_help_shows_meaning_unit_and_default():
    shown = parser(defaults={"rule": "sgd in one, adam in two"})
    shown.shows_rare = True
    text = " ".join(shown.format_help().split())
    assert "--size N how large (features; default: 100)" in text
    assert "how much, in % (default: 0.1)" in text
    assert "which (default: sgd in one, adam in two)" in text
    assert "at most (minutes)" in text


def test_help_shows_the_first_options_and_help_all_every_one(capsys):
    printed = {}
    for name in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            parse(parser(), [name])
        printed[name] = capsys.readouterr().out
    assert "--size N" in printed["--help"]
    assert "--share" not in printed["--help"]
    assert "tool --help-all shows 6 more options" in printed["--help"]
    assert all(name in printed["--help-all"] for name in ("--size N", "--share X", "--no-wide", "--rate X,name=X"))
    assert "more options" not in printed["--help-all"]


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "λ … §5"), ("ascii", "lambda ... section 5")])
def test_help_is_printed_on_any_terminal(monkeypatch, encoding, shown):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    Parser("tool", description="λ … §5").print_help()
    out.seek(0)
    assert shown in out.read()


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-15", "cp1252"])
def test_a_result_that_a_terminal_cannot_print_is_one_line(encoding, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert run_with(lambda args: print("caf中")) == 2
    assert capsys.readouterr().err == (
        f"tool: '\\u4e2d' cannot be printed in {encoding} (standard output) - set PYTHONIOENCODING=utf-8\n"
    )
    if encoding != "ascii":
        with pytest.raises(UnicodeEncodeError):  # not by printing
            run_with(lambda args: "é".encode("ascii"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "yes"),
        (1e-5, "1e-05"),
        (None, ""),
        ((0.1, 0.01), "0.1,0.01"),
        ((), "none"),
        ({"*": 0.1, "b": 0}, "0.1,b=0"),
    ],
)
def test_defaults_are_shown_as_they_are_typed(value, shown):
    assert options.show(value) == shown


def run_with(action):
    def build():
        result = Parser("tool")
        result.set_defaults(run=action)
        return result

    return command.run("tool", build, [])


def raises(error):
    def action(args: argparse.Namespace):
        raise error

    return action


def test_exit_statuses(capsys):
    assert run_with(lambda args: None) == 0
    assert run_with(raises(UserError("wrong\nagain", "there", "do"))) == 2
    assert run_with(raises(KeyboardInterrupt())) == 130
    assert run_with(raises(command.Stopped(KeyboardInterrupt(), ", saved - go on"))) == 130
    assert run_with(raises(command.Stopped(Signalled(signal.SIGTERM), ", saved - go on"))) == 143
    assert run_with(raises(Signalled(signal.SIGHUP))) == 129
    assert run_with(raises(OSError(28, "No space left on device", "file"))) == 2
    for number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO):
        assert run_with(raises(OSError(number, os.strerror(number), "file"))) == 2
    assert run_with(raises(OSError(36, "File name too long", "x" * 300))) == 2
    assert run_with(raises(OSError(24, "Too many open files", "file"))) == 2
    assert run_with(raises(FileNotFoundError(2, "No such file or directory"))) == 2
    assert run_with(raises(MemoryError())) == 2
    assert run_with(raises(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes."))) == 2
    for bug in (ZeroDivisionError(), RuntimeError("INTERNAL"), FileNotFoundError(2, "No such file", "file")):
        with pytest.raises(type(bug)):
            run_with(raises(bug))
    with pytest.raises(OSError, match="closed"):
        run_with(raises(OSError(9, "closed")))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "tool: wrong again (there) - do",
        "tool: stopped by Ctrl-C",
        "tool: stopped by Ctrl-C, saved - go on",
        "tool: stopped by SIGTERM, saved - go on",
        "tool: stopped by SIGHUP",
        "tool: No space left on device (file) - free some space or choose another place, and go on",
        "tool: Permission denied (file) - check its permissions",
        "tool: Operation not permitted (file) - check its permissions",
        "tool: Read-only file system (file) - choose another place",
        "tool: Input/output error (file) - check the disk",
        f"tool: File name too long ({'x' * 300}) - choose another name",
        "tool: Too many open files (file) - raise the limit (ulimit -n)",
        "tool: No such file or directory - give the command in a folder that is there",
        *["tool: there is not enough memory - free some, or take a smaller model or less data"] * 2,
    ]


def test_json_has_no_word_for_infinity(capsys):
    command.print_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": {"d": (1, None)}})
    assert capsys.readouterr().out == '{"a": null, "b": [null, 1.5], "c": {"d": [1, null]}}\n'
