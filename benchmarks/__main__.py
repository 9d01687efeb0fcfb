"""`python -m benchmarks`: the thesis' tables and figures, speed, and the data they are made on."""

import argparse
import importlib.util
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import commands, registry
from benchmarks.core import jobs, record, timing
from benchmarks.core.scale import RECIPES
from benchmarks.data import sets as data
from benchmarks.speed import run as speed
from benchmarks.workloads import suite
from benchmarks.workloads.registry import WORKLOADS
from jaxfit.cli import command, interrupts
from jaxfit.cli.parser import Parser
from jaxfit.errors import missing_package

WORK = Path(".cache/benchmarks")


NEEDED = ("matplotlib", "requests", "sklearn", "jinja2")  # modules of the extra `benchmarks`


def parser(given: Sequence[str] = ()) -> Parser:
    """Build the command line.

    Args:
        given: the arguments, which `run --jobs` passes on to the processes that it starts.

    Raises:
        UserError: a package is missing; checked here, before hours of training.
    """
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise missing_package(name, "python -m benchmarks")
    top = Parser(prog="python -m benchmarks", description=__doc__)
    parsers = top.add_subparsers(required=True, metavar="COMMAND")
    parsers.add_parser("list", help="what can be run").set_defaults(run=commands.list_all)

    run = parsers.add_parser("run", help="make tables", description="Make tables and figures of the thesis.")
    run.set_defaults(run=commands.run, given=given)
    run.add_argument(
        "names", nargs="+", metavar="NAME",
        help="a table or figure, as `list` shows them, or all; with --dry-run also a model",
    )  # fmt: skip
    _add_data(run)
    run.add_argument("--seeds", type=_positive, metavar="K", help="trainings of each model (default: the table's)")
    run.add_argument("--epochs", type=_positive, metavar="N", help="of every training (default: as the recipes say)")
    run.add_argument(
        "--rows", metavar="TEXT", help="only the row of this label, or those in whose label a word begins with TEXT"
    )
    run.add_argument(
        "--missing", action="store_true",
        help="only rows and seeds that were never measured: what earlier runs kept beside the record counts, whatever "
        "source code trained it",
    )  # fmt: skip
    run.add_argument(
        "--jobs", type=_positive, default=1, metavar="N",
        help="train N models at a time, each on a part of this machine's cores (default: 1)",
    )  # fmt: skip
    run.add_argument(jobs.HELPER, metavar="CORES", help=argparse.SUPPRESS)
    run.add_argument("--dry-run", action="store_true", help="50 or more steps of each shape; projects hours and memory")
    _add_out(run)
    run.add_argument("--show", action="store_true", help="show every model's training")
    run.add_argument("--json", action="store_true", help="end with one line of JSON")

    fast = parsers.add_parser("speed", help="measure training speed, against peers and the machine's limits")
    fast.set_defaults(run=commands.speed)
    known, long = ", ".join(speed.names()), ", ".join(speed.LONG)
    fast.add_argument("names", nargs="*", metavar="NAME", help=f"of {known} (default: all but {long})")
    fast.add_argument("--peers", action="store_true", help="also measure other programs, in the same run")
    fast.add_argument(
        "--quick",
        action="store_true",
        help=f"{timing.QUICK_ROUNDS} rounds of {timing.QUICK_WINDOW:g} s instead of {timing.ROUNDS} of "
        f"{timing.WINDOW:g} s, without compilation times, times to errors and HLBL's sweeps",
    )
    _add_out(fast)
    fast.add_argument("--json", action="store_true", help="end with one line of JSON")

    cards = parsers.add_parser(
        "suite", help="measure the standard workloads on this machine's devices",
        description="Train the standard workloads for some seconds each, beside what the device can do at most: "
        "events per second, share of the binding limit, error beside float64, compilation, memory. Without --quick all "
        "of them, of which the largest need an accelerator.",
    )  # fmt: skip
    cards.set_defaults(run=commands.suite)
    small = ", ".join(name for name, workload in WORKLOADS.items() if workload.small)
    cards.add_argument("--quick", action="store_true", help=f"only small ones ({small}), samples of {suite.QUICK:g} s")
    cards.add_argument(
        "--workload", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(WORKLOADS)} (default: all)"
    )
    cards.add_argument("--batch-size", type=_positive, metavar="N", help="examples of a minibatch, on all devices")
    cards.add_argument("--devices", type=_positive, default=1, metavar="N", help="split minibatches over N devices")
    cards.add_argument(
        "--scaling", action="store_true",
        help="on 1, 2, 4, … up to N devices, with the same minibatch on all of them and with the same on each",
    )  # fmt: skip
    cards.add_argument(
        "--dtype", nargs="+", choices=list(suite.PRECISIONS), metavar="TYPE",
        help=f"how factors of matrix products are rounded: of {', '.join(suite.PRECISIONS)} (default: all that the "
        "device has)",
    )  # fmt: skip
    cards.add_argument(
        "--seconds", type=_seconds, metavar="S", help=f"of a sample, at least (default: {suite.WINDOW:g})"
    )
    _add_out(cards)
    cards.add_argument("--json", action="store_true", help="end with one line of JSON")

    both = parsers.add_parser(
        "compare", help="tell changes of speed from noise",
        description="Compare records of speed: speed.NAME.json, suite.json, or a table of times. A difference is one "
        "by the Mann-Whitney test of all samples, corrected for the number of comparisons (Holm), that is larger by "
        "10 % than what the machine's limits, measured in both runs, explain; or by 3 % than what the binding limit "
        "explains, where both records name it.",
    )  # fmt: skip
    both.set_defaults(run=commands.compare)
    both.add_argument("first", type=Path, metavar="A", help="a record")
    both.add_argument("others", type=Path, nargs="+", metavar="B", help="records to compare with it")
    both.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")

    doctor = parsers.add_parser("doctor", help="what of this machine and its packages decides speed, and known faults")
    doctor.set_defaults(run=commands.doctor)
    doctor.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")

    lower = parsers.add_parser(
        "lower", help="compile workloads for devices that are not here",
        description="Compile standard workloads ahead of time for a described topology, such as TPUs, without a chip: "
        "memory, padding, collectives, and the compiler's estimate of cycles. For TPUs the package libtpu is needed.",
    )  # fmt: skip
    lower.set_defaults(run=commands.lower)
    lower.add_argument("names", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)} (default: all)")
    lower.add_argument("--platform", default="tpu", help="whose compiler (default: tpu)")
    lower.add_argument("--topology", default="v5e:2x2", help="which chips, and their grid (default: v5e:2x2)")
    lower.add_argument("--chips", type=_positive, default=1, metavar="N", help="how many of them (default: 1)")
    lower.add_argument(
        "--row-shards",
        type=_positive,
        default=1,
        metavar="N",
        help="how many of them share the rows of tables (default: 1)",
    )
    lower.add_argument(
        "--dtype", choices=list(suite.PRECISIONS),
        help="how factors of matrix products are rounded (default: each workload's own)",
    )  # fmt: skip
    _add_out(lower)
    lower.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")

    traced = parsers.add_parser(
        "profile", help="say where the time of a model's training steps goes",
        description="Trace some steps of a model's training, and print the time of each part of the model and of the "
        "heaviest operations, with the share that they reach of what the device can do.",
    )  # fmt: skip
    traced.set_defaults(run=commands.profile)
    names = list(registry.engine_models())
    traced.add_argument("name", metavar="NAME", choices=names, help=", ".join(names))
    traced.add_argument(
        "--trace", type=Path, required=True, metavar="DIR", help="a folder for the trace, which xprof and Perfetto show"
    )
    traced.add_argument("--top", type=_positive, default=20, metavar="N", help="operations to print (default: 20)")
    traced.add_argument("--json", action="store_true", help="end with one line of JSON: all operations")
    _add_data(traced)

    sets = parsers.add_parser("data", help="list data sets, or fetch one from its publisher")
    sets.set_defaults(run=commands.data)
    sets.add_argument("name", nargs="?", metavar="NAME", help="of the data set to fetch")
    sets.add_argument("--data-dir", type=Path, help=f"where data sets are (default: ${data.VARIABLE})")
    sets.add_argument("--base-url", metavar="URL", help="a folder that mirrors the publisher's file")
    sets.add_argument("--allow-http", action="store_true", help="also download over unencrypted http")

    page = parsers.add_parser(
        "report", help="make the pages of recorded results",
        description="Map tables to commands and results in the folder of records, and write report.html, one page with "
        "all of it, beside them. Of the project's own records: also bring README.md and docs/ up to date.",
    )  # fmt: skip
    page.set_defaults(run=commands.report)
    page.add_argument("--out", type=Path, default=record.RESULTS, help="the folder of records")
    return top


def _add_data(run: Parser) -> None:
    scales = list(dict.fromkeys(name for store in registry.stores() for name in store.scales))
    sets = list(dict.fromkeys(name for store in registry.stores() for name in store.data_sets))
    run.add_argument("--scale", choices=scales, default="smoke", help="how large (default: smoke)")
    run.add_argument("--data", choices=sets, help="data set (default: the scale's)")
    run.add_argument("--data-dir", type=Path, help=f"where data sets are (default: ${data.VARIABLE})")
    run.add_argument("--recipe", choices=RECIPES, default="tuned", help="how models are trained (default: tuned)")
    run.add_argument("--work", type=Path, default=WORK, help=f"where trained models are (default: {WORK})")


def _add_out(parser: Parser) -> None:
    """Add the options that say where records go; the project's own records are replaced only with `--record`."""
    where = parser.add_mutually_exclusive_group()
    out = WORK / "results"
    where.add_argument("--out", type=Path, default=out, help=f"where records go (default: {out})")
    where.add_argument(
        "--record", dest="out", action="store_const", const=record.RESULTS,
        help="replace the project's recorded results (benchmarks/results)",
    )  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    with interrupts.one_line("benchmarks", arguments is None):
        given = sys.argv[1:] if arguments is None else arguments
        return command.run("benchmarks", partial(parser, given), arguments, cached=True)


if __name__ == "__main__":
    sys.exit(main())
