"""`jaxlm train MODEL`: the corpus, the training, and what came of it."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from jaxfit import distributed as processes
from jaxfit.cli import options
from jaxfit.cli.command import Stopped, print_json
from jaxfit.errors import UserError
from jaxfit.fit import Interrupted
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.metadata import CONFIG, PARAMETERS, read_info
from jaxlm import train
from jaxlm.cli.training_options import MODELS, NEURAL, Plan, add_neural, add_ngram, add_text, plan
from jaxlm.data import corpus
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks.evaluate import Evaluation, evaluate


def add(commands: Any) -> None:
    """Add the command to those of `jaxlm`."""
    parser = commands.add_parser(
        "train", help="train a model on text files", description="Train a model. Its options: jaxlm train MODEL --help"
    )  # fmt: skip
    models = parser.add_subparsers(metavar="MODEL", dest="model", required=True, title="models")
    for name, about in MODELS.items():
        model = models.add_parser(
            name, help=about, description=f"Train {about}.",
            usage=f"jaxlm train {name} --train FILE… --out DIR [options]",
        )  # fmt: skip
        model.set_defaults(run=run)
        add_text(model, name)
        if name in NEURAL:
            add_neural(model, name)
        else:
            add_ngram(model, name)


def run(args: argparse.Namespace) -> None:
    """Train a model and say what came of it."""
    if not args.out:
        raise UserError("--out is missing", args.parser.prog, "name a folder for the model: --out DIR")
    chosen = plan(args) if args.model in NEURAL else None
    with processes.folder(Path(args.out)) as out:
        _check_place(out, args.model, chosen is not None and chosen.run.resume)
        with locked(out):
            _run(args, out, chosen)


def _run(args: argparse.Namespace, out: Path, chosen: Plan | None) -> None:
    texts = _read(args, out, chosen is not None)
    for note in texts.notes if processes.leads() else ():
        print(f"{args.model}: {note}", file=sys.stderr)
    trained = (
        _train_neural(args, texts.corpus, out, chosen) if chosen else _train_ngram(args, texts.corpus, out)
    )
    (out / corpus.IDS).unlink(missing_ok=True)
    stopped = trained.fitted.stopped if trained.fitted else "done"
    # nothing is to be told when time was up while the bootstrap was trained
    results = _evaluate(trained, texts) if chosen is None or (out / PARAMETERS).is_dir() else {}
    if not processes.leads():
        return
    if args.json:
        print_json(_record(args, trained, texts.corpus, results, stopped))
    else:
        _report(args, trained, texts.corpus, results, stopped)


def _evaluate(trained: train.Trained, texts: corpus.Texts) -> dict[str, Evaluation]:
    """Evaluate the model on validation (whose score training knows) and test text, where there is any."""
    results = {}
    for name, ids in (("valid", texts.corpus.valid), ("test", texts.corpus.test)):
        fitted, unknown = trained.fitted, texts.unknown[name]
        if name == "valid" and fitted is not None and math.isfinite(fitted.score):
            results[name] = Evaluation(-fitted.score * len(ids), len(ids), unknown)
        elif len(ids):
            results[name] = evaluate(trained.model.event_log_probs(ids), unknown)
    return results


def _check_place(out: Path, kind: str, resume: bool) -> None:
    """Raise a UserError where something else stands in the model's place."""
    if out.exists() and not out.is_dir():
        raise UserError("a file stands where the model's folder should", out, "choose another --out")
    if (out / CONFIG).exists() and not resume:
        there = read_info(out)
        advice = "add --resume to go on with it, or choose another --out"
        same = there["model"] == kind and kind in NEURAL
        what = f"a model of kind {there['model']} is there already"
        raise UserError(what, out, advice if same else "choose another --out")
    if (out / CONFIG).exists() and read_info(out)["model"] != kind:
        what = f"a model of kind {read_info(out)['model']} is there already"
        raise UserError(what, out, "choose another --out")


def _read(args: argparse.Namespace, out: Path, carve: bool) -> corpus.Texts:
    valid, test = args.valid or (), args.test or ()
    if not args.train:
        if args.vocab or args.vocab_size or options.given(args, Reading):
            raise UserError(
                "the default data is read in one way only",
                "--vocab, --vocab-size, --lower, …",
                "give --train FILE",
            )
        return corpus.default(valid, test, args.min_count or 2)
    return corpus.from_files(
        args.train, valid, test,
        reading=Reading(**options.given(args, Reading)),
        vocabulary=Vocabulary.load(args.vocab) if args.vocab else None,
        size=args.vocab_size, min_count=args.min_count or 1, carve=carve, directory=out,
    )  # fmt: skip


def _train_ngram(args: argparse.Namespace, data: corpus.Corpus, out: Path) -> train.Trained:
    more = {name: vars(args)[name] for name in ("order", "interpolated") if name in vars(args)}
    return train.ngram(data, out, kind=args.model, **more)


def _train_neural(args: argparse.Namespace, data: corpus.Corpus, out: Path, chosen: Plan) -> train.Trained:
    advice = "give the same command with --resume to go on"
    try:
        return getattr(train, args.model)(
            data, out, recipe=chosen.recipe, config=chosen.config, seed=args.seed, run=chosen.run, **chosen.more
        )  # fmt: skip
    except Interrupted:
        raise Stopped(f"stopped by Ctrl-C, all is saved ({out}) - {advice}") from None
    except KeyboardInterrupt:  # outside the epochs: in building a tree, in compiling
        raise Stopped(f"stopped by Ctrl-C ({out}) - {advice} from what is saved") from None


def _parameters(trained: train.Trained) -> int:
    params = trained.model.params
    if hasattr(params, "tables"):  # n-grams of all orders
        return sum(len(table.keys) for table in params.tables)
    return sum(int(leaf.size) for leaf in params)


def _record(
    args: argparse.Namespace,
    trained: train.Trained,
    data: corpus.Corpus,
    results: dict[str, Evaluation],
    stopped: str,
) -> dict[str, Any]:
    fitted = trained.fitted
    return {
        "command": "train",
        "model": args.model,
        "out": args.out,
        "stopped": stopped,
        "words": len(data.vocabulary),
        "parameters": _parameters(trained),
        "config": trained.model.info["config"],
        "events": {"train": len(data.train), "valid": len(data.valid), "test": len(data.test)},
        "epochs": len(fitted.history) if fitted else None,
        "examples_per_second": _speed(trained),
        "seconds": trained.seconds,
        **{name: result.record() for name, result in results.items()},
    }


def _report(
    args: argparse.Namespace,
    trained: train.Trained,
    data: corpus.Corpus,
    results: dict[str, Evaluation],
    stopped: str,
) -> None:
    size = "n-grams" if args.model not in NEURAL else "parameters"
    print(f"{args.model}: {len(data.vocabulary):,} words, {_parameters(trained):,} {size}, in {args.out}")
    for name, title in (("valid", "validation"), ("test", "test")):
        if name in results:
            result = results[name]
            print(
                f"{title} perplexity {result.perplexity:.2f} ({result.events:,} events, {result.unknown:,} unknown)"
            )
    if stopped != "done":
        print("stopped after --max-minutes: give the same command with --resume to go on")
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in trained.seconds.items())
    if args.model in NEURAL and trained.fitted is None:
        print("its training had finished before")
    elif spent:
        speed = _speed(trained)
        print(f"time: {spent}" + (f", {speed:,.0f} words/s" if speed else ""))


def _speed(trained: train.Trained) -> float | None:
    fitted = trained.fitted
    return fitted.events / fitted.train_seconds if fitted and fitted.train_seconds else None
