"""`python -m benchmarks`: the thesis' tables and figures, speed, and the data they are made on."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.core import dry_run, record, report, table
from benchmarks.data import fetch
from benchmarks.data import sets as data
from benchmarks.language import models as shelf
from benchmarks.language import scales, tables
from benchmarks.ratings import models as cf_shelf
from benchmarks.ratings import scales as cf_scales
from benchmarks.ratings import tables as cf_tables
from benchmarks.speed import profile
from benchmarks.speed import run as speed
from jaxfit.cli import command
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing

WORK = Path(".cache/benchmarks")
TABLES = {**tables.TABLES, **cf_tables.TABLES}


def parser() -> command.Parser:
    """The command line."""
    top = command.Parser(prog="python -m benchmarks", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("list", help="what can be run").set_defaults(run=_list)

    run = commands.add_parser("run", help="make tables", description="Make tables and figures of the thesis.")
    run.set_defaults(run=_run)
    run.add_argument(
        "names", nargs="+", metavar="NAME", help="a table or figure, as `list` shows them, or all"
    )
    _add_data(run)
    run.add_argument(
        "--seeds", type=_positive, metavar="K", help="trainings of each model (default: the table's)"
    )
    run.add_argument("--rows", metavar="TEXT", help="only the rows in whose label a word begins with TEXT")
    run.add_argument(
        "--dry-run", action="store_true", help="50 or more steps of each shape; projects hours and memory"
    )
    _add_out(run)
    run.add_argument("--show", action="store_true", help="show every model's training")
    run.add_argument("--json", action="store_true", help="end with one line of JSON")

    fast = commands.add_parser("speed", help="measure training speed, beside peers and the machine's limits")
    fast.set_defaults(run=_speed)
    known, long = ", ".join(speed.names()), ", ".join(speed.LONG)
    fast.add_argument("names", nargs="*", metavar="NAME", help=f"of {known} (default: all but {long})")
    fast.add_argument("--peers", action="store_true", help="also measure other programs, in the same run")
    _add_out(fast)
    fast.add_argument("--json", action="store_true", help="end with one line of JSON")

    traced = commands.add_parser("profile", help="write a trace of some steps of a model's training")
    traced.set_defaults(run=_profile)
    traced.add_argument("name", metavar="NAME", choices=profile.MODELS, help=", ".join(profile.MODELS))
    traced.add_argument("--trace", type=Path, required=True, metavar="DIR", help="for TensorBoard, Perfetto")
    _add_data(traced)

    sets = commands.add_parser("data", help="list data sets, or fetch one from its publisher")
    sets.set_defaults(run=_data)
    sets.add_argument("name", nargs="?", metavar="NAME", help="of the data set to fetch")
    sets.add_argument("--data-dir", type=Path, help=f"where to put it (default: ${data.VARIABLE})")

    page = commands.add_parser("report", help="map tables to commands and results, there and in README.md")
    page.set_defaults(run=_report)
    page.add_argument("--out", type=Path, default=record.RESULTS, help="the folder of records")
    return top  # fmt: skip


def _add_data(run: command.Parser) -> None:
    """What models are trained on, and how."""
    run.add_argument("--scale", choices=scales.SCALES, default="smoke", help="how large (default: smoke)")
    run.add_argument(
        "--data", choices=(*data.BUILT_IN, *data.DATA_SETS), help="data set (default: the scale's)"
    )
    run.add_argument("--data-dir", type=Path, help=f"where data sets are (default: ${data.VARIABLE})")
    run.add_argument(
        "--recipe", choices=scales.RECIPES, default="tuned", help="how models are trained (default: tuned)"
    )
    run.add_argument(
        "--work", type=Path, default=WORK, help=f"where trained models are kept (default: {WORK})"
    )


def _add_out(parser: command.Parser) -> None:
    """Where records go: the project's own are overwritten on demand only."""
    where = parser.add_mutually_exclusive_group()
    out = WORK / "results"
    where.add_argument("--out", type=Path, default=out, help=f"where records go (default: {out})")
    where.add_argument(
        "--record", dest="out", action="store_const", const=record.RESULTS,
        help="replace the project's recorded results (benchmarks/results)",
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    return command.run("benchmarks", parser, arguments)


def _list(args: argparse.Namespace) -> None:
    shown = RichTable("name", "section", "what", box=None)
    for name, item in TABLES.items():
        shown.add_row(name, item.section, item.title)
    _print(shown)
    shown = RichTable("scale", "for", "data", "what", box=None)
    for chapters, known in (("chapters 3, 4", scales.SCALES), ("chapter 5", cf_scales.SCALES)):
        for scale in known.values():
            shown.add_row(scale.name, chapters, scale.data, scale.about)
    _print(shown)


def _run(args: argparse.Namespace) -> None:
    fitting = [name for name in TABLES if args.data is None or _fits(args.data, name)]
    names = list(dict.fromkeys(x for name in args.names for x in (fitting if name == "all" else [name])))
    for name in names:
        if name not in TABLES:
            raise UserError(f"there is no table {name!r}", do=command.suggestion(name, [*TABLES, "all"]))
        if args.data is not None and not _fits(args.data, name):
            known = [known for known in (*data.BUILT_IN, *data.DATA_SETS) if _fits(known, name)]
            raise UserError(f"{name} is not made on {args.data}", "--data", f"choose {', '.join(known)}")
    rows = {name: TABLES[name].rows(_scale(args, name in cf_tables.TABLES), args.seeds) for name in names}
    names = [name for name in names if table.named(rows[name], args.rows)]
    if not names:
        begins = ", ".join(dict.fromkeys(row.label[0] for known in rows.values() for row in known))
        raise UserError(f"no row is named {args.rows!r}", "--rows", f"they begin with {begins}")
    shelves: dict[bool, Any] = {}  # whether of recommenders
    results = {}
    dry = dry_run.DryRun()
    try:
        for name in names:
            ratings = name in cf_tables.TABLES
            if ratings not in shelves:
                shelves[ratings] = _shelf(args, ratings)
            if args.dry_run:
                results[name] = _project(args, name, shelves[ratings], dry)
            else:
                results[name] = _make(args, name, shelves[ratings])
    except KeyboardInterrupt:
        raise command.Stopped("stopped by Ctrl-C - give the same command again to go on") from None
    if args.dry_run and len(names) > 1:
        print(f"all {len(names)}: at most {sum(result['hours'] for result in results.values()):.2f} hours")
    if args.json:
        command.print_json(results)


def _fits(name: str, table: str) -> bool:
    """Whether a table can be made on a data set."""
    holds = data.DATA_SETS[name].holds if name in data.DATA_SETS else "text"
    return name == "planted" or (holds == "ratings") == (table in cf_tables.TABLES)


def _scale(args: argparse.Namespace, ratings: bool) -> Any:
    return (cf_scales if ratings else scales).SCALES[args.scale]


def _shelf(args: argparse.Namespace, ratings: bool = False) -> Any:
    """The shelf of language models, or of recommenders, that the options name."""
    scale = _scale(args, ratings)
    # equal figures are wanted here, whatever a device's default; compiled programs are kept for the next run
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_compilation_cache_dir", str((args.work / "xla").absolute()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    load = cf_scales.rating_set if ratings else scales.corpus
    loaded: Any = load(args.data or scale.data, scale, args.data_dir)
    if args.recipe == "tuned" and scale.tuned and args.data not in (None, scale.data):
        said = f"the tuned recipe of scale {scale.name} was tuned on {scale.data}, not on {args.data}"
        print(f"benchmarks: {said}", file=sys.stderr)
    kind: Any = cf_shelf.Shelf if ratings else shelf.Shelf
    return kind(loaded, scale, args.recipe, args.work, getattr(args, "show", False))


def _project(args: argparse.Namespace, name: str, shelf: Any, dry: dry_run.DryRun) -> dict[str, Any]:
    projected = dry.project(TABLES[name], shelf, args.seeds, args.rows)
    _print(dry_run.shown(name, projected))
    return projected


def _make(args: argparse.Namespace, name: str, shelf: Any) -> dict[str, Any]:
    result = table.run(TABLES[name], shelf, args.out, args.seeds, args.rows, _command(args, name))
    _print_table(result)
    return result


def _command(args: argparse.Namespace, name: str) -> str:
    """The command that makes this table, without where things are kept."""
    words = ["python", "-m", "benchmarks", "run", name, "--scale", args.scale]
    words += ["--data", args.data] if args.data else []
    words += ["--recipe", args.recipe] if args.recipe != "tuned" else []
    words += ["--seeds", str(args.seeds)] if args.seeds else []
    return shlex.join(words)


def _print_table(result: dict[str, Any]) -> None:
    title = f"{result['table']} (§{result['section']}): {result['title']}; {result['data']['name']}, "
    shown = RichTable(title=f"{title}{result['scale']}, {result['recipe']}", title_justify="left")
    for number, title in enumerate(table.header(result)):
        ours = number < len(result["heads"])
        shown.add_column(title, justify="left" if ours else "right", style="dim" if title == "thesis" else "")
    for row in result["rows"]:
        shown.add_row(*table.cells(result, row))
    _print(shown)
    for question, answer in result["answers"].items():
        print(f"{question}: {table.said(answer)}")


def _speed(args: argparse.Namespace) -> None:
    result = speed.run(args.names or speed.usual(), args.peers, args.out)
    shown = RichTable("what", "figure", title="speed", title_justify="left")
    for name, value in speed.flat(result["figures"]):
        shown.add_row(name, value)
    _print(shown)
    if args.json:
        command.print_json(result)


def _profile(args: argparse.Namespace) -> None:
    steps = profile.trace(args.name, _shelf(args), args.trace)
    print(f"{steps} steps of {args.name} in {args.trace}")


def _data(args: argparse.Namespace) -> None:
    if args.name is None:
        shown = RichTable("name", "what", "terms", box=None)
        for item in data.DATA_SETS.values():
            shown.add_row(item.name, item.title, item.terms)
        _print(shown)
        return
    for path in fetch.fetch(args.name, args.data_dir):
        print(path)


def _report(args: argparse.Namespace) -> None:
    print(report.write(args.out, TABLES))
    page = record.RESULTS.parents[1] / "README.md"
    if args.out == record.RESULTS:
        text = report.fill(page.read_text(encoding="utf-8"), args.out, TABLES)
        with replacing(page) as part:
            part.write_text(text, encoding="utf-8")
        print(page)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _print(shown: RichTable) -> None:
    # as wide as the table where the output is no terminal: a pipe has no width
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(shown)


if __name__ == "__main__":
    sys.exit(main())
