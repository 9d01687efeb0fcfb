"""README.md: its Python programs run, and its commands have the options that it gives them."""

import shlex
from functools import partial

import numpy as np
import pytest

import benchmarks.__main__
import jaxcf.cli.main
import jaxlm.cli.main
from blocks import blocks_of
from jaxfit.cli import command
from small_models import write_text

PARSERS = {
    "jaxlm": partial(command.of_commands, "jaxlm", "", jaxlm.cli.main.COMMANDS),
    "jaxcf": partial(command.of_commands, "jaxcf", "", jaxcf.cli.main.COMMANDS),
    "python -m benchmarks": benchmarks.__main__.parser,
}
COMMANDS = [
    (name, command.strip().removeprefix(name))
    for _, code in blocks_of("README.md", "sh")
    for line in code.splitlines()
    for command in line.split("&&")
    for name in PARSERS
    if command.strip().startswith(name + " ")
]


@pytest.mark.parametrize(("name", "options"), COMMANDS, ids=lambda text: text.strip())
def test_commands_have_these_options(name, options):
    argv = shlex.split(options, comments=True)
    parsed = PARSERS[name]().parse_args(argv)
    assert callable(parsed.run)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The files that the programs name."""
    write_text(tmp_path / "train.txt", 0, lines=60)
    write_text(tmp_path / "valid.txt", 1, lines=20)
    seen = np.random.default_rng(0).permutation(200 * 320)[:8000]
    lines = [f"{pair // 320 + 1},{pair % 320 + 1},{pair % 5 + 1}\n" for pair in seen]
    (tmp_path / "parts").mkdir()
    for name, part in (("train", lines[400:]), ("valid", lines[:400])):
        (tmp_path / "parts" / f"{name}.csv").write_text("".join(["user,item,stars\n", *part]))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("number", "said"), [(0, ", 50)"), (1, "Answer(item=")], ids=["jaxlm", "jaxcf"])
def test_python_programs_run(small, capsys, number, said):
    codes = [code for section, code in blocks_of("README.md", "python") if section == "From Python"]
    exec(compile(codes[number], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    exec(compile(codes[number], "README.md", "exec"), {})  # the model's folder is there the second time
    assert capsys.readouterr().out == printed
    assert said in printed
    assert "nan" not in printed
