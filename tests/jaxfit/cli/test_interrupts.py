"""Ctrl-C at any time, also while Python imports: one line and exit status 130."""

import signal
import subprocess
import sys
import time

import pytest

# says when Ctrl-C is caught; before that, Python itself is starting
CODE = """
import signal, sys
from {package}.cli import main
catch = signal.signal
def signal_and_say(*args):
    caught = catch(*args)
    print("now", flush=True)
    return caught
signal.signal = signal_and_say
sys.exit(main.main())
"""


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize(
    ("package", "argv"),
    [("jaxlm", ["train", "lbl", "--out", "lbl"]), ("jaxcf", ["train", "pmf", "--out", "pmf"])],
)
def test_ctrl_c_is_one_line(package, argv, seconds, tmp_path):
    command = [sys.executable, "-c", CODE.format(package=package), *argv]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        time.sleep(seconds)
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
