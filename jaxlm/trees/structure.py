"""The tree of a model as its `Structure`: what all models over a tree share, whatever their options."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.caller import warn
from jaxfit.errors import UserError
from jaxlm.contract import Structure
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import VOCABULARY
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree

FILE = "tree.npz"


def read(name: str, vocabulary: Vocabulary | None = None) -> Tree:
    """Read a tree from a file, or from the folder of a model.

    Args:
        name: of the file or folder.
        vocabulary: whose ids its leaves get, if known.

    Raises:
        UserError: as `jaxlm.trees.file.load`; the tree is over other words.

    Warns:
        UserWarning: the words of the tree are not known, and its ids are taken as they are.
    """
    path = Path(name) / FILE if Path(name).is_dir() else Path(name)
    tree = tree_file.load(path)
    if vocabulary is None:
        return tree
    words = _words_of(path)
    if words is not None and sorted(words) != sorted(vocabulary.words):
        advice = vocabulary.advice_to_agree(words, "give the vocabulary.txt of its model to --vocab")
        raise UserError("its tree is over other words", name, advice)
    tree_file.require_size(tree, len(vocabulary), path)
    if words is None:
        warn(
            f"the tree file has no words, and its ids are taken for those of this vocabulary ({name}) - write it "
            "again: jaxlm tree DIR --out tree.npz"
        )
        return tree
    ids = np.array([vocabulary.ids[word] for word in words], np.int32)
    leaf = tree.children < 0
    children = tree.children.copy()
    children[leaf] = ~ids[~children[leaf]]
    return tree._replace(children=children)


def _words_of(path: Path) -> tuple[str, ...] | None:
    """Return the words of a tree in the order of their ids: of its file, or beside it in the folder of a model."""
    words, beside = tree_file.words_of(path), path.with_name(VOCABULARY)
    if words is None and path.name == FILE and beside.exists():
        return Vocabulary.load(beside, line_end=False).words
    return words


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
