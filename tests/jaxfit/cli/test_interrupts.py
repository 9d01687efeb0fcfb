"""A signal at any time, also while Python imports: one line and its exit status."""

import signal
import subprocess
import sys

import pytest

from jaxfit.process import signals

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


@pytest.mark.parametrize(
    ("sent", "name", "module"),
    [
        (signal.SIGINT, "Ctrl-C", ""),
        (signal.SIGINT, "Ctrl-C", "{package}.cli.train"),
        (signal.SIGTERM, "SIGTERM", "numpy"),
        (signal.SIGHUP, "SIGHUP", "jax"),
    ],
)
@pytest.mark.parametrize(
    ("package", "argv"),
    [("jaxlm", ["train", "lbl", "--out", "lbl"]), ("jaxcf", ["train", "pmf", "--out", "pmf"])],
)
def test_a_signal_is_one_line(package, argv, sent, name, module, tmp_path):
    code = CODE.format(package=package, module=module.format(package=package))
    with subprocess.Popen(
        [sys.executable, "-c", code, *argv], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
    *notes, last = said.splitlines()
    assert process.returncode == 128 + sent
    assert last.startswith(f"{package}: stopped by {name}")
    assert not [line for line in notes if not line.startswith(argv[1] + ": ")], said


def test_a_call_from_python_leaves_signals_alone(capsys):
    from jaxlm.cli.main import main

    before = [*map(signal.getsignal, signals.SIGNALS), sys.unraisablehook]
    assert main(["trian"]) == 2
    assert [*map(signal.getsignal, signals.SIGNALS), sys.unraisablehook] == before


def test_an_ignored_signal_stays_ignored(monkeypatch):
    """As SIGHUP under nohup."""
    sent = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.handled(lambda number, _: sent.append(number)):
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # at once again: the same request
    finally:
        signal.signal(signal.SIGHUP, before)
    assert sent == [signal.SIGTERM]


def test_a_second_signal_ends_at_once(monkeypatch):
    before = [*map(signal.getsignal, signals.SIGNALS)]
    seconds = iter([0.0, 2.0])
    monkeypatch.setattr(signals.time, "monotonic", lambda: next(seconds))
    with signals.noticed() as received:
        assert received() == 0
        signal.raise_signal(signal.SIGTERM)
        assert received() == signal.SIGTERM
        with pytest.raises(signals.Signalled, match="stopped by SIGHUP"):
            signal.raise_signal(signal.SIGHUP)
    assert [*map(signal.getsignal, signals.SIGNALS)] == before
