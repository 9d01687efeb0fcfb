"""The tree of a model as its `Structure`: what all models over a tree share, whatever their options."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.errors import UserError
from jaxlm.contract import Structure
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import VOCABULARY
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree

FILE = "tree.npz"


def read(name: str, vocabulary: Vocabulary | None = None) -> Tree:
    """Read a tree from a file, or from the folder of a model.

    A file has ids alone, which are taken as they are; a folder has the words, too.

    Args:
        vocabulary: whose ids its leaves get, if known.
    """
    path, num_words = Path(name), None if vocabulary is None else len(vocabulary)
    if not (path / FILE).exists():
        return tree_file.load(path, num_words)
    tree = tree_file.load(path / FILE, num_words)
    if vocabulary is None:
        return tree
    words = Vocabulary.load(path / VOCABULARY, line_end=False).words
    if set(words) != set(vocabulary.words):
        raise UserError("its tree is over other words", name, "give its vocabulary.txt to --vocab")
    ids = np.array([vocabulary.ids[word] for word in words], np.int32)
    leaf = tree.children < 0
    children = tree.children.copy()
    children[leaf] = ~ids[~children[leaf]]
    return tree._replace(children=children)


def of_trees(**own: Any) -> Structure:
    """Return the structure of a model over a tree.

    Args:
        **own: the fields of `Structure` that are its own.
    """
    return Structure(
        name="tree",
        arrays=lambda tree: tree.children,
        for_prediction=lambda tree, history, model: {"children": tree.children},
        sha256=lambda tree: hashlib.sha256(tree.children.tobytes()).hexdigest(),
        save=lambda tree, directory: tree_file.save(tree, directory / FILE),
        load=lambda directory, num_words: tree_file.load(directory / FILE, num_words),
        **own,
    )
