"""What the help and commands without neural models need is imported without JAX, and in a moment."""

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = ("jax", "jaxlib", "optax", "orbax", "scipy", "pyarrow", "matplotlib")


def imported(code):
    """List the slow packages that a program imports, in a process of its own."""
    script = f"import sys\n{code}\nprint(*[name for name in {SLOW} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "module",
    [
        "jaxfit", "jaxlm", "jaxcf",
        "jaxfit.errors",
        "jaxfit.devices.distributed",
        "jaxfit.recipe",
        "jaxfit.cli.command",
        "jaxfit.cli.parser",
        "jaxfit.cli.compilation_cache",
        "jaxfit.cli.options",
        "jaxfit.cli.training_options",
        "jaxfit.files.opening",
        "jaxfit.run_dir.checkpoint",
        "jaxfit.run_dir.journal",
        "jaxfit.run_dir.metadata",
        "jaxfit.run_dir.run",
        "jaxlm.ngram.model",
    ],
)  # fmt: skip
def test_it_is_imported_without_jax(module):
    assert imported(f"import {module}") == []


@pytest.mark.parametrize("package", ["jaxlm", "jaxcf"])
def test_completion_shows_what_is_imported_on_first_use(package):
    code = f"import {package}; assert {{*{package}.__all__, '__file__', 'UserError'}} <= set(dir({package}))"
    assert imported(code) == []


def test_sockets_are_imported_where_several_processes_train():
    code = (
        "import jaxfit.devices.distributed; assert not {'socket', 'selectors', 'importlib.metadata'} & set(sys.modules)"
    )
    assert imported(code) == []


def test_options_of_a_training_are_read_without_jax():
    code = """
from dataclasses import dataclass
from jaxfit.cli import training_options
from jaxfit.cli.parser import Parser, parse
from jaxfit.recipe import Recipe
@dataclass(frozen=True)
class Config: ...
recipe = Recipe(optimizer="sgd", batch_size=1, epochs=1, rate={"*": 0.1}, decay={})
parser = Parser("tool")
training_options.add(parser, Config, {"tuned": (recipe, {})})
assert "--epochs" in parser.format_help()
parse(parser, ["--rate", "0.1,b=1", "--devices", "2"])
"""
    assert imported(code) == []


@pytest.mark.parametrize("package", ["jaxfit", "jaxlm", "jaxcf"])
def test_packages_say_their_version_and_that_they_are_typed(package):
    code = f"""
import importlib.metadata, importlib.resources, {package}
assert {package}.__version__ == importlib.metadata.version("jax-mnih")
assert importlib.resources.files({package!r}).joinpath("py.typed").is_file()
"""
    assert imported(code) == []


@pytest.mark.parametrize("package", ["jaxfit", "jaxlm", "jaxcf"])
def test_importing_a_package_changes_nothing_elsewhere(package):
    code = f"""
import logging, os, signal, warnings
def seen():
    return dict(os.environ), list(warnings.filters), list(logging.root.handlers), signal.getsignal(signal.SIGINT)
before = seen()
import {package}
assert seen() == before
"""
    assert imported(code) == []


def test_sgd_without_a_progress_bar_needs_neither_optax_nor_rich():
    """They take a sixth of a second to import."""
    code = f"""
sys.path.append({str(Path(__file__).parents[1])!r})
import jax
import toy
from jaxfit import fit
from jaxfit.recipe import Recipe
key, data = jax.random.key(0), toy.data(jax.random.key(1))
recipe = Recipe(optimizer="sgd", batch_size=20, epochs=1, rate={{"*": 0.1}}, decay={{"*": 0.0}})
fit.fit(toy.program(True), toy.init(key), data, data, recipe=recipe, key=key)
assert "rich" not in sys.modules
"""
    assert "optax" not in imported(code)
