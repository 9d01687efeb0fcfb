"""The tree of a model as its `Structure`: what all models over a tree share, whatever their options."""

import hashlib
from pathlib import Path
from typing import Any

from jaxlm.contract import Structure
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree

FILE = "tree.npz"


def read(name: str, num_words: int | None = None) -> Tree:
    """Read a tree from a file, or from the folder of a model; num_words: size of the vocabulary, if known."""
    path = Path(name)
    return tree_file.load(path / FILE if (path / FILE).exists() else path, num_words)


def of_trees(**own: Any) -> Structure:
    """Return the structure of a model over a tree; own: the fields of `Structure` that are its own."""
    return Structure(
        name="tree",
        arrays=lambda tree: tree.children,
        for_prediction=lambda tree, history, model: {"children": tree.children},
        sha256=lambda tree: hashlib.sha256(tree.children.tobytes()).hexdigest(),
        save=lambda tree, directory: tree_file.save(tree, directory / FILE),
        load=lambda directory, num_words: tree_file.load(directory / FILE, num_words),
        **own,
    )
