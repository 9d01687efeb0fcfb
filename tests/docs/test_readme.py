"""README.md: its commands and its Python programs run as printed."""

import dataclasses
import shlex
import shutil
from functools import partial

import pytest

import benchmarks.__main__
import jaxcf.cli.main
import jaxcf.models
import jaxlm.cli.main
import jaxlm.models
from blocks import blocks_of
from jaxfit.cli.parser import of_commands
from readme_files import write_files

PARSERS = {
    "jaxlm": partial(of_commands, "jaxlm", "", jaxlm.cli.main.COMMANDS),
    "jaxcf": partial(of_commands, "jaxcf", "", jaxcf.cli.main.COMMANDS),
    "python -m benchmarks": benchmarks.__main__.parser,
}
LINES = [
    line for _, code in blocks_of("README.md", "sh") for line in code.splitlines()
]  # fmt: skip
COMMANDS = [
    (name, command.strip().removeprefix(name))
    for line in LINES
    for command in line.split("&&")
    for name in PARSERS
    if command.strip().startswith(name + " ")
]
# what is not executed here: the set-up, which `.ci/run` does but for the table, made at the scale `tiny` in
# tests/benchmarks/language/; this suite; and the training on two machines, which
# tests/end_to_end/test_train_processes.py does with two processes of one machine
ELSEWHERE = [
    "python3 -m venv ",
    "python -m pytest ",
    "jaxlm train hlbl --train train.txt --out runs/hlbl --coordinator ",
]


@pytest.mark.parametrize(("name", "options"), COMMANDS, ids=lambda text: text.strip())
def test_commands_have_these_options(name, options):
    argv = shlex.split(options, comments=True)
    parsed = PARSERS[name]().parse_args(argv)
    assert callable(parsed.run)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A folder with the files that are named, and recipes of two epochs: nothing asks what is learnt."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for registry in (jaxlm.models.REGISTRY, jaxcf.models.REGISTRY):
        for recipes in (registry.get(name).recipes for name in registry.names()):
            for name, (recipe, config) in recipes.items():
                if getattr(recipe, "epochs", 0) > 2:
                    monkeypatch.setitem(recipes, name, (dataclasses.replace(recipe, epochs=2), config))


@pytest.mark.parametrize("main", [jaxlm.cli.main.main, jaxcf.cli.main.main], ids=["jaxlm", "jaxcf"])
def test_commands_run_as_printed(small, capsys, main):
    shutil.rmtree("parts")  # the first command of jaxcf writes it
    program = main.__module__.partition(".")[0]
    for line in LINES:
        if line.startswith(f"{program} ") and not line.startswith(tuple(ELSEWHERE)):
            assert main(shlex.split(line, comments=True)[1:]) == 0, f"{line}: {capsys.readouterr().err}"
            assert capsys.readouterr().out, line


def test_every_command_is_run():
    others = [line for line in LINES if not line.startswith(("jaxlm ", "jaxcf ", *ELSEWHERE))]
    assert not others
    assert all(any(line.startswith(start) for line in LINES) for start in ELSEWHERE)


@pytest.mark.parametrize(
    ("section", "number", "said"),
    [("From Python", 0, ", 50)"), ("From Python", 1, "Answer(item="), ("Train a model of documents", 0, "(10, 50)")],
    ids=["jaxlm", "jaxcf", "scikit-learn"],
)
def test_python_programs_run_twice(small, capsys, section, number, said):
    codes = [code for title, code in blocks_of("README.md", "python") if title == section]
    for _ in range(2):
        exec(compile(codes[number], "README.md", "exec"), {})
        printed = capsys.readouterr().out
        assert said in printed
        assert "nan" not in printed
