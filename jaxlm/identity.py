"""What tells one trained model from another: the text, the tree, the model it was started from."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jaxfit.run_dir.metadata import read_info
from jaxlm.data.corpus import content_sha256
from jaxlm.data.default_text import Corpus
from jaxlm.trees.paths import Tree


def fingerprint(directory: Path) -> str:
    """The digest of all that determined a trained model, from its `config.json`."""
    info = read_info(directory)
    made = {name: info.get(name) for name in ("config", "recipe", "seed", "corpus", "tree")}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def tree_sha256(tree: Tree) -> str:
    """The digest of a tree."""
    return hashlib.sha256(tree.children.tobytes()).hexdigest()


def describe(corpus: Corpus) -> dict[str, Any]:
    """What of a corpus a record holds, and a resumed training must find again."""
    digest = content_sha256(corpus.train, corpus.valid, corpus.vocabulary)
    return {
        "name": corpus.name,
        "source sha256": corpus.sha256,
        "sha256": digest,
        "words": len(corpus.vocabulary),
        "training events": len(corpus.train),
        "validation events": len(corpus.valid),
        "reading": asdict(corpus.reading),
    }
