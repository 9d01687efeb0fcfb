"""Ctrl-C at any time, also while Python imports: one line and exit status 130."""

import signal
import subprocess
import sys

import pytest

# says when a module is about to be imported, and waits there; "" for the first moment when Ctrl-C is caught
CODE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
from {package}.cli import main
def wait():
    print("now", flush=True)
    time.sleep(9)
class Finder:
    def find_spec(name, path, target=None):
        if name == "{module}":
            wait()
sys.meta_path.insert(0, Finder)
catch = signal.signal
def signal_and_wait(*args):
    catch(*args)
    wait()
if not "{module}":
    signal.signal = signal_and_wait
sys.exit(main.main())
"""


@pytest.mark.parametrize("module", ["", "{package}.cli.train", "numpy", "jax"])
@pytest.mark.parametrize(
    ("package", "argv"),
    [("jaxlm", ["train", "lbl", "--out", "lbl"]), ("jaxcf", ["train", "pmf", "--out", "pmf"])],
)
def test_ctrl_c_is_one_line(package, argv, module, tmp_path):
    code = CODE.format(package=package, module=module.format(package=package))
    with subprocess.Popen(
        [sys.executable, "-c", code, *argv], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    *notes, last = said.splitlines()
    assert process.returncode == 130
    assert last.startswith(f"{package}: stopped by Ctrl-C")
    assert not [line for line in notes if not line.startswith(argv[1] + ": ")], said


def test_a_call_from_python_leaves_ctrl_c_alone(capsys):
    from jaxlm.cli.main import main

    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    assert main(["trian"]) == 2
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before
