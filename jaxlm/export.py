"""Models as other programs read them: word2vec text, safetensors, ARPA."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing
from jaxlm.ngram import arpa
from jaxlm.ngram.model import NGram
from jaxlm.trained_model import Model


def word2vec(model: Model, path: Path) -> None:
    """Write R as text: a line `N_w N_f`, then a line for each word, its name and its features (gensim, fastText).

    Raises UserError for an n-gram model, which has no vectors, and where the file cannot be written.
    """
    vectors = np.asarray(_neural(model, path).R)
    with replacing(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n")
        for word, vector in zip(model.vocabulary.words, vectors, strict=True):
            file.write(f"{word} {' '.join(f'{x:.7g}' for x in vector)}\n")


def safetensors(model: Model, path: Path) -> None:
    """Write all parameters by name (R, C, b, and Q and the tree of an hlbl), with configuration and words.

    The words are metadata, a JSON list in the order of ids. Raises UserError as `word2vec`.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in _neural(model, path)._asdict().items()}
    if model.tree is not None:
        arrays["tree"] = np.ascontiguousarray(model.tree.children)
    metadata = {
        "model": model.kind,
        "config": json.dumps(model.info["config"]),
        "words": json.dumps(model.vocabulary.words, ensure_ascii=False),
    }
    with replacing(path) as aside:
        save_file(arrays, aside, metadata)


def arpa_file(model: Model, path: Path) -> None:
    """Write an n-gram model as an ARPA file, gzipped if its name ends in `.gz`; raises UserError for others."""
    if not isinstance(model.params, NGram):
        what = f"an ARPA file holds n-grams, and this is an {model.kind}"
        raise UserError(what, path, "use --format safetensors or word2vec")
    arpa.write(model.params, model.vocabulary.words, path)


FORMATS: dict[str, Callable[[Model, Path], None]] = {
    "word2vec": word2vec,
    "arpa": arpa_file,
    "safetensors": safetensors,
}


def _neural(model: Model, path: Path) -> Any:
    if isinstance(model.params, NGram):
        raise UserError("an n-gram model has no feature vectors", path, "use --format arpa")
    return model.params
