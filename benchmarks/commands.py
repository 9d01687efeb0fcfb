"""The commands of `python -m benchmarks`, each a function of its parsed options.

Tables and profiles have matrix products of full precision, so that figures do not depend on a device's default.
"""

import argparse
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from benchmarks import registry
from benchmarks.core import jobs, markdown, record, table, timing
from benchmarks.core.run import file_name, missing_rows, run_table
from benchmarks.core.store import Store
from benchmarks.core.table import Table
from benchmarks.data import fetch, sets
from benchmarks.measurement import comparison, dry_run, limits
from benchmarks.measurement.doctor import checks
from benchmarks.profiling import breakdown, xplane
from benchmarks.profiling.hlo import Module
from benchmarks.report import fidelity, html, maps, pages
from benchmarks.speed import page
from benchmarks.speed import run as speeds
from benchmarks.workloads import lowering, scorecard
from benchmarks.workloads import suite as workloads
from benchmarks.workloads.registry import WORKLOADS
from jaxfit.cli import command
from jaxfit.devices.precision import full_precision
from jaxfit.errors import UserError, suggestion


def list_all(args: argparse.Namespace) -> None:
    """List tables, scales and models (`list`)."""
    _print_rows(("name", "section", "what"), ((t.name, t.section, t.title) for t in registry.TABLES.values()))
    scales = [(scale, store.chapters) for store in registry.stores() for scale in store.scales.values()]
    _print_rows(("scale", "for", "data", "what"), ((s.name, chapters, s.data, s.about) for s, chapters in scales))
    models = [model for _, model in registry.models().values()]
    _print_rows(("model", "source", "what"), ((m.name, m.source, m.about) for m in models))


@full_precision()
def run(args: argparse.Namespace) -> None:
    """Make tables, or project what they would cost (`run`)."""
    tables = _chosen(args)
    jobs.check(args.jobs)
    several = args.jobs > 1 and not args.dry_run and args.helper is None
    if args.helper is not None:
        jobs.end_with_parent()
    stores: dict[type[Store], Store] = {}
    results: dict[str, Any] = {}
    projected = dry_run.DryRun()
    try:
        for item in tables:
            try:
                store = stores[item.store] = stores.get(item.store) or _open(args, item.store)
            except UserError as missing:
                if "all" not in args.names or (item is tables[-1] and not results):
                    raise
                print(f"benchmarks: {item.name} is left out: {missing}", file=sys.stderr)
                continue
            if several:  # only once the data have been found
                record.read_table(args.out / file_name(item.name, store))  # an invalid record is an error now
                jobs.side_by_side(args.given, args.jobs)
                several = False
            rows = table.named(item.rows(store.scale, args.seeds), args.rows)
            if args.dry_run:
                wanted = missing_rows(item, store, args.out, rows, missing=True) if args.missing else rows
                results[item.name] = projected.project(item, store, wanted)
                _print(dry_run.shown(item.name, results[item.name]))
            elif args.helper is not None:
                jobs.train_free(store, missing_rows(item, store, args.out, rows, args.missing), args.helper)
            else:
                again = command_of(args, item.name)
                results[item.name] = run_table(item, store, args.out, args.seeds, args.rows, again, args.missing)
                _print_table(results[item.name])
    except KeyboardInterrupt as stop:
        if args.helper is not None:  # the process that started this one reports it
            raise SystemExit(2) from None
        raise command.Stopped(stop, " - give the same command again to go on") from None
    if args.dry_run and len(tables) > 1:
        print(f"all {len(tables)}: at most {sum(result['hours'] for result in results.values()):.2f} hours")
    if args.json:
        command.print_json(results)


def _chosen(args: argparse.Namespace) -> list[Table]:
    """Find the tables that are named and have the rows asked for; in a dry run, a model is a table of one row.

    Raises:
        UserError: a table does not exist, cannot be made from the data set, or keeps nothing for `--missing`; or no
            table has such a row.
    """
    known = dict(registry.TABLES)
    fitting = [name for name in known if _fits(args, known[name].store)]
    if args.dry_run:
        known |= {name: _of_model(name, store) for name, store in registry.engine_models().items()}
    names = dict.fromkeys(x for name in args.names for x in (fitting if name == "all" else [name]))
    for name in names:
        if name not in known:
            if name in registry.engine_models():
                raise UserError(f"{name} is a model, not a table", do="add --dry-run, or name a table")
            raise UserError(f"there is no table {name!r}", do=suggestion(name, [*known, "all"]))
        _check_data(args, f"{name} is not made", known[name].store)
        if args.missing and not known[name].kept:
            what = f"nothing is kept of {name} beside its record"
            raise UserError(what, "--missing", f"leave it out, or choose {', '.join(registry.kept())}")
    scales = {name: known[name].store.adjusted(known[name].store.scales[args.scale], args.recipe) for name in names}
    rows = {name: known[name].rows(scales[name], args.seeds) for name in names}
    chosen = [known[name] for name in names if table.named(rows[name], args.rows)]
    if not chosen:
        begins = ", ".join(dict.fromkeys(row.label[0] for found in rows.values() for row in found))
        raise UserError(f"no row is named {args.rows!r}", "--rows", f"they begin with {begins}")
    return chosen


def _fits(args: argparse.Namespace, kind: type[Store]) -> bool:
    """Return whether the data set that is asked for, if any, is one of this kind of store."""
    return args.data is None or args.data in kind.data_sets


def _check_data(args: argparse.Namespace, what: str, kind: type[Store]) -> None:
    if not _fits(args, kind):
        raise UserError(f"{what} on {args.data}", "--data", f"choose {', '.join(kind.data_sets)}")


def _of_model(name: str, store: type[Store]) -> Table:
    """Return a model in the size that is usual at a scale, as a table of one row without figures."""

    def rows(scale: Any, seeds: int | None) -> list[table.Row]:
        return [table.Row((name,), ((store.example(name, scale),),), {}, lambda store, specs, part: {})]

    return Table(store, name, "", store.registered.get(name).about, ("model",), (), rows)


def _open(args: argparse.Namespace, kind: type[Store]) -> Store:
    show = getattr(args, "show", False)
    epochs = getattr(args, "epochs", None)
    store = kind.open(args.scale, args.data, args.data_dir, args.recipe, args.work, show, epochs)
    scale = store.scale
    if args.recipe == "tuned" and scale.tuned and args.data not in (None, scale.data):
        warning = f"the tuned recipe of scale {scale.name} was tuned on {scale.data}, not on {args.data}"
        print(f"benchmarks: {warning}", file=sys.stderr)
    return store


def command_of(args: argparse.Namespace, name: str) -> str:
    """Return the command that makes this table, without the options that say where models and records are."""
    words = ["python", "-m", "benchmarks", "run", name, "--scale", args.scale]
    words += ["--data", args.data] if args.data else []
    words += ["--recipe", args.recipe] if args.recipe != "tuned" else []
    words += ["--epochs", str(args.epochs)] if args.epochs else []
    words += ["--seeds", str(args.seeds)] if args.seeds else []
    return shlex.join(words)


def _print_table(result: dict[str, Any]) -> None:
    of = f" (§{result['section']})" if result["section"] else ""
    title = f"{result['table']}{of}: {result['title']}; {result['data']['name']}, "
    shown = RichTable(title=f"{title}{result['scale']}, {result['recipe']}", title_justify="left")
    for number, title in enumerate(markdown.header(result)):
        ours = number < len(result["heads"])
        shown.add_column(
            title, justify="left" if ours else "right", style="dim" if title in ("thesis", "published") else ""
        )
    for row in result["rows"]:
        shown.add_row(*map(escape, markdown.cells(result, row)))
    _print(shown)
    for verdict in result["verdicts"] or []:
        print(markdown.verdict_line(verdict).replace("**", ""))


def speed(args: argparse.Namespace) -> None:
    """Measure how fast models train (`speed`)."""
    result = speeds.run(args.names or speeds.usual(), args.peers, args.out, args.quick)
    for name, figures in result["figures"].items():
        for title, table_of in figures["tables"].items():
            _print_figures(f"{name}: {title}", table_of)
    if args.json:
        command.print_json(result)


def suite(args: argparse.Namespace) -> None:
    """Measure the standard workloads on this machine's devices (`suite`)."""
    _check_workloads(args.workload)
    small = [name for name, workload in WORKLOADS.items() if workload.small]
    if args.quick and (large := [name for name in args.workload if name not in small]):
        what = f"{large[0]} is too large for the quick suite"
        raise UserError(what, "--quick", f"leave --quick out, or choose {', '.join(small)}")
    precisions = workloads.swept(args.dtype)
    names = args.workload or (small if args.quick else list(WORKLOADS))
    if not args.workload and args.devices > 1 and (alone := [n for n in names if WORKLOADS[n].on_one_device]):
        print(f"  left out, as each runs on one device: {', '.join(alone)}", file=sys.stderr)
        names = [name for name in names if name not in alone]
    seconds = args.seconds or (workloads.QUICK if args.quick else workloads.WINDOW)
    result = workloads.run(names, precisions, seconds, args.batch_size, args.devices, args.out, args.scaling)
    _print_figures("suite", scorecard.summary(result))
    print(scorecard.SHARE)
    if args.json:
        command.print_json(result)


def _check_workloads(names: Iterable[str]) -> None:
    for name in names:
        if name not in WORKLOADS:
            raise UserError(f"there is no workload {name!r}", do=suggestion(name, WORKLOADS))


def _print_figures(title: str, table_of: Mapping[str, Mapping[str, Any]]) -> None:
    heads, *rows = page.cells(table_of)
    shown = RichTable(title=title, title_justify="left")
    shown.add_column(heads[0], no_wrap=True)
    for head in heads[1:]:
        shown.add_column(head, justify="right")
    for row in rows:
        shown.add_row(*row)
    _print(shown)


def compare(args: argparse.Namespace) -> None:
    """Tell changes of speed from noise (`compare`)."""
    results = comparison.compare([args.first, *args.others])
    if args.json:
        command.print_json({"comparisons": results})
        return
    for result in results:
        print(f"{result['second']} compared with {result['first']}")
        print(f"environments: {'; '.join(result['environment']) or 'equal'}")
        print(f"the machine: {comparison.in_words(result['machine'])}")
        for which in ("first", "second"):
            if alone := result[f"only {which}"]:
                print(f"in the {which} only: {'; '.join(alone)}")
        shown = RichTable(
            "what", "first", "second", "ratio", "95 % interval of the ratio", "ratios that the machine explains",
            "p (Holm)", "the second is",
        )  # fmt: skip
        for row in result["measurements"]:
            first, second, ratio, p = (page.in_words(row[key]) for key in ("first", "second", "ratio", "corrected p"))
            between, explained = (" to ".join(map(page.in_words, row[key])) for key in ("interval", "explained"))
            shown.add_row(row["name"], first, second, ratio, between, explained, p, row["verdict"])
        _print(shown)
        for line in comparison.settings_in_words(result["measurements"]):
            print(line)
        if mean := result["mean"]:
            of, ratio = mean["of"], page.in_words(mean["ratio"])
            low, high = map(page.in_words, mean["interval"])
            print(f"geometric mean of the {of} speeds of training, second over first: {ratio} [{low}, {high}]")
        verdicts = [row["verdict"] for row in result["measurements"]]
        differ = verdicts.count(comparison.FASTER) + verdicts.count(comparison.SLOWER)
        unjudged = verdicts.count(comparison.OTHER) + verdicts.count(comparison.FEW)
        print(f"{differ} of {len(verdicts)} measurements differ{f', {unjudged} are not judged' if unjudged else ''}")


def doctor(args: argparse.Namespace) -> None:
    """Say what of this machine and its packages decides speed (`doctor`)."""
    found = list(checks())
    if args.json:
        command.print_json({what: {"state": state, "found": said} for what, state, said in found})
        return
    _print_rows(("what", "state", "found"), found)


def lower(args: argparse.Namespace) -> None:
    """Compile workloads for devices that are not here (`lower`)."""
    _check_workloads(args.names)
    names = args.names or list(WORKLOADS)
    record.make_folder(args.out)  # before anything is compiled
    rows = lowering.measure(names, args.platform, args.topology, args.chips, args.dtype, args.row_shards)
    compiled_for = {key: getattr(args, key) for key in ("platform", "topology", "chips")}
    lowering.save(args.out, rows, compiled_for | ({lowering.SPLIT: args.row_shards} if args.row_shards > 1 else {}))
    if args.json:
        command.print_json(rows)
        return
    _print_figures(f"{args.chips} of {args.topology}", rows)


@full_precision()
def profile(args: argparse.Namespace) -> None:
    """Write a trace of some steps of a model's training, and say where their time went (`profile`)."""
    kind = registry.engine_models()[args.name]
    _check_data(args, f"{args.name} is not trained", kind)
    store = _open(args, kind)
    record.make_folder(args.trace, "--trace")  # before anything is trained
    traced = timing.trace(store.trainer(store.example(args.name, store.scale)), args.trace)
    module, path = Module(traced.program), xplane.newest(args.trace)
    reached = {name: rate() for name, rate in limits.measures(limits.OPERATIONS, limits.COPY).items()}
    wall = {"wall": traced.untraced, "wall while traced": traced.seconds}
    result = breakdown.profile(xplane.read(path, module.name), module, traced.steps, reached, wall)
    print(f"{traced.steps} step{'s' * (traced.steps != 1)} of {args.name}, traced in {path}")
    _print_figures("parts of the model", breakdown.table(result["parts"], len(result["parts"])))
    _print_figures("operations", breakdown.table(result["operations"], args.top))
    for what, value in breakdown.summary(result, args.top, reached).items():
        print(f"{what}: {page.in_words(value)}")
    if args.json:
        command.print_json({"model": args.name, "steps": traced.steps, "trace": str(path), "limits": reached, **result})


def data(args: argparse.Namespace) -> None:
    """List data sets, or fetch one (`data`)."""
    if args.name is None:
        found = ((d.name, "yes" if sets.is_there(d.name, args.data_dir) else "", d) for d in sets.DATA_SETS.values())
        rows = ((name, there, d.title, d.terms) for name, there, d in found)
        _print_rows(("name", "here", "what", "terms"), rows)
        folder = sets.folder(args.data_dir)
        print(f"here: in {folder}" if folder else f"here: not known without --data-dir or {sets.VARIABLE}")
        return
    for path in fetch.fetch(args.name, args.data_dir, args.base_url, allow_http=args.allow_http):
        print(path)


def report(args: argparse.Namespace) -> None:
    """Write the pages that are made from records and registries (`report`)."""
    if not args.out.is_dir():
        raise UserError("there is no such folder of records", args.out, "check the name: --out")
    print(maps.write(args.out, registry.TABLES))
    claims = None
    if args.out == record.RESULTS:
        root = record.RESULTS.parents[1]
        judged = fidelity.records(args.out)
        for path in pages.write(root, args.out, judged):
            print(path)
        claims = root / "docs" / "fidelity.png"
        fidelity.draw(judged, claims)
    print(html.write(args.out / "report.html", args.out, registry.TABLES, claims))


def _print_rows(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    shown = RichTable(*heads, box=None)
    for row in rows:
        shown.add_row(*row)
    _print(shown)


def _print(shown: RichTable) -> None:
    # a fixed width where the output is no terminal: a pipe has none
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(shown)
