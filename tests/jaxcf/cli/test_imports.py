"""Help, reading and what else needs no computation do without JAX."""

import subprocess
import sys

import pytest

CODE = """
import sys
from contextlib import suppress
from jaxcf.cli import main
with suppress(SystemExit):
    sys.exit(main.main({argv!r}))
assert "jax" not in sys.modules, "JAX is imported"
"""


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["--version"], ["split", "--help"], ["trian"], ["split", "none.csv", "--out", "parts"]],
)
def test_jax_is_not_imported_for(argv, tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE.format(argv=argv)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr


@pytest.mark.parametrize("module", ["jaxcf.contract", "jaxcf.models", "jaxcf.batches", "jaxcf.data.reading"])
def test_modules_are_imported_without_jax(module):
    subprocess.run([sys.executable, "-c", f"import sys, {module}; assert 'jax' not in sys.modules"], check=True)
