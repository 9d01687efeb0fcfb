"""A model's folder as training sees it: whose it is, whether a training there can go on, what is written to it.

An *identity* is all that determines a trained model, as `config.json` keeps it: a training goes on only where
that is the same. The environment is kept beside it and is no part of it.
"""

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit import checkpoint
from jaxfit.atomic import replacing
from jaxfit.errors import UserError
from jaxlm.default_data import Corpus
from jaxlm.model import CONFIG, NGRAMS, PARAMETERS, VOCABULARY, read_info
from jaxlm.tree_paths import Tree
from jaxlm.vocabulary import Vocabulary


def earlier(directory: Path, known: dict[str, Any], resume: bool) -> dict[str, Any] | None:
    """The `config.json` of an earlier run of this training; None where there is nothing to go on with.

    Raises UserError where there is, but it is not to be resumed, and where it is of another training.
    """
    if not (directory / CONFIG).exists():
        return None
    found = read_info(directory)
    begun = bool(checkpoint.every(directory)) or (directory / PARAMETERS).is_dir()
    if not begun and found["model"] not in NGRAMS:  # killed before its first checkpoint
        return None
    if found["model"] != known["model"]:
        raise UserError(f"a model of kind {found['model']} is there", directory, "choose another --out")
    if not resume:
        advice = "add --resume to go on with it, or choose another --out"
        raise UserError("a training is there already", directory, advice)
    checkpoint.require_same(found, known, directory)
    return found


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints, of no use once training is done."""
    for path in checkpoint.every(directory):
        shutil.rmtree(path)


def fingerprint(bootstrap: Path | None) -> str | None:
    """What tells one trained model from another: all that determined it."""
    if bootstrap is None:
        return None
    info = read_info(bootstrap)
    made = {name: info.get(name) for name in ("config", "recipe", "seed", "corpus", "tree")}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def tree_sha256(tree: Tree) -> str:
    """What tells one tree from another."""
    return hashlib.sha256(tree.children.tobytes()).hexdigest()


def describe(corpus: Corpus) -> dict[str, Any]:
    """What of a corpus a record holds, and a resumed training must find again."""
    digest = hashlib.sha256()
    for part in (corpus.train, corpus.valid):
        digest.update(np.ascontiguousarray(part, "<i4").data)
    digest.update("\n".join(corpus.vocabulary.words).encode())
    return {
        "name": corpus.name,
        "source sha256": corpus.sha256,
        "sha256": digest.hexdigest(),
        "words": len(corpus.vocabulary),
        "training events": len(corpus.train),
        "validation events": len(corpus.valid),
        "reading": asdict(corpus.reading),
    }


def write_vocabulary(directory: Path, vocabulary: Vocabulary) -> None:
    """Write `vocabulary.txt`, whole or not at all."""
    with replacing(directory / VOCABULARY) as aside:
        vocabulary.save(aside)


def write_info(directory: Path, info: dict[str, Any]) -> None:
    """Write `config.json`, whole or not at all."""
    with replacing(directory / CONFIG) as aside:
        aside.write_text(json.dumps(info, indent=1) + "\n")
