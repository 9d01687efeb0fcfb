"""Training by several processes (`jax.distributed`), usually one on each machine, that all run the same command.

All of them do the same: they read the same data, start from the same parameters and make the same steps, each on
its own devices' part of every minibatch (`jaxfit.sharding`). Process 0 leads: what depends on a clock, a keyboard or
a disk is its decision, which the others are told. The folder of the result is process 0's, too: the others work
in a temporary copy of it, so that no file system has to be shared. Where there is one process, as nearly
always, everything here is a formality.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jaxfit.errors import UserError
from jaxfit.recipe import option

PIECE = 1 << 24  # bytes that are broadcast at once


@dataclass(frozen=True)
class Join:
    """How this process finds those that it trains with; nothing here changes the result."""

    coordinator: str | None = option(
        None,
        "meet the other processes where process 0 listens; auto: as the cluster says",
        metavar="HOST:PORT",
    )
    num_processes: int | None = option(None, "how many there are in all", "processes")
    process_id: int | None = option(None, "which of them this is, counted from 0; 0 keeps the result", low=0)


def join(how: Join) -> None:
    """Meet the other processes; to be called before JAX is first used, of no effect where there are none.

    With `auto`, JAX asks the cluster (Slurm, MPI, Kubernetes, a TPU pod) what is left out.

    Raises UserError for options that do not fit together, and where the processes do not meet.
    """
    if how == Join():
        return
    import jax

    if jax.distributed.is_initialized():
        return
    auto = how.coordinator == "auto"
    for name in ("coordinator",) if auto else ("coordinator", "num_processes", "process_id"):
        if getattr(how, name) is None:
            option = f"--{name.replace('_', '-')}"
            advice = (
                "give --coordinator, --num-processes and --process-id, or --coordinator auto on a cluster"
            )
            raise UserError(f"{option} is missing", "training by several processes", advice)
    if how.process_id is not None and how.num_processes is not None and how.process_id >= how.num_processes:
        what = f"there is no process {how.process_id} of {how.num_processes}"
        raise UserError(what, "--process-id", f"count from 0 to {how.num_processes - 1}")
    if not auto and not re.fullmatch(r".+:\d+", how.coordinator or ""):
        raise UserError(
            f"{how.coordinator!r} will not do", "--coordinator", "give HOST:PORT of process 0, or auto"
        )
    # it would catch the signal by which a process is asked to end
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(None if auto else how.coordinator, how.num_processes, how.process_id)
    except (ValueError, RuntimeError) as error:
        if auto and isinstance(error, ValueError):
            advice = "give --coordinator HOST:PORT, --num-processes and --process-id"
            raise UserError("JAX finds no cluster here", "--coordinator auto", advice) from None
        reason = str(error).splitlines()[0]
        advice = "start every process, within five minutes of each other, with the same address"
        raise UserError(
            f"the processes did not meet: {reason}", f"--coordinator {how.coordinator}", advice
        ) from None
    counts = [len(jax.local_devices(process_index=k)) for k in range(jax.process_count())]
    if len(set(counts)) > 1:
        what = f"the processes have different numbers of devices: {', '.join(map(str, counts))}"
        raise UserError(what, "--devices", "give every process the same number")


def several() -> bool:
    """Whether this is one of several processes."""
    if "jax" not in sys.modules:  # commands that have no use for JAX do not import it
        return False
    import jax

    return jax.distributed.is_initialized() and jax.process_count() > 1


def leads() -> bool:
    """Whether this is the process that decides, keeps the result and talks to the user."""
    return not several() or _index() == 0


def agreed(value: Any) -> Any:
    """Process 0's value (of what JSON can hold), on every process; all of them must ask."""
    return json.loads(_of_first(json.dumps(value).encode())) if several() else value


def anywhere(flag: bool) -> bool:
    """Whether the flag is set on any process; all of them must ask."""
    if not several():
        return flag
    import numpy as np
    from jax.experimental import multihost_utils

    return bool(multihost_utils.process_allgather(np.array(flag)).any())


def require_same(known: Mapping[str, Any]) -> None:
    """Raise a UserError, on every process, unless all that is `known` of the training is the same everywhere."""
    if not several():
        return
    mine, first = json.loads(json.dumps(known)), agreed(known)
    differing = [name for name in mine if first.get(name) != mine[name]]
    if anywhere(bool(differing)):
        who = f"process {_index()}"
        what = (
            f"its {differing[0]} is not that of process 0"
            if differing
            else "another one trains something else"
        )
        raise UserError(what, who, "give all processes the same options and the same data")


@contextmanager
def folder(directory: Path) -> Iterator[Path]:
    """Where this process reads and writes what belongs in `directory`.

    That is `directory` itself on process 0, and on the others a copy of it, as process 0 sees it, that is
    removed in the end.
    """
    if not several():
        yield directory
        return
    if leads():
        share(directory)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="jax-process-") as place:
        copy = Path(place) / directory.name
        share(copy)
        yield copy


def share(directory: Path) -> None:
    """Give the other processes the files of a folder of process 0; each names it as it has it."""
    if not several():
        return
    names = []
    if leads():
        names = sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
    for name in agreed(names):
        path = directory / name
        content = _of_first(path.read_bytes() if leads() else b"")
        if not leads():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def lost(error: Exception) -> bool:
    """Whether an error says that another process has ended while this one waited for it."""
    return several() and any(name in str(error) for name in ("Gloo", "NCCL", "coordination service"))


def leave(status: int) -> NoReturn:
    """End this process at once: one that fails must not wait for others, who may be waiting for it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if leads():  # its end is that of the others, who may have something to say
        time.sleep(1)
    os._exit(status)


def _index() -> int:
    import jax

    return jax.process_index()


def _of_first(content: bytes) -> bytes:
    """The bytes that process 0 gave, on every process."""
    import numpy as np
    from jax.experimental import multihost_utils

    high, low = multihost_utils.broadcast_one_to_all(np.array(divmod(len(content), 1 << 30), np.int32))
    size, pieces = (int(high) << 30) + int(low), []
    for first in range(0, size, PIECE):
        length = min(PIECE, size - first)
        # few lengths, each of which is compiled once
        room = max(256, 1 << (length - 1).bit_length())
        piece = (
            np.frombuffer(content[first : first + length].ljust(room, b"\0"), np.uint8) if leads() else None
        )
        piece = multihost_utils.broadcast_one_to_all(np.zeros(room, np.uint8) if piece is None else piece)
        pieces.append(np.asarray(piece, np.uint8).tobytes()[:length])
    return b"".join(pieces)
