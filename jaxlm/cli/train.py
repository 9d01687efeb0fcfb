"""`jaxlm train MODEL`: the corpus, the training, and its results."""

from __future__ import annotations

import argparse
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxfit.cli import options, streams, training_options
from jaxfit.cli.command import note, output, print_json
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import Parser
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import stored_in
from jaxfit.files.opening import require_read_once
from jaxfit.plan import Plan, require_consistent, require_stops
from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Trained
from jaxlm import card, models, training
from jaxlm.capabilities import PredictsWords
from jaxlm.cli import model_command
from jaxlm.contract import RENAMED, BySGD, LanguageModel
from jaxlm.data import default_text, user_text
from jaxlm.data.corpus import Corpus, Texts
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.initial import fingerprint
from jaxlm.model_files import FILES
from jaxlm.tasks.evaluate import Evaluation, evaluate, show_normalizers, spread_of_normalizers
from jaxlm.trained_model import Model

if TYPE_CHECKING:
    from jaxlm.data.documents.collection import DocumentCorpus
    from jaxlm.data.documents.reading import DocumentFiles
    from jaxlm.tasks.documents import DocumentEvaluation

    Results = dict[str, Evaluation | DocumentEvaluation]

NAMES = {"valid": "validation", "test": "test"}


def add(parser: Parser) -> None:
    """Give the parser of `jaxlm train` a parser for each model."""
    training_options.add_models(parser, models.REGISTRY, "--train FILE… --out DIR", add_options)


def add_options(parser: Parser, model: LanguageModel) -> None:
    """Add the options of a model's training."""
    parser.set_defaults(run=run)
    if model.reads == "documents":
        from jaxlm.cli import documents  # here and below, as texts do without what it imports

        documents.add_data(parser, carves=isinstance(model.fitting, BySGD))
    else:
        tested = model.capability(PredictsWords) is not None
        _add_text(parser, carves=isinstance(model.fitting, BySGD), tested=tested)
    training_options.add_result(parser)
    if isinstance(model.fitting, BySGD):
        parser.add_argument(
            "--init", metavar="DIR",
            help=Rare("begin from a trained model's parameters of the same names; words are matched by name"),
        )  # fmt: skip
    of_config = [field.name for field in fields(model.config)]
    for structure in model.structures:
        group = parser.add_argument_group(structure.name)
        options.add(group, structure.options, skip=of_config, switches=True)
    renamed = {field: name.replace("_", "-") for name, field in RENAMED.items()}
    training_options.add(parser, model.config, model.recipes, skip=model.fields_from_data, rename=renamed)


def _add_text(parser: Parser, carves: bool, tested: bool) -> None:
    """Add the text and its vocabulary.

    Args:
        carves: whether it takes validation text from the training text.
        tested: whether it has a use for test text.
    """
    text = parser.add_argument_group("text (plain, one sentence a line, also gz, bz2, xz; - is standard input)")
    options.files(text, "--train", "training text (default: prose that comes with Python)")
    carved = " (default: the last 5 %% of the training text)" if carves else ""
    options.files(text, "--valid", "validation text" + carved)
    if tested:
        options.files(text, "--test", "text to evaluate the finished model on")
    else:
        parser.set_defaults(test=None)
    words = parser.add_argument_group("vocabulary").add_mutually_exclusive_group()
    words.add_argument("--vocab", metavar="FILE", help=Rare("a list of words, one a line, to which <unk> is added"))
    words.add_argument(
        "--vocab-size", type=options.number("--vocab-size", low=3), metavar="N",
        help="the most frequent words; the others become <unk> (words, with <eos> and <unk>)",
    )  # fmt: skip
    words.add_argument(
        "--min-count", type=options.number("--min-count"), metavar="N",
        help="words seen less often become <unk> (default: 2; 1 for a text that has <unk> itself)",
    )  # fmt: skip
    words.add_argument(
        "--closed-vocabulary", action="store_true",
        help=Rare("keep all words and add no <unk>: other words are errors, unless the text has <unk> itself"),
    )  # fmt: skip
    options.add(parser.add_argument_group("reading"), Reading, switches=True)


class Task(NamedTuple):
    """What the options say of a training; structure: the options of the model's structure, None where it has none."""

    place: Path
    model: LanguageModel
    plan: Plan
    structure: Any

    @property
    def resumable(self) -> bool:
        """Whether the engine trains the model, with validation text that is set aside if none is given."""
        return isinstance(self.plan.recipe, Recipe)


class Done(NamedTuple):
    """A trained model, None where time ran out in the stage before; its data, and how it did."""

    trained: Trained[Model | None]
    data: Corpus | DocumentCorpus
    results: Results


def run(args: argparse.Namespace) -> None:
    """Train a model and print its results."""
    streams.escape()
    task = check(args)
    require_consistent(task.plan.config, task.model.config)
    done = train(args, task, lambda: read(args, task.model, carve=task.resumable))
    if processes.leads():
        _report(args, *done)


def check(args: argparse.Namespace) -> Task:
    """Read what the options say; raises UserError where they are wrong, before anything is read."""
    place, model = output(args, folder=True), models.get(args.model)
    names = model.fitting.parameters if isinstance(model.fitting, BySGD) else ()
    initial = getattr(args, "init", None)
    if initial is not None:
        fingerprint(Path(initial))  # a folder without a model is an error before the text is read
    plan = training_options.plan(args, model.config, model.recipes, names, model.one_thread_up_to)
    require_stops(plan.recipe, options.given(args, Recipe))
    return Task(place, model, plan, model.choose_structure(plan.config, vars(args)))


def train(args: argparse.Namespace, task: Task, data_of: Callable[[], Texts | DocumentFiles]) -> Done:
    """Train a model in its folder, where very large data are stored, too.

    Args:
        data_of: reads them.
    """
    place, model, plan, structure = task
    with (
        training_options.folder(
            args, place, model.name, FILES, resume=plan.run.resume, resumable=task.resumable
        ) as out,
        stored_in(out, user_text.LARGE),
    ):
        out.mkdir(parents=True, exist_ok=True)  # `locked` makes it only on POSIX systems
        texts = data_of()
        with training_options.stoppable(place, out if task.resumable else None):
            trained = training.train(
                args.model, texts.corpus, out, recipe=plan.recipe, config=plan.config, structure=structure,
                initial=getattr(args, "init", None), seed=plan.seed, run=plan.run,
            )  # fmt: skip
        results: Results = {}
        if processes.leads():
            results = _evaluate(trained, texts)
            card.write(trained, out, place, {NAMES[name]: result.record() for name, result in results.items()})
    return Done(trained, texts.corpus, results)


def _evaluate(trained: Trained[Model | None], texts: Texts | DocumentFiles) -> Results:
    """Evaluate the model on validation (whose score training knows) and test text, where there is any.

    Nothing for a model without a distribution, and where time ran out before the model's own training began.
    """
    if not isinstance(texts, Texts):
        from jaxlm.cli import documents

        return documents.results(trained, texts, _known_score(trained))
    results: Results = {}
    if trained.model is None or trained.model.record.capability(PredictsWords) is None:
        return results
    score = _known_score(trained)
    for name, ids in (("valid", texts.corpus.valid), ("test", texts.corpus.test)):
        unknown = texts.unknown[name]
        if name == "valid" and score is not None:
            result = Evaluation(-score * len(ids), len(ids), unknown)
        elif len(ids):
            known = ids != texts.corpus.vocabulary.unk
            result = evaluate(trained.model.event_log_probs(ids), unknown, known)
        else:
            continue
        results[name] = replace(result, log_normalizer=spread_of_normalizers(trained.model, ids))
    return results


def _loss(trained: Trained[Model | None], data: Corpus | DocumentCorpus) -> dict[str, dict[str, Any]]:
    """Return the validation loss of a model of texts without a distribution of words."""
    model, fitted = trained.model, trained.fitted
    predicts = model is not None and model.record.capability(PredictsWords) is not None
    if model is None or fitted is None or predicts or not isinstance(data, Corpus):
        return {}
    assert isinstance(model.record.fitting, BySGD)
    name = model.record.fitting.program(model.config).metric.name
    return {"valid": {"loss": name, "value": fitted.score, "events": len(data.valid)}}


def _known_score(trained: Trained[Model | None]) -> float | None:
    """Return the mean -log P of validation words, nats, where the validation of the training has computed it.

    A sequential program's validation reads the text as several streams, whose beginnings have no history.
    """
    model, fitted = trained.model, trained.fitted
    if model is None or fitted is None or not math.isfinite(fitted.score):
        return None
    assert isinstance(model.record.fitting, BySGD)
    program = model.record.fitting.program(model.config)
    known = program.metric.name in ("perplexity", "document perplexity") and program.sequential is None
    return fitted.score if known else None


def read(args: argparse.Namespace, model: LanguageModel, carve: bool) -> Texts | DocumentFiles:
    """Read texts or documents, and print what was read.

    Args:
        args: of the command.
        model: the model that is trained.
        carve: whether validation text is set aside where none is given.
    """
    texts = _read(args, model, carve)
    note(args, *texts.notes, *_trained_on(args))
    return texts


def _trained_on(args: argparse.Namespace) -> Iterator[str]:
    """Say which files are trained on several times, or both trained and evaluated on."""
    train = args.train or ()
    names = {os.path.realpath(file): file for file in reversed(train)}
    for path, times in Counter(map(os.path.realpath, train)).items():
        if times > 1:
            yield f"--train {names[path]} is given {times} times, and counts as often"
    for name in ("valid", "test"):
        for file in model_command.shared(getattr(args, name) or (), train):
            yield f"--{name} {file} is trained on, too: its score says nothing about other text"


def _read(args: argparse.Namespace, model: LanguageModel, carve: bool) -> Texts | DocumentFiles:
    if model.reads == "documents":
        from jaxlm.cli import documents

        return documents.read(args, carve)
    valid, test = args.valid or (), args.test or ()
    if not args.train:
        if args.vocab or args.vocab_size or args.closed_vocabulary or options.given(args, Reading):
            given = "--vocab, --vocab-size, --closed-vocabulary, --lower, …"
            raise UserError("the default data is read in one way only", given, "give --train FILE")
        return default_text.default(valid, test, args.min_count or 2)
    require_read_once([*args.train, *valid, *test, args.vocab])
    return user_text.from_files(
        args.train, valid, test,
        reading=Reading(**options.given(args, Reading)),
        vocabulary=Vocabulary.load(args.vocab) if args.vocab else None,
        size=args.vocab_size, min_count=args.min_count, closed=args.closed_vocabulary, carve=carve,
    )  # fmt: skip


def _report(
    args: argparse.Namespace, trained: Trained[Model | None], data: Corpus | DocumentCorpus, results: Results
) -> None:
    fitted, model = trained.fitted, trained.model
    if args.json:
        print_json(
            {
                "command": "train", "model": args.model, "out": args.out, "stopped": trained.stopped,
                "words": len(data.vocabulary), "parameters": None if model is None else model.num_parameters(),
                "config": None if model is None else model.info["config"],
                **data.sizes(),
                "epochs": fitted.epochs if fitted else None,
                "examples_per_second": trained.events_per_second, "seconds": trained.seconds,
                **_loss(trained, data),
                **{name: result.record() for name, result in results.items()},
            }
        )  # fmt: skip
        return
    words = f"{len(data.vocabulary):,} words"
    if model is None:
        print(f"{args.model}: {words}, not trained yet: time ran out in the stage before, in {args.out}")
    else:
        print(f"{args.model}: {words}, {model.num_parameters():,} {model.counted}, in {args.out}")
    so_far = "" if trained.stopped == "done" else " so far"
    for name, title in NAMES.items():
        if name in results:
            result = results[name]
            print(f"{title} {result.show(so_far)}")
            if isinstance(result, Evaluation) and result.log_normalizer is not None:
                print(f"{title} log Z {show_normalizers(result.log_normalizer)}")
    fitting = models.get(args.model).fitting
    training_options.print_end(trained, fitting.unit if isinstance(fitting, BySGD) else "words")
