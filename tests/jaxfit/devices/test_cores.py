"""How many threads XLA takes on a CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxcf.cli import main as jaxcf
from jaxfit.cli import training_options
from jaxfit.devices import cores
from jaxlm.cli import main as jaxlm

THREADS = Path("/proc/self/task")  # of Linux
COUNT = """
import os, sys
from pathlib import Path
from jaxfit.devices.cores import use_threads
if sys.argv[1] == "late":
    import jax
    jax.devices()
taken = use_threads(int(sys.argv[2]))
import jax, jax.numpy as jnp
jax.block_until_ready(jnp.ones((300, 300)) @ jnp.ones((300, 300)))
names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
print(sum("XLAEigen" in name for name in names), os.environ.get("NPROC"), taken)
"""


@pytest.mark.skipif(not THREADS.exists(), reason="threads are counted where Linux lists them")
@pytest.mark.parametrize(("when", "number", "found"), [("early", 1, 1), ("early", 3, 3), ("late", 5, None)])
def test_xla_takes_so_many_threads_unless_jax_has_begun(when, number, found):
    environment = {name: value for name, value in os.environ.items() if name != cores.NPROC}
    made = subprocess.run(
        [sys.executable, "-c", COUNT, when, str(number)], capture_output=True, text=True, check=True, env=environment
    )
    threads, variable, taken = made.stdout.split()
    assert taken == str(found is not None)
    if found is None:
        assert variable == "None"
        assert int(threads) != number or cores.cores() == number
    else:
        assert (int(threads), variable) == (found, str(found))


@pytest.mark.parametrize(
    ("model", "options", "variable", "expected"),
    [
        ("pmf", [], "", [1]),
        ("pmf", ["--threads", "3"], "", [3]),
        ("pmf", ["--devices", "2"], "", []),  # each device has its own
        ("pmf", ["--solver", "als"], "", []),  # whose steps are large
        ("pmf", [], "2", []),  # as the user has set it
        ("rbm", [], "", []),
        ("hlbl", [], "", []),
        ("hlbl", ["--batch-size", "100"], "", [1]),
        ("hlbl", ["--recipe", "thesis"], "", [1]),
        ("rbm", ["--threads", "1"], "2", [1]),
    ],
)
def test_commands_take_one_thread_for_models_of_small_steps(monkeypatch, tmp_path, model, options, variable, expected):
    calls = []
    monkeypatch.setenv(cores.NPROC, variable)
    monkeypatch.setattr(training_options, "use_threads", calls.append)
    package, data = (jaxlm, "--train") if model == "hlbl" else (jaxcf, "--ratings")
    missing = [data, str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    assert package.main(["train", model, *missing, *options]) == 2
    assert calls == expected
