"""Let every reader read many mutated files, in several processes; what goes wrong is printed with how to repeat it.

python tests/fuzz/run.py --count 1000000 --seed 1
python tests/fuzz/run.py --reader ARPA --seed 1 --first 4711 --count 1    # one of them again
"""

import argparse
import collections
import contextlib
import faulthandler
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from limits import SECONDS, try_one
from readers import Command, make_models, readers

CHUNK = 500  # files given to a process at a time
SLOW = 20  # a command on a model's folder takes the time of so many files
Job = tuple[str, int, int]  # a reader, its first file, how many
GUARD = 4 << 30  # bytes of address space that a process may take in addition to those at its start


def work(pipe: Connection, current: Any, models: Path, folder: Path, seed: int) -> None:
    """Take (reader, first, count) from the pipe; give back how many files were read, and what went wrong."""
    known = readers(models)
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)  # what readers say to the user
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        for name, reader in known.items():  # imports and compilation do not count
            with contextlib.suppress(Exception):
                try_one(reader, name, seed, 0, folder)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + GUARD,) * 2)
        while job := pipe.recv():
            name, first, count = job
            read, wrong = 0, []
            for number in range(first, first + count):
                current.value = number
                with (folder / "traceback").open("w") as log:
                    faulthandler.dump_traceback_later(2 * SECONDS, exit=True, file=log)
                    try:
                        read += try_one(known[name], name, seed, number, folder)
                    except Exception:
                        wrong.append((number, traceback.format_exc()))
                    faulthandler.cancel_dump_traceback_later()
            pipe.send((read, wrong))


class Worker:
    """A process that works on jobs; another takes its place when it ends."""

    def __init__(self, models: Path, parent: Path, seed: int):
        self.models, self.parent, self.seed = models, parent, seed
        self.job: Job | None = None
        self.start()

    def start(self) -> None:
        """Start the process."""
        spawn = multiprocessing.get_context("spawn")
        self.folder = Path(tempfile.mkdtemp(dir=self.parent))
        self.current = spawn.Value("q", 0)
        self.pipe, other = spawn.Pipe()
        args = (other, self.current, self.models, self.folder, self.seed)
        self.process = spawn.Process(target=work, args=args, daemon=True)
        self.process.start()
        other.close()

    def give(self, job: Job) -> None:
        """Give it the next job."""
        self.job = job
        self.pipe.send(job)

    def take(self) -> tuple[int, int, list[tuple[int, str]], list[Job]]:
        """Return how many files were tried and how many read, what went wrong, and the jobs to do again.

        The process ends by a crash, or where reading takes too long: then all other files of the job are left.
        """
        assert self.job is not None
        name, first, count = self.job
        self.job = None
        try:
            return count, *self.pipe.recv(), []
        except EOFError:
            self.process.join()
            number = self.current.value
            what = f"{(self.folder / 'traceback').read_text()}\nthe process ended: {self.process.exitcode}"
            self.start()
            parts = [(name, first, number - first), (name, number + 1, first + count - number - 1)]
            return 1, 0, [(number, what)], [part for part in parts if part[2]]


def jobs(args: argparse.Namespace, known: dict[str, Any]) -> collections.deque[Job]:
    """Return (reader, first, count) of all that is to be done, all readers in turn."""
    chosen = args.reader or list(known)
    shares = {name: 1 / SLOW if isinstance(known[name], Command) else 1.0 for name in chosen}
    ends = {
        name: args.first + max(1, round(args.count * share / sum(shares.values()))) for name, share in shares.items()
    }
    found = [
        (first, name, min(CHUNK, end - first))
        for name, end in ends.items()
        for first in range(args.first, end, CHUNK)
    ]  # fmt: skip
    return collections.deque((name, first, count) for first, name, count in sorted(found))


def cause(text: str) -> str:
    """Return where an exception was raised in this project, and what it was."""
    lines = text.strip().splitlines()
    places = [line.strip() for line in lines if "/jax" in line and "site-packages" not in line and 'File "' in line]
    return f"{places[-1] if places else ''} {lines[-1].split(':')[0][:100]}"


def main() -> int:
    """Run, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="files in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of each reader's first file")
    parser.add_argument("--reader", action="append", choices=list(readers(Path())), metavar="NAME")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    began, total = time.monotonic(), collections.Counter[str]()
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as place:
        with contextlib.redirect_stdout(sys.stderr):
            (Path(place) / "models").mkdir()
            models = make_models(Path(place) / "models")
        left = jobs(args, readers(models))
        workers = [Worker(models, Path(place), args.seed) for _ in range(min(args.processes, len(left)))]
        for worker in workers:
            worker.give(left.popleft())
        while busy := {worker.pipe: worker for worker in workers if worker.job}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]
                name = worker.job[0]
                tried, read, wrong, rest = worker.take()
                total[name, "tried"] += tried
                total[name, "read"] += read
                for number, text in wrong:
                    found.setdefault((name, cause(text)), []).append((number, text))
                left.extendleft(rest)
                if left:
                    worker.give(left.popleft())
        for worker in workers:
            worker.pipe.send(None)
            worker.process.join()
    for (name, why), cases in sorted(found.items()):
        print(f"\n=== {name}, {len(cases)} times, files {[number for number, _ in cases[:5]]}: {why}\n{cases[0][1]}")
    print(f"{'reader':32} {'files':>9} {'read':>9} {'wrong':>6}")
    for name in sorted({name for name, _ in total}):
        wrong = sum(len(cases) for (reader, _), cases in found.items() if reader == name)
        print(f"{name:32} {total[name, 'tried']:9,} {total[name, 'read']:9,} {wrong:6,}")
    tried = sum(number for (_, what), number in total.items() if what == "tried")
    print(f"{tried:,} files of seed {args.seed} in {time.monotonic() - began:.0f} s, {len(found)} findings")
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main())
