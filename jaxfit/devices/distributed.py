"""Training by several processes (`jax.distributed`), usually one on each machine, that all run the same command.

All processes read the same data, start from the same parameters and make the same steps, each on its own devices'
shards of every minibatch (`sharding`). Process 0 leads: it decides whatever depends on a clock or a disk, and
broadcasts its decisions. It also owns the folder of the result: the others work in a temporary copy, so that no file
system has to be shared. With a single process, the functions below return at once.
"""

import atexit
import hashlib
import json
import math
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jaxfit import __version__
from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.run_dir import json_text

if TYPE_CHECKING:  # commands that need no other process need no sockets
    import numpy as np

    from jaxfit.devices import meeting

PIECE = 1 << 24  # bytes of a broadcast

_watch: "meeting.Watch | None" = None  # of the other processes
_first = False  # whether this is process 0 of several; `leave` must not ask JAX, which waits while processes meet
_joining = False  # whether JAX is connecting the processes, or could not
_copies: list[str] = []  # temporary folders of `folder`
_ending = threading.Event()  # whether this process has come to its end
_leaving = threading.Lock()


@dataclass(frozen=True)
class Join:
    """How this process finds the others; none of it changes the result."""

    coordinator: str | None = option(
        None,
        "meet the other processes where process 0 listens; auto: as the cluster says",
        metavar="HOST:PORT",
    )
    num_processes: int | None = option(None, "how many there are in all", "processes", high=65536)
    process_id: int | None = option(None, "which of them this is, counted from 0; 0 keeps the result", low=0)
    join_seconds: float = option(
        60.0, "how long to wait for a process that does not connect or does not answer", "seconds", low=1, high=86400
    )


def join(how: Join, program: str = "jaxfit") -> None:
    """Connect to the other processes, if there are any; to be called before JAX is first used.

    With `auto`, JAX asks the cluster (Slurm, MPI, Kubernetes, a TPU pod) for what is not given. Otherwise this process
    ends, with a line of this program's, as soon as another one is lost (`meeting.Watch`): its connection closes, or it
    is silent for `how.join_seconds` and at least `meeting.MIN_SILENCE`.

    Raises UserError if options contradict each other, or a process cannot be reached.
    """
    global _first, _joining
    if how == Join(join_seconds=how.join_seconds):
        return
    import jax

    if jax.distributed.is_initialized():
        return
    auto = how.coordinator == "auto"
    for name in ("coordinator",) if auto else ("coordinator", "num_processes", "process_id"):
        if getattr(how, name) is None:
            what = f"--{name.replace('_', '-')} is missing"
            advice = "give --coordinator, --num-processes and --process-id, or --coordinator auto on a cluster"
            raise UserError(what, "training by several processes", advice)
    if how.process_id is not None and how.num_processes is not None and how.process_id >= how.num_processes:
        what = f"there is no process {how.process_id} of {how.num_processes}"
        raise UserError(what, "--process-id", f"count from 0 to {how.num_processes - 1}")
    found = re.fullmatch(r".+:(\d{1,5})", how.coordinator or "")
    if not auto and not (found and 0 < int(found[1]) < 1 << 16):
        advice = "give HOST:PORT of process 0, or auto"
        raise UserError(f"invalid value {how.coordinator!r}", "--coordinator", advice)
    # this service would catch SIGTERM, by which a process is asked to end
    jax.config.update("jax_enable_preemption_service", False)
    address = None if auto else _meet(how, program)
    where, seconds = f"--coordinator {how.coordinator}", math.ceil(how.join_seconds)
    late = f"{program}: the processes did not meet within {seconds} s ({where}) - is its port open between them?"
    alarm = threading.Timer(seconds, leave, (2, late))  # JAX would end the process by a C++ stack
    alarm.daemon = True
    alarm.start()
    _joining = True
    try:
        jax.distributed.initialize(
            address, how.num_processes, how.process_id,
            initialization_timeout=2 * seconds, shutdown_timeout_seconds=seconds,
            heartbeat_timeout_seconds=100 if auto else 10 * max(60, seconds),  # ours come first
        )  # fmt: skip
    except (ValueError, RuntimeError) as error:
        if auto and isinstance(error, ValueError):
            advice = "give --coordinator HOST:PORT, --num-processes and --process-id"
            raise UserError("JAX finds no cluster here", "--coordinator auto", advice) from None
        what = f"the processes did not meet: {str(error).splitlines()[0]}"
        raise UserError(what, where, "start all of them with the same address") from None
    finally:
        alarm.cancel()
    _joining = False
    _first = several() and leads()


def _meet(how: Join, program: str) -> str:
    """Meet the other processes, and watch them from now on; return the address at which JAX is to meet process 0.

    It is one on this machine, for process 0, too: JAX would ask the proxy of `http_proxy` for any other.
    """
    global _watch, _first
    from importlib import metadata

    import jax

    from jaxfit.devices import meeting

    _first = not how.process_id
    host, _, port = str(how.coordinator).rpartition(":")
    group = meeting.Group(
        host.strip("[]"), int(port), how.num_processes or 1, f"version {__version__}, JAX {metadata.version('jax')}"
    )
    found = group.meet(how.process_id, how.join_seconds) if how.process_id else group.gather(how.join_seconds)

    def lost(what: str) -> None:
        if not _ending.is_set():
            leave(1, f"{program}: {what} - see what it said, and start all of them with --resume")

    _watch = meeting.Watch(found, max(meeting.MIN_SILENCE, how.join_seconds), lost)
    atexit.register(_ending.set)  # before JAX's own end
    jax.config.update("jax_check_proxy_envs", False)  # its warning: what follows is the remedy
    name = "no_grpc_proxy"  # the hosts to reach without a proxy; where it is not set, those of no_proxy
    os.environ[name] = ",".join(filter(None, [os.environ.get(name) or os.environ.get("no_proxy"), meeting.HERE]))
    return meeting.relay(group.host, group.port) if how.process_id else f"{meeting.HERE}:{group.port}"


def finish_together() -> None:
    """Wait, after the work is done, until it is done on all processes.

    The process ends where one of them is lost meanwhile. With a single process this returns at once.
    """
    if _watch is not None:
        _watch.finish()


def several() -> bool:
    """Return whether this is one of several processes."""
    if "jax" not in sys.modules or _joining:  # some commands do not need JAX
        return False
    import jax

    return jax.distributed.is_initialized() and jax.process_count() > 1


def leads() -> bool:
    """Return whether this is the process that decides, writes the result and prints messages."""
    return not several() or _index() == 0


def agreed(value: Any) -> Any:
    """Return process 0's value, of JSON's types, on every process; all of them must call this."""
    return json.loads(_of_first(json.dumps(value).encode())) if several() else value


def anywhere(flag: bool) -> bool:
    """Return whether the flag is set on any process; all of them must call this."""
    return bool(highest(flag))


def highest(number: int) -> int:
    """Return the largest of the processes' numbers, of 32 bits; all of them must call this."""
    if not several():
        return number
    import numpy as np

    return int(_of_all(np.array(number, np.int32)).max())


def require_same(known: Mapping[str, Any]) -> None:
    """Raise a UserError, on every process, unless `known` is the same on all of them."""
    if not several():
        return
    mine = json_text.plain(known)
    first = agreed(mine)
    differing = [name for name in mine if first.get(name) != mine[name]]
    if anywhere(bool(differing)):
        what = "another one trains something else"
        if differing:
            name = differing[0]
            what = f"its {name} is not that of process 0{json_text.difference(first.get(name), mine[name])}"
        advice = "give all processes the same options and the same data"
        raise UserError(what, f"process {_index()}", advice)


@contextmanager
def folder(directory: Path) -> Iterator[Path]:
    """Yield the folder in which this process reads and writes the files of `directory`.

    On process 0 it is `directory` itself, on the others a temporary copy of process 0's.
    """
    if leads():
        share(directory)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="jax-process-") as place:
        _copies.append(place)
        copy = Path(place) / directory.name
        share(copy)
        yield copy


def share(directory: Path) -> None:
    """Copy the files of process 0's folder that another process lacks; `directory` may differ between them."""
    if not several():
        return
    digests = {}
    if leads():
        paths = sorted(path for path in directory.rglob("*") if path.is_file())
        digests = {path.relative_to(directory).as_posix(): _digest(path) for path in paths}
    for name, digest in agreed(digests).items():
        path = directory / name
        if not anywhere(_digest(path) != digest):
            continue
        content = _of_first(path.read_bytes() if leads() else b"")
        if not leads():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _digest(path: Path) -> str | None:
    """Return a digest of a file; None where there is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def lost(error: Exception) -> bool:
    """Return whether an error means that another process has ended while this one waited for it."""
    return several() and any(name in str(error) for name in ("Gloo", "NCCL", "coordination service"))


def leave(status: int, line: str = "") -> NoReturn:
    """End this process at once: after a failure it must not wait for others, which may be waiting for it.

    Of several threads that call this, the first decides: it never releases the lock for which the others wait.

    Args:
        status: the exit status.
        line: what to print before on standard error; nothing if empty.
    """
    _leaving.acquire()
    try:
        for stream, text in ((sys.stderr, line), (sys.stdout, "")):
            with suppress(OSError, ValueError, AttributeError):  # full, closed, or None
                if text:
                    shown = "\x1b[?25h" if stream.isatty() else ""  # a progress bar hides the cursor
                    stream.write(f"{shown}{text}\n")
                stream.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)  # of what JAX prints when processes end, nothing is news
        os.close(nowhere)
        for place in _copies:
            shutil.rmtree(place, ignore_errors=True)
        if _first:  # its end ends the others: leave them time to print their errors
            time.sleep(1)
    finally:
        os._exit(status)


def _index() -> int:
    import jax

    return jax.process_index()


def _of_first(content: bytes) -> bytes:
    """Broadcast process 0's bytes to every process."""
    import numpy as np

    high, low = _of_all(np.array(divmod(len(content), 1 << 30), np.int32), first=True)
    size, pieces = (int(high) << 30) + int(low), []
    for first in range(0, size, PIECE):
        length = min(PIECE, size - first)
        padded = max(256, 1 << (length - 1).bit_length())  # few lengths, each of which is compiled once
        mine = content[first : first + length] if leads() else b""
        piece = _of_all(np.frombuffer(mine.ljust(padded, b"\0"), np.uint8), first=True)
        pieces.append(piece.tobytes()[:length])
    return b"".join(pieces)


def _of_all(array: "np.ndarray", first: bool = False) -> "np.ndarray":
    """Return the arrays of all processes, [processes, …], or that of process 0 alone; all of them must call this.

    It goes by one device of each process: `jax.experimental.multihost_utils` fails where these have different numbers.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = [jax.local_devices(process_index=k)[0] for k in range(jax.process_count())]
    mesh = Mesh(np.array(devices), ("processes",))
    split, whole = NamedSharding(mesh, PartitionSpec("processes")), NamedSharding(mesh, PartitionSpec())
    own = [jax.device_put(array[None], devices[jax.process_index()])]
    given = jax.make_array_from_single_device_arrays((len(devices), *array.shape), split, own)
    found = jax.jit(_first_array if first else _same, out_shardings=whole)(given)
    return np.asarray(found.addressable_data(0))


def _first_array(arrays: Any) -> Any:
    return arrays[0]


def _same(arrays: Any) -> Any:
    return arrays
