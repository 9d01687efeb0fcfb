"""The tree over words of a model with the objective `tree`: its options, and how it is built or read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxlm.data.corpus import Corpus
from jaxlm.data.documents.collection import DocumentCorpus
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.trees import build as trees
from jaxlm.trees.options import is_file
from jaxlm.trees.paths import Tree
from jaxlm.trees.structure import of_trees, read

RULES = ("huffman", "random")


@dataclass(frozen=True)
class Options:
    """Which tree has the words as leaves."""

    tree: str = option(
        "huffman", "a Huffman tree, a random tree, or that of a file or of a model's folder; for --objective tree",
        metavar=f"{'|'.join(RULES)}|FILE",
    )  # fmt: skip


def needed(config: Mapping[str, Any]) -> bool:
    """Return whether a model of this Config, a mapping, has a tree."""
    return config.get("objective") == "tree"


def check(options: Options) -> None:
    """Raise a UserError for a tree that is neither a rule nor a file of a tree with one code for each word."""
    if is_file(options.tree, RULES):
        _read(options)  # before the text, which may be long


def build(corpus: Corpus | DocumentCorpus, options: Options, counts: np.ndarray, key: Array) -> Tree:
    """Build a tree, or read it.

    Args:
        counts: int64 [N_w], of the training text.
    """
    if options.tree not in RULES:
        return _read(options, corpus.vocabulary)
    return _by_rule(options, len(corpus.vocabulary), counts, key)


def stand_in(options: Options, num_words: int, counts: np.ndarray) -> Tree:
    """Return a tree with about as many decisions a word as the tree that `build` would give."""
    return _by_rule(options, num_words, counts, jax.random.key(0))


def _by_rule(options: Options, num_words: int, counts: np.ndarray, key: Array) -> Tree:
    kind: Any = options.tree if options.tree in RULES else "random"
    return trees.build(kind, key, num_words=num_words, counts=counts)


def _read(options: Options, vocabulary: Vocabulary | None = None) -> Tree:
    tree = read(options.tree, vocabulary)
    if len(tree.children) != tree.num_words - 1:
        what = f"{len(tree.children) + 1:,} codes for {tree.num_words:,} words, and this objective takes one a word"
        raise UserError(what, options.tree, "give a tree in which each word is one leaf")
    return tree


WORD_TREE = of_trees(
    options=Options,
    needed=needed,
    check=check,
    origin=lambda options: {"tree built": {"kind": options.tree}} if options.tree in RULES else {},
    first_stage=lambda options: None,
    build=build,
    fields=lambda tree: {},
    stand_in=stand_in,
)
