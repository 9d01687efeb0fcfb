"""`jaxlm.train`: what the command `jaxlm train` does, in one call, with texts of files or in memory."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxfit.devices.simulated import simulate_devices
from jaxfit.errors import NoModel, UserError
from jaxfit.plan import choose, fields_of, require_known
from jaxfit.run_dir.run import Run
from jaxlm import models, training
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data import default_text, user_text
from jaxlm.data.corpus import Texts
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.files import EOS, Reading
from jaxlm.data.given import Text, as_files
from jaxlm.data.vocabulary import Vocabulary
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
    **options: Any,
) -> Model:
    """Train a language model, or a model of documents, and return it.

        model = jaxlm.train("lbl", "train.txt", valid="valid.txt", out="runs/lbl", num_features=50)
        model = jaxlm.train("kn", ["the first sentence", "the second sentence"], order=3)

    Args:
        model: the name of a registered model, as in `jaxlm train MODEL`.
        text: a file (its name, or a path), a list of paths, or lines in memory: strings, or lists of words. A line is a
            sentence, or, for models of documents, a document or its counts. None: prose that comes
            with Python.
        valid: validation text, likewise; None: the last 5 % of the training text, where the model needs any (5 % of
            the documents, drawn at random).
        out: folder for the model, new or empty, or of the same training with `resume=True`; None: it stays in memory.
        recipe: "tuned" or "thesis".
        initial: the folder of a trained model from whose parameters of the same names training begins.
        vocabulary: a list of words, or a file of one a line with `<eos>`, in place of the training text's.
        vocab_size: the number of words, the most frequent ones.
        min_count: words that are seen less often are unknown.
        closed_vocabulary: keep all words, and make no `<unk>`.
        stop_words: words that documents of text are read without, or a file of them.
        seed: of all random draws.
        progress: print notes, and a line an epoch (on a terminal a bar), on standard error.
        **options: those of `jaxlm train MODEL --help-all`, with _ for -: of the model (`num_features`), its recipe
            (`epochs`, `rate={"*": 0.01}`), its structure (`tree`), how texts are read (`lower`), how the training is
            run (`resume`, `devices`, `max_minutes`).

    Raises:
        UserError: there is no such model or option; texts or options that the model cannot be trained with; of it
            `FolderTaken`, where `out` holds a model already, and `Diverged`, where a loss is not finite.
        Interrupted: Ctrl-C, once all is saved.
    """
    record = models.get(model)
    reading = DocumentReading if record.reads == "documents" else Reading
    structures = [structure.options for structure in record.structures]
    recipes = [type(chosen) for chosen, _ in record.recipes.values() if chosen is not None]
    run_options = [Run] if isinstance(record.fitting, BySGD) else []
    skip = (*record.fields_from_data, "show")
    require_known(options, [record.config, *recipes[:1], *structures, *run_options, reading], skip)
    parameters = record.fitting.parameters if isinstance(record.fitting, BySGD) else ()
    config, chosen = choose(record.config, record.recipes, recipe, options, parameters)
    structure = record.choose_structure(config, options)
    run = Run(**fields_of(options, Run), show=progress)
    if run.resume and out is None:
        raise UserError("there is nothing to resume", "resume=True", "name the folder of the training: out=…")
    simulate_devices(run.devices)
    with ExitStack() as stack:
        directory = Path(out or stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        texts = _read(
            stack, record, text, valid, directory, reading(**fields_of(options, reading)), vocabulary=vocabulary,
            size=vocab_size, min_count=min_count, closed=closed_vocabulary, stop_words=stop_words,
        )  # fmt: skip
        for note in texts.notes if progress else ():
            print(f"{model}: {note}", file=sys.stderr)
        trained = training.train(
            model, texts.corpus, directory, recipe=chosen, config=config, structure=structure,
            initial=None if initial is None else Path(initial),
            seed=seed, run=run,
        ).model  # fmt: skip
    if trained is None:
        raise NoModel("time ran out in the stage before the model's own training", out, "go on by resume=True")
    return trained


def _read(
    stack: ExitStack,
    record: LanguageModel,
    text: Text | None,
    valid: Text | None,
    directory: Path,
    reading: Any,
    *,
    vocabulary: str | PathLike[str] | Sequence[str] | None,
    size: int | None,
    min_count: int | None,
    closed: bool,
    stop_words: str | PathLike[str] | Sequence[str] | None,
) -> Texts | DocumentFiles:
    """Read the training and validation texts of a model."""

    def files(given: Text | None, name: str) -> list[str]:
        return [] if given is None else stack.enter_context(as_files(given, name))

    if vocabulary is not None and not isinstance(vocabulary, str | PathLike) and record.reads == "text":
        vocabulary = [*vocabulary, *([] if EOS in vocabulary else [EOS])]
    validation, carve = files(valid, "valid"), isinstance(record.fitting, BySGD)
    words, left_out = (files(given, name) for given, name in ((vocabulary, "vocabulary"), (stop_words, "stop_words")))
    if record.reads == "documents":
        from jaxlm.data.documents import reading as documents  # here, as texts do without what it imports

        if text is None:
            raise UserError("there are no documents", "text", "give files, or a list of documents")
        if closed:
            raise UserError("documents have no unknown words", "closed_vocabulary", "leave it out")
        return documents.from_files(
            files(text, "train"), validation, reading=reading, vocabulary=words[0] if words else None, size=size,
            min_count=min_count, stop_words=left_out[0] if left_out else None, carve=carve,
        )  # fmt: skip
    if left_out:
        raise UserError("words are left out of documents alone, not of texts", "stop_words", "leave it out")
    if text is None:
        if words or size or closed or reading != Reading():
            what = "the default text is read in one way only"
            raise UserError(what, "vocabulary, vocab_size, closed_vocabulary, lower, …", "give a text")
        return default_text.default(validation, (), min_count or 2)
    if sum(map(bool, (words, size, min_count, closed))) > 1:
        names = "vocabulary, vocab_size, min_count, closed_vocabulary"
        raise UserError("only one of these chooses the words", names, "leave the others out")
    return user_text.from_files(
        files(text, "train"), validation, reading=reading, vocabulary=Vocabulary.load(words[0]) if words else None,
        size=size, min_count=min_count, closed=closed, carve=carve, directory=directory,
    )  # fmt: skip
