"""`jaxlm train MODEL`: the corpus, the training, and its results."""

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaxfit.cli import options
from jaxfit.cli.command import Parser, Stopped, output, print_json
from jaxfit.errors import UserError
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.metadata import CONFIG, read_info
from jaxlm import models, train
from jaxlm.cli.training_options import Plan, add_model, add_text, plan
from jaxlm.contract import BySGD, LanguageModel, PredictsWords
from jaxlm.data import default_text, user_text
from jaxlm.data.corpus import Corpus, Texts
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks.evaluate import Evaluation, evaluate
from jaxlm.trained_model import Trained


def add(parser: Parser) -> None:
    """Give the parser of `jaxlm train` a parser for each model; a model is imported when it is chosen, or for help."""
    parser.description = "Train a model. Its options: jaxlm train MODEL --help"
    known: Any = parser.add_subparsers(metavar="MODEL", dest="model", required=True, title="models")
    for name in models.names():
        usage = f"jaxlm train {name} --train FILE… --out DIR [options]"
        chosen = known.add_parser(name, help=lambda name=name: _about(models.get(name)), usage=usage)
        chosen.add_options = lambda parser, name=name: _add_options(parser, models.get(name))


def _about(model: LanguageModel) -> str:
    return f"{model.about} ({model.source})"


def _add_options(parser: Parser, model: LanguageModel) -> None:
    parser.description = f"Train {_about(model)}."
    parser.set_defaults(run=run)
    add_text(parser, carves=isinstance(model.fitting, BySGD))
    add_model(parser, model)


def run(args: argparse.Namespace) -> None:
    """Train a model and print its results."""
    place, model = output(args, folder=True), models.get(args.model)
    chosen = plan(args, model)
    with _place(model, place) as (out, leads):
        _check_place(out, model, chosen)
        with locked(out):
            _run(args, model, chosen, out, leads)


@contextmanager
def _place(model: LanguageModel, out: Path) -> Iterator[tuple[Path, bool]]:
    """Yield where this process writes the model, and whether it is the one of several processes that prints."""
    if not isinstance(model.fitting, BySGD):
        yield out, True
        return
    from jaxfit.devices import distributed

    with distributed.folder(out) as own:
        yield own, distributed.leads()


def _run(args: argparse.Namespace, model: LanguageModel, chosen: Plan, out: Path, leads: bool) -> None:
    try:
        texts = _read(args, out, carve=isinstance(model.fitting, BySGD))
        for note in texts.notes if leads else ():
            print(f"{args.model}: {note}", file=sys.stderr)
        trained = _train(args, chosen, texts.corpus, out)
    finally:
        (out / user_text.IDS).unlink(missing_ok=True)
    results = _evaluate(trained, texts)
    if not leads:
        return
    if args.json:
        print_json(_record(args, trained, texts.corpus, results))
    else:
        _report(args, trained, texts.corpus, results)


def _evaluate(trained: Trained, texts: Texts) -> dict[str, Evaluation]:
    """Evaluate the model on validation (whose score training knows) and test text, where there is any.

    Nothing for a model without a distribution, and where time ran out before the model's own training began.
    """
    results: dict[str, Evaluation] = {}
    if trained.model is None or trained.model.record.capability(PredictsWords) is None:
        return results
    known = _known_score(trained)
    for name, ids in (("valid", texts.corpus.valid), ("test", texts.corpus.test)):
        unknown = texts.unknown[name]
        if name == "valid" and known is not None:
            results[name] = Evaluation(-known * len(ids), len(ids), unknown)
        elif len(ids):
            results[name] = evaluate(trained.model.event_log_probs(ids), unknown)
    return results


def _known_score(trained: Trained) -> float | None:
    """Return the mean -log P of validation words, nats, where the validation of the training has computed it.

    A sequential program's validation reads the text as several streams, whose beginnings have no history.
    """
    model, fitted = trained.model, trained.fitted
    if model is None or fitted is None or not math.isfinite(fitted.score):
        return None
    assert isinstance(model.record.fitting, BySGD)
    program = model.record.fitting.program(model.config)
    return fitted.score if program.metric.name == "perplexity" and program.sequential is None else None


def _check_place(out: Path, model: LanguageModel, chosen: Plan) -> None:
    """Raise a UserError where another model is in the folder."""
    if not (out / CONFIG).exists():
        return
    there = read_info(out)["model"]
    same = there == model.name and isinstance(model.fitting, BySGD)
    if same and chosen.run is not None and chosen.run.resume:
        return
    advice = "add --resume to go on with it, or choose another --out"
    raise UserError(f"a model is there already: {there}", out, advice if same else "choose another --out")


def _read(args: argparse.Namespace, out: Path, carve: bool) -> Texts:
    valid, test = args.valid or (), args.test or ()
    if not args.train:
        if args.vocab or args.vocab_size or options.given(args, Reading):
            given = "--vocab, --vocab-size, --lower, …"
            raise UserError("the default data is read in one way only", given, "give --train FILE")
        return default_text.default(valid, test, args.min_count or 2)
    return user_text.from_files(
        args.train, valid, test,
        reading=Reading(**options.given(args, Reading)),
        vocabulary=Vocabulary.load(args.vocab) if args.vocab else None,
        size=args.vocab_size, min_count=args.min_count or 1, carve=carve, directory=out,
    )  # fmt: skip


def _train(args: argparse.Namespace, chosen: Plan, data: Corpus, out: Path) -> Trained:
    advice = "give the same command with --resume to go on"
    try:
        return train.train(
            args.model, data, out, recipe=chosen.recipe, config=chosen.config, structure=chosen.structure,
            seed=chosen.seed, run=chosen.run,
        )  # fmt: skip
    except KeyboardInterrupt as stop:
        if chosen.run is None:
            raise
        from jaxfit.fit import Interrupted

        if isinstance(stop, Interrupted):
            raise Stopped(f"stopped by Ctrl-C, all is saved ({out}) - {advice}") from None
        # outside the epochs: in building a structure, in compiling
        raise Stopped(f"stopped by Ctrl-C ({out}) - {advice} from what is saved") from None


def _record(args: argparse.Namespace, trained: Trained, data: Corpus, results: dict[str, Evaluation]) -> dict[str, Any]:
    fitted, model = trained.fitted, trained.model
    return {
        "command": "train",
        "model": args.model,
        "out": args.out,
        "stopped": trained.stopped,
        "words": len(data.vocabulary),
        "parameters": None if model is None else model.num_parameters(),
        "config": None if model is None else model.info["config"],
        "events": {"train": len(data.train), "valid": len(data.valid), "test": len(data.test)},
        "epochs": len(fitted.history) if fitted else None,
        "examples_per_second": _speed(trained),
        "seconds": trained.seconds,
        **{name: result.record() for name, result in results.items()},
    }


def _report(args: argparse.Namespace, trained: Trained, data: Corpus, results: dict[str, Evaluation]) -> None:
    words, model = f"{len(data.vocabulary):,} words", trained.model
    if model is None:
        print(f"{args.model}: {words}, not trained yet: time ran out in the stage before, in {args.out}")
    else:
        unit = "parameters" if isinstance(model.record.fitting, BySGD) else "n-grams"
        print(f"{args.model}: {words}, {model.num_parameters():,} {unit}, in {args.out}")
    so_far = "" if trained.stopped == "done" else " so far"
    for name, title in (("valid", "validation"), ("test", "test")):
        if name in results:
            result = results[name]
            print(
                f"{title} perplexity{so_far} {result.perplexity:.2f} "
                f"({result.events:,} events, {result.unknown:,} unknown)"
            )
    if trained.stopped != "done":
        print("stopped after --max-minutes: give the same command with --resume to go on")
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in trained.seconds.items())
    if model is not None and isinstance(model.record.fitting, BySGD) and trained.fitted is None:
        print("its training had finished before")
    elif spent:
        speed = _speed(trained)
        print(f"time: {spent}" + (f", {speed:,.0f} words/s" if speed else ""))


def _speed(trained: Trained) -> float | None:
    fitted = trained.fitted
    return fitted.events / fitted.train_seconds if fitted and fitted.train_seconds else None
