"""Models as other programs read them: word2vec (text and binary), safetensors, ARPA, a folder for hubs of models.

A UserError says that a model does not have what a file format needs, or that the file cannot be written.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import hub as for_hubs
from jaxfit.run_dir.arrays import to_safetensors
from jaxfit.run_dir.atomic import replacing
from jaxlm import card, models, word_vectors
from jaxlm.capabilities import Embeds, HasNGrams
from jaxlm.contract import BySGD
from jaxlm.model_files import FILES
from jaxlm.ngram import arpa
from jaxlm.trained_model import Model


def word2vec(model: Model, path: Path, name: str | None = None) -> None:
    """Write word vectors as text (gensim, fastText), gzipped if the name ends in `.gz`.

    Args:
        name: as in `Model.vectors`.
    """
    word_vectors.write_text(model.vocabulary.words, _vectors(model, path, name), path)


def word2vec_binary(model: Model, path: Path, name: str | None = None) -> None:
    """Write word vectors as word2vec's binary form, float32, gzipped if the name ends in `.gz`.

    Args:
        name: as in `Model.vectors`.
    """
    word_vectors.write_binary(model.vocabulary.words, _vectors(model, path, name), path)


def _vectors(model: Model, path: Path, name: str | None) -> np.ndarray:
    model.require(Embeds, "word2vec", path)
    return model.vectors(name)


def safetensors(model: Model, path: Path) -> None:
    """Write all parameters by name, and the structure of a model that has one.

    The configuration and the words, a JSON list in the order of ids, are metadata.
    """
    if not isinstance(model.record.fitting, BySGD):
        able = ", ".join(models.having(lambda other: isinstance(other.fitting, BySGD)))
        form = "arpa" if model.record.capability(HasNGrams) else "word2vec" if model.record.capability(Embeds) else HUB
        what = f"safetensors is for models that are trained step by step, and not for {model.name}"
        raise UserError(what, path, f"use --format {form}, or a model of {able}")
    arrays = {name: np.ascontiguousarray(array) for name, array in named_arrays(model.params).items()}
    structure = model.record.structure_of(model.info["config"])
    if structure is not None:
        arrays[structure.name] = np.ascontiguousarray(structure.arrays(model.structure))
    metadata = {
        "model": model.name,
        "config": json.dumps(model.info["config"]),
        "words": json.dumps(model.vocabulary.words, ensure_ascii=False),
    }
    with replacing(path) as aside:
        aside.write_bytes(to_safetensors(arrays, metadata))


def arpa_file(model: Model, path: Path) -> None:
    """Write n-grams as an ARPA file, gzipped if its name ends in `.gz`."""
    model.require(HasNGrams, "an ARPA file", path)
    arpa.write(model.params, model.vocabulary.words, path)


def hub(model: Model, directory: Path, out: Path) -> None:
    """Write a folder that hubs of models accept, and `jaxlm.load` reads: safetensors, JSON, text, a card.

    Args:
        model: the model.
        directory: its folder.
        out: the folder to write, new or empty.
    """
    if directory.is_file():
        raise UserError("the hub format needs a model's folder, not a file", directory, "give one that train wrote")

    def card_of(info: Mapping[str, Any], scores: for_hubs.Scores) -> str:
        return card.text(model, info, *for_hubs.download(out), scores)

    for_hubs.export(directory, out, FILES, model.params, card_of)


OF_VECTORS: dict[str, Callable[[Model, Path, str | None], None]] = {
    "word2vec": word2vec,
    "word2vec-binary": word2vec_binary,
}
FORMATS: dict[str, Callable[..., None]] = {
    **OF_VECTORS,
    "arpa": arpa_file,
    "safetensors": safetensors,
}
HUB = "hub"  # the format that is a folder
