"""What both commands do alike: errors and warnings in one line, exit statuses, a result as JSON.

Exit status 0: done; 2: a mistake of the user's, in one line on standard error, `jaxlm: what (where) - do`;
1: a bug, with its traceback, or the loss of another process; 130: stopped by Ctrl-C, 143: by SIGTERM, 129: by SIGHUP;
141: the reader of standard output went away.
"""

import argparse
import dataclasses
import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxfit.cli import compilation_cache, streams
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import Parser, parse
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError, shortened
from jaxfit.files.limits import Limits, limited
from jaxfit.process.signals import Signalled, called, number_of
from jaxfit.run_dir import json_text
from jaxfit.run_dir.atomic import DISK

MAX_LINE = 400  # characters
FILE_LIMITS = [field.name for field in dataclasses.fields(Limits)]
# programs are of float32, and a seed gives the same draws, whatever the caller has set
ENVIRONMENT = {
    "JAX_ENABLE_X64": "false",
    "JAX_NUMPY_DTYPE_PROMOTION": "standard",
    "JAX_DEFAULT_PRNG_IMPL": "threefry2x32",
    "JAX_THREEFRY_PARTITIONABLE": "true",
}
# what to do about errors of the system that are no bugs
ADVICE = {
    **dict.fromkeys(DISK, "free some space or choose another place, and go on"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check its permissions"),
    errno.EROFS: "choose another place",
    errno.EIO: "check the disk",
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR), "choose another name"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit (ulimit -n)"),
}


class Stopped(Signalled):
    """A signal, with a line that goes on with what was saved and how to go on.

    Args:
        stop: the signal, as it was first raised.
        said: what the line goes on with.
    """

    def __init__(self, stop: KeyboardInterrupt, said: str):
        number = number_of(stop)
        super().__init__(number, f"stopped by {called(number)}{said}")


def add_model(
    parser: Parser, run: Callable[[argparse.Namespace], None], about: str = "folder of a model", unfinished: bool = True
) -> None:
    """Give a parser the options of a command on a model.

    Args:
        unfinished: whether there is the option `--unfinished`.
    """
    parser.set_defaults(run=run)
    parser.add_argument("directory", metavar="DIR", help=about)
    if unfinished:
        so_far = "use the best parameters so far of a training that has not finished"
        parser.add_argument("--unfinished", action="store_true", help=so_far)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    verify = "read all of the model's files for damage, also those that were found whole before"
    parser.add_argument("--verify", action="store_true", help=Rare(verify))


def required(args: argparse.Namespace, name: str, advice: str) -> Any:
    """Return the value of an option that a command needs; raises UserError where it is not given."""
    if not getattr(args, name):
        raise UserError(f"--{name} is missing", args.parser.prog, advice)
    return getattr(args, name)


def output(args: argparse.Namespace, *, folder: bool = False) -> Path:
    """Return the file or folder that `--out` names; raises UserError where it is missing, or the other kind."""
    out = Path(required(args, "out", "name a folder: --out DIR" if folder else "name a file: --out FILE"))
    if folder and out.exists() and not out.is_dir():
        raise UserError("a file was given instead of a directory", out, "choose another --out")
    if not folder and out.is_dir():
        raise UserError("a directory was given instead of a file", out, "name a file")
    return out


def run(program: str, build: Callable[[], Parser], argv: Sequence[str] | None = None, *, cached: bool = False) -> int:
    """Run a command line, `args.run(args)`, and return its exit status.

    One of several processes ends here and now where it fails.

    Args:
        program: the command's name, in messages.
        build: makes the parser.
        argv: arguments; None: those of this process, which ends here after an error, a signal or without a reader.
        cached: use the persistent compilation cache.
    """
    try:
        status = _run(program, build, argv, cached)
    except Exception as error:
        if not processes.several():
            raise
        if processes.lost(error):
            line = f"{program}: another process has ended - see what it said, and start all of them with --resume"
            processes.leave(1, line)
        traceback.print_exc()
        processes.leave(1)
    if status == 0:
        processes.finish_together()
    elif processes.several() or argv is None:
        # XLA may still be compiling in a thread, or Arrow reading a file, which crashes as Python ends
        processes.leave(status)
    return status


def _run(program: str, build: Callable[[], Parser], argv: Sequence[str] | None, cached: bool) -> int:
    with warnings.catch_warnings():
        # every warning of this project is printed; those of other libraries by Python's rules
        for module in ("jaxfit", "jaxlm", "jaxcf"):
            warnings.filterwarnings("always", category=UserWarning, module=module)
        warnings.showwarning = lambda message, *_, **__: _warn(f"{program}: warning: {message}")
        try:
            streams.require_output()
            os.environ.update(ENVIRONMENT)  # before JAX reads it
            args = parse(build(), sys.argv[1:] if argv is None else argv)
            if cached:
                compilation_cache.enable()
            with limited(Limits(**{name: getattr(args, name) for name in FILE_LIMITS if name in args})):
                args.run(args)
            sys.stdout.flush()
        except UserError as error:
            _say(f"{program}: {error}")
            return 2
        except UnicodeEncodeError as error:
            if _can_be_printed(error.object):  # it failed elsewhere
                raise
            what = f"{error.object[error.start]!a} cannot be printed in {sys.stdout.encoding}"
            _say(f"{program}: {what} (standard output) - set PYTHONIOENCODING=utf-8")
            return 2
        except BrokenPipeError:
            streams.flush()
            return 141
        except OSError as error:
            advice = _advice(error)
            if advice is None:
                raise
            streams.flush()
            where = error.filename or ("standard output" if error.errno in DISK else None)
            _say(f"{program}: {UserError(error.strerror or str(error), where, advice)}")
            return 2
        except (AssertionError, MemoryError, RuntimeError) as error:  # the first and the last as JAX's
            known = _of_memory_or_devices(error)
            if known is None:
                raise
            _say(f"{program}: {known}")
            return 2
        except KeyboardInterrupt as stop:
            _say(f"{program}: {stop if isinstance(stop, Signalled) else Signalled()}")
            return 128 + number_of(stop)
    return 0


def require_device() -> None:
    """Let JAX set up its devices; raises UserError where it finds none on the platforms that JAX_PLATFORMS names."""
    import jax  # here: some commands do without it

    try:
        jax.local_devices()
    except (AssertionError, RuntimeError) as error:  # the former, without a text, of CUDA without a GPU
        named = jax.config.jax_platforms  # type: ignore[attr-defined]
        if not named:
            raise
        reason, _, _ = str(error).partition(" (set JAX_PLATFORMS")
        what = f"JAX finds no device for JAX_PLATFORMS={named}" + (f": {reason.rstrip('.')}" if reason else "")
        raise UserError(what, do="unset it, or see docs/installation.md on what a GPU or TPU needs") from None


def _of_memory_or_devices(error: Exception) -> UserError | None:
    """Return what is wrong if it is that memory or devices are missing; None for a bug of ours."""
    if isinstance(error, MemoryError) or any(text in str(error) for text in ("RESOURCE_EXHAUSTED", "Out of memory")):
        return UserError("there is not enough memory", do="free some, or take a smaller model or less data")
    jax = sys.modules.get("jax")
    if jax is not None and not jax.distributed.is_initialized():  # else devices also fail for want of another process
        try:
            require_device()
        except UserError as missing:
            return missing
    return None


def _can_be_printed(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return False
    return True


def _advice(error: OSError) -> str | None:
    """Return what to do about an error of the system; None for one that is a bug of ours."""
    if error.errno == errno.ENOENT and not error.filename:
        return "give the command in a folder that is there"  # os.getcwd() found none
    return ADVICE.get(error.errno or 0)


def note(args: argparse.Namespace, *texts: str) -> None:
    """Print what a user should know on standard error, after the model that is trained or the command's name.

    Of no effect with --quiet, and on all but one of several processes.
    """
    if processes.leads() and not getattr(args, "quiet", False):
        for text in texts:
            print(f"{getattr(args, 'model', args.command)}: {text}", file=sys.stderr)


def print_json(result: dict[str, Any]) -> None:
    """Print one line of JSON; a number that JSON has no word for (infinite, undefined) becomes null."""
    print(json_text.dumps(result))


def print_answer(args: argparse.Namespace, model: str, answer: dict[str, Any]) -> None:
    """Print what a command says of a trained model as a line of JSON, which first names command, folder and model.

    Args:
        model: the name of its record.
    """
    print_json({"command": args.command, "directory": args.directory, "model": model, **answer})


def _say(text: str) -> None:
    print(shortened(" ".join(text.split()), MAX_LINE), file=sys.stderr, flush=True)


def _warn(text: str) -> None:
    """Print a warning; of several processes, which read the same files, one does."""
    if processes.leads():
        _say(text)
