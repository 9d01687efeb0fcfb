"""`jaxlm.train`: what the command `jaxlm train` does, in one call, with texts of files or in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxfit.call import folder, of_call, require_flag, require_on_epoch, warn_stopped
from jaxfit.errors import NoModel, UserError
from jaxfit.files.large_arrays import stored_in
from jaxfit.plan import fields_of, require_consistent, require_stops
from jaxfit.python_numbers import as_python
from jaxfit.recipe import require_number
from jaxlm import card, models, training
from jaxlm.contract import RENAMED, BySGD, LanguageModel
from jaxlm.data import default_text, user_text
from jaxlm.data.corpus import Texts
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.files import EOS, Reading
from jaxlm.data.given import Text, are_files, as_files, as_words
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.initial import fingerprint
from jaxlm.model_files import FILES
from jaxlm.trained_model import Model

if TYPE_CHECKING:
    from jaxlm.data.documents.reading import DocumentFiles


def train(
    model: str,
    text: Text | None = None,
    *,
    valid: Text | None = None,
    out: str | PathLike[str] | None = None,
    recipe: str = "tuned",
    initial: str | PathLike[str] | None = None,
    vocabulary: str | PathLike[str] | Sequence[str] | None = None,
    vocab_size: int | None = None,
    min_count: int | None = None,
    closed_vocabulary: bool = False,
    stop_words: str | PathLike[str] | Sequence[str] | None = None,
    seed: int = 1,
    progress: bool = True,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    **options: Any,
) -> Model:
    """Train a language model, or a model of documents, and return it.

        model = jaxlm.train("lbl", "train.txt", valid="valid.txt", out="runs/lbl", num_features=50)
        model = jaxlm.train("kn", ["the first sentence", "the second sentence"], order=3)

    Args:
        model: the name of a registered model, as in `jaxlm train MODEL`.
        text: a file (its name, or a path), a list of paths, or lines in memory: strings, or lists of words. A line is a
            sentence or, for models of documents, a document: lines in memory are its words, or with `format="counts"`
            its counts; the first line of a file shows which it has. None: prose that comes with Python.
        valid: validation text, given likewise; None: if the model needs any, the last 5 % of the training text, or 5 %
            of the documents, drawn at random.
        out: folder for the model: new or empty, or that of the same training with `resume=True`; None: the model stays
            in memory.
        recipe: "tuned" or "thesis".
        initial: folder of a trained model; training begins from its parameters of the same names; words are matched by
            name.
        vocabulary: a list of words, or a file with one word a line, `<eos>` included, in place of the words of the
            training text.
        vocab_size: number of words: the most frequent ones.
        min_count: minimum count of a word; rarer ones are unknown.
        closed_vocabulary: whether to keep all words, without `<unk>`.
        stop_words: words to leave out of documents that are texts, or a file of them.
        seed: of all random draws.
        progress: whether to print notes, and a line for each epoch (on a terminal a bar, in a notebook one line), on
            standard error.
        on_epoch: called after each epoch with its line of `journal.jsonl`, a dict: "epoch", from 0; "valid", the
            validation score, of which lower is better; "shown", what is printed, such as "validation perplexity".
        **options: those of `jaxlm train MODEL --help-all`, with _ for -: of the model (`num_features`), its recipe
            (`epochs`, `rate=0.01` or by parameter `rate={"*": 0.01, "b": 0.1}`), its structure (`tree`), how texts are
            read (`lower`), and, for models trained by SGD, how they are trained (`resume`, `devices`, `max_minutes`).

    Raises:
        UserError: there is no such model or option, or the model cannot be trained with these texts or options.
            Subclasses: `FolderTaken`, if `out` holds a model already; `Diverged`, if a loss is not finite.
        Interrupted: Ctrl-C was pressed; with `out`, everything is saved.

    Warns:
        UserWarning: the training stopped after `max_minutes`; the model is the best one so far.
    """
    record = models.get(model)
    by_engine, reading = isinstance(record.fitting, BySGD), DocumentReading if record.reads == "documents" else Reading
    options = {RENAMED.get(name, name): as_python(value) for name, value in options.items()}
    seed = as_python(seed)
    options, plan = of_call(
        record, recipe, options, arguments=signature(train).parameters,
        classes=[*(structure.options for structure in record.structures), reading],
        skip=record.fields_from_data,
        parameters=lambda _: record.fitting.parameters if isinstance(record.fitting, BySGD) else (),
        trained=by_engine, seed=seed, out=out, progress=progress,
    )  # fmt: skip
    require_stops(plan.recipe, options)
    require_consistent(plan.config, record.config)
    require_on_epoch(on_epoch, model, by_engine)
    structure = record.choose_structure(plan.config, options)
    if initial is not None:
        fingerprint(Path(initial))  # a folder without a model is an error before the text is read
    with (
        folder(out, record.name, plan.run, files=FILES, resumable=by_engine) as directory,
        stored_in(directory, user_text.LARGE),
        ExitStack() as stack,
    ):
        texts = _read(
            stack, record, text, valid, fields_of(options, reading), vocabulary=vocabulary, size=vocab_size,
            min_count=min_count, closed=closed_vocabulary, stop_words=stop_words,
        )  # fmt: skip
        for note in texts.notes if progress else ():
            print(f"{model}: {note}", file=sys.stderr)
        trained = training.train(
            model, texts.corpus, directory, recipe=plan.recipe, config=plan.config, structure=structure,
            initial=None if initial is None else Path(initial), seed=seed,
            run=replace(plan.run, on_epoch=on_epoch),
        )  # fmt: skip
        if out is not None:
            card.write(trained, directory, Path(out))
    if trained.model is None:
        raise NoModel("time ran out in the stage before the model's own training", out, "go on by resume=True")
    warn_stopped(trained)
    return trained.model


def _read(
    stack: ExitStack,
    record: LanguageModel,
    text: Text | None,
    valid: Text | None,
    how: Mapping[str, Any],
    *,
    vocabulary: str | PathLike[str] | Sequence[str] | None,
    size: int | None,
    min_count: int | None,
    closed: bool,
    stop_words: str | PathLike[str] | Sequence[str] | None,
) -> Texts | DocumentFiles:
    """Read the training and validation texts of a model.

    Args:
        how: fields of its `Reading`.
    """
    encoding = how.get("encoding", Reading().encoding)

    def files(given: Text | None, name: str) -> list[str]:
        return [] if given is None else stack.enter_context(as_files(given, name, encoding))

    def words_of(given: str | PathLike[str] | Sequence[str] | None, name: str, *further: str) -> str | None:
        return None if given is None else stack.enter_context(as_words(given, name, *further))

    for name, number in (("vocab_size", size), ("min_count", min_count)):
        if number is not None:
            require_number(number, name, int)
    require_flag(closed, "closed_vocabulary")
    chosen = [value for value in (vocabulary, size, closed or None) if value is not None]
    if len(chosen) > 1 or (min_count is not None and (closed or (record.reads == "text" and chosen))):
        names = "vocabulary, vocab_size, min_count, closed_vocabulary"
        raise UserError("only one of these chooses the words", names, "leave the others out")
    validation, carve = files(valid, "valid"), isinstance(record.fitting, BySGD)
    if record.reads == "documents":
        from jaxlm.data.documents import reading as documents  # here, as texts do without what it imports

        if text is None:
            raise UserError("there are no documents", "text", "give files, or a list of documents")
        if closed:
            raise UserError("documents have no unknown words", "closed_vocabulary", "leave it out")
        given = {} if isinstance(text, str | PathLike) or are_files(text) else {"format": "text"}
        return documents.from_files(
            files(text, "train"), validation, reading=DocumentReading(**{**given, **how}),
            vocabulary=words_of(vocabulary, "vocabulary"), size=size, min_count=min_count,
            stop_words=words_of(stop_words, "stop_words"), carve=carve,
        )  # fmt: skip
    if stop_words is not None:
        raise UserError("words are left out of documents alone, not of texts", "stop_words", "leave it out")
    if text is None:
        if vocabulary is not None or size or closed or how:
            what = "the default text is read in one way only"
            raise UserError(what, "vocabulary, vocab_size, closed_vocabulary, lower, …", "give a text")
        return default_text.default(validation, (), min_count or 2)
    listed = words_of(vocabulary, "vocabulary", EOS)
    return user_text.from_files(
        files(text, "train"), validation, reading=Reading(**how),
        vocabulary=None if listed is None else Vocabulary.load(listed), size=size, min_count=min_count, closed=closed,
        carve=carve,
    )  # fmt: skip
