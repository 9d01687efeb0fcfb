"""The files of a trained model's folder, and loading a model from them, from an ARPA file, or from word vectors.

A model's folder has `config.json`, `vocabulary.txt`, its parameters (`parameters/`, `ngram.npz`, `classes.npz`), the
file of its structure, as `tree.npz` or `topics.npz`, and what training writes (`checkpoint-*`, `journal.jsonl`,
`timing.jsonl`).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from jaxfit.errors import UserError
from jaxfit.run_dir import manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.metadata import (
    CONFIG,
    PARAMETERS,
    read_config,
    read_info,
    require_types,
    unfinished_training,
)
from jaxlm import models, word_vectors
from jaxlm.contract import BySGD, LanguageModel, WithFiles, structure_argument
from jaxlm.data.corpus import LEFT_OUT
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import LeftOut, Vocabulary
from jaxlm.ngram import arpa
from jaxlm.trained_model import Model

VOCABULARY = "vocabulary.txt"
FILES = (VOCABULARY, "ngram.npz", "classes.npz", "tree.npz", "topics.npz")  # besides what training writes for itself


def load(directory: str | Path, *, unfinished: bool = False, verify: bool = False) -> Model:
    """Read a trained model from the folder that `jaxlm train` wrote, n-grams from an ARPA file, or word vectors.

    Args:
        directory: the folder, or the file: ARPA, or word2vec's, text or binary.
        unfinished: whether to accept the best parameters so far of a training that has not finished.
        verify: whether to compare all files with the manifest, also those that were found whole before.

    Raises:
        UserError: there is no model, or one of another package; it is damaged, or its files are of different models;
            its training has not finished.
    """
    directory = Path(directory)
    if directory.is_file():
        if word_vectors.lacks_first_line(directory):
            what = "word vectors without a first line of two numbers, of words and of features"
            raise UserError(what, directory, "write that line before them: N_w N_f")
        form: Any = word_vectors if word_vectors.begins(directory) else arpa
        params, words = form.read(directory)
        return Model(form.MODEL, Vocabulary(words), form.MODEL.config(), params, {"model": form.MODEL.name})
    if directory.exists() and not directory.is_dir():
        raise UserError("no regular file and no folder", directory, "save the model to a file first")
    info = read_info(directory)
    record = record_of(info, directory)
    fitting, structure = record.fitting, None
    begun = (directory / PARAMETERS).is_dir()
    if isinstance(fitting, BySGD) and not (info.get("finished") or (begun and unfinished)):
        raise unfinished_training(directory, begun, asked=unfinished)
    manifest.require_whole(directory, FILES, verify=verify)
    _check_corpus(info.get("corpus", {}), record, directory)
    left_out = info.get("corpus", {}).get(LEFT_OUT)
    known = None if left_out is None else LeftOut(*(left_out[field] for field in LeftOut._fields))
    vocabulary = Vocabulary.load(directory / VOCABULARY, known, record.reads == "text")
    config = read_config(record.config, info, directory)
    if isinstance(fitting, WithFiles):
        params = fitting.load(directory, len(vocabulary), vocabulary.eos, config)
        return Model(record, vocabulary, config, params, info)
    needed = record.structure_of(asdict(config))
    if needed is not None:
        structure = needed.load(directory, getattr(config, "num_words", len(vocabulary)))
    for field, value in record.decided(len(vocabulary), structure, asdict(config)).items():
        if getattr(config, field) != value:
            what = f"{field} is {getattr(config, field)} in its configuration and {value} in its other files"
            raise UserError(what, directory, f"its files are of different models: {manifest.REPAIR}")
    import jax

    from jaxfit.devices.precision import full_float32
    from jaxfit.run_dir import checkpoint

    assert isinstance(fitting, BySGD)
    built, counts = structure_argument(structure), np.ones(len(vocabulary), np.int64)
    with full_float32():
        like = jax.eval_shape(lambda: fitting.init(jax.random.key(0), config, counts, *built))
        params = checkpoint.load_model(directory / PARAMETERS, like)
    return Model(record, vocabulary, config, params, info, structure)


def _check_corpus(described: Any, record: LanguageModel, directory: Path) -> None:
    """Raise a UserError unless `config.json` describes a training text as `Corpus.describe` does, or not at all."""
    require_types({"corpus": described}, {"corpus": dict}, directory)
    if described:
        require_types(described, {"name": str, "training events": int}, directory)
        require_types(described, {"reading": dict, LEFT_OUT: dict}, directory, optional=True)
        reading = DocumentReading if record.reads == "documents" else Reading
        require_types(described.get("reading", {}), get_type_hints(reading), directory, optional=True)
        if LEFT_OUT in described:
            require_types(described[LEFT_OUT], get_type_hints(LeftOut), directory)


def write_vocabulary(directory: Path, vocabulary: Vocabulary) -> None:
    """Write the words of a model to its folder."""
    with replacing(directory / VOCABULARY) as aside:
        vocabulary.save(aside)


def record_of(info: dict[str, Any], directory: Path) -> LanguageModel:
    """Return the record of the model that a `config.json` describes; raises UserError for one that is not known."""
    name = info.get("model")
    if name in models.MODELS:
        return models.get(name)
    if "corpus" not in info:
        raise UserError(f"{name!r} is no language model", directory, "if it predicts ratings, use jaxcf")
    advice = f"this version knows {', '.join(models.names())}"
    raise UserError(f"there is no language model {name!r}", directory / CONFIG, advice)
