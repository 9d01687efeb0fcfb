"""A signal at any time, also while Python imports: one line and its exit status."""

import os
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


def test_a_signal_while_a_module_is_imported_leaves_no_temporary_folder(tmp_path):
    code = CODE.format(package="jaxcf", module="pandas")
    (tmp_path / "r.csv").write_text("".join(f"u{k % 7},i{k % 9},{k % 5}\n" for k in range(60)))
    argv = ["cross-validate", "pmf", "--ratings", str(tmp_path / "r.csv"), "--folds", "2"]
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *argv], env=environment, text=True, **pipes) as process:
        assert process.stdout.readline() == "now\n", process.stderr.read()
        assert list((tmp_path / "temporary").iterdir())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert list((tmp_path / "temporary").iterdir()) == []


# a command of its own, to which signals come at given seconds; what it does then is appended
WATCHED = """
import hashlib, os, signal, sys, threading, time
from jaxfit.cli import interrupts
from jaxfit.process import signals
signal.signal(signal.SIGINT, signal.default_int_handler)
signals.SAME_REQUEST_SECONDS, interrupts.PATIENCE = 0.2, 1.0
def send(number, *seconds):
    for moment in seconds:
        threading.Timer(moment, os.kill, (os.getpid(), number)).start()
"""


def run_watched(code, **streams):
    command = [sys.executable, "-c", WATCHED + code]
    return subprocess.run(command, **{"capture_output": True, **streams}, text=True, timeout=60)


def test_a_signal_that_was_handled_does_not_interrupt_what_follows():
    done = run_watched("""
with interrupts.one_line("tool", True):
    send(signal.SIGINT, 0.3, 0.7)
    try:
        with signals.noticed():
            time.sleep(9)
    except signals.Signalled:
        time.sleep(2)
    print("cleaned up")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up\n", "")


def test_what_threads_say_of_work_that_is_cut_off_is_not_shown():
    done = run_watched("""
import logging
def fails(report):
    try:
        raise ValueError("the folder is gone")
    except ValueError as error:
        report(error)
def fail_in_threads():
    def raised(error):
        raise error
    reports = [logging.exception, lambda error: sys.excepthook(type(error), error, error.__traceback__), raised]
    for report in reports:
        thread = threading.Thread(target=fails, args=[report])
        thread.start()
        thread.join()
with interrupts.one_line("jaxlm", True):
    send(signal.SIGINT, 0.3)
    try:
        time.sleep(9)
    finally:
        fail_in_threads()
""")
    assert (done.returncode, done.stderr) == (130, "jaxlm: stopped by Ctrl-C\n")


def test_what_could_not_be_raised_is_shown_unless_work_was_cut_off():
    """As errors of an event loop that is removed."""
    done = run_watched("""
class Loop:
    def __init__(self, name): self.name = name
    def __del__(self): raise ValueError(self.name)
with interrupts.one_line("jaxlm", True):
    Loop("one that nobody stopped")
    send(signal.SIGINT, 0.3)
    try:
        time.sleep(9)
    finally:
        Loop("another")
""")
    assert "one that nobody stopped" in done.stderr
    assert "another" not in done.stderr
    assert done.returncode == 130


def test_a_signal_while_parameters_are_read_is_one_line(tmp_path):
    done = run_watched(f"""
import pathlib
import jax.numpy as jnp
import orbax.checkpoint._src.serialization.serialization as serialization
from jaxfit.run_dir import checkpoint
path, arrays = pathlib.Path({str(tmp_path)!r}) / "parameters", {{"R": jnp.ones(3)}}
checkpoint.write(path, arrays, {{}})
read = serialization._read_shard
async def stopped(*args, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return await read(*args, **options)
serialization._read_shard = stopped
with interrupts.one_line("jaxlm", True):
    checkpoint.arrays(path, arrays)
""")
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "jaxlm: stopped by SIGTERM\n")


def test_a_command_that_was_stopped_ends_without_python_s_finalization():
    """In which XLA crashes where a thread still compiles."""
    done = run_watched("""
import atexit
from jaxfit.cli import command
from jaxfit.cli.parser import Parser
def build():
    parser = Parser("tool")
    parser.set_defaults(run=lambda args: time.sleep(9))
    return parser
atexit.register(print, "finalized")
sys.argv = ["tool"]
with interrupts.one_line("tool", True):
    send(signal.SIGINT, 0.5)
    print("a result")
    sys.exit(command.run("tool", build))
""")
    assert (done.returncode, done.stdout, done.stderr) == (130, "a result\n", "tool: stopped by Ctrl-C\n")


def test_an_error_of_the_program_itself_is_shown_after_a_signal():
    done = run_watched("""
with interrupts.one_line("jaxlm", True):
    send(signal.SIGINT, 0.3)
    try:
        time.sleep(9)
    except KeyboardInterrupt:
        raise ValueError("a bug") from None
""")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: a bug\n")


def test_signals_of_other_programs_are_left_to_their_handlers():
    done = run_watched("""
signal.signal(signal.SIGUSR1, lambda *_: print("noticed"))
with interrupts.one_line("tool", True):
    send(signal.SIGUSR1, 0.2)
    time.sleep(2)
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "noticed\n", "")


@pytest.mark.parametrize(
    "wait", ["time.sleep(9)", "hashlib.pbkdf2_hmac('sha1', b'', b'', 10**8)"], ids=["in Python", "in C"]
)
def test_a_signal_ends_the_process_where_standard_error_is_full(wait):
    with open("/dev/full", "w") as full:
        done = run_watched(
            f"""
with interrupts.one_line("tool", True):
    send(signal.SIGTERM, 0.2)
    {wait}
print("not ended")
""", capture_output=False, stdout=subprocess.PIPE, stderr=full)  # fmt: skip
    assert (done.returncode, done.stdout) == (143, "")


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
