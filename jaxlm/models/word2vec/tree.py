"""The tree of the hierarchical softmax: a Huffman tree, or a given one whose words have one code each."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxlm.data.corpus import Corpus
from jaxlm.models.hlbl.tree import FILE, TREE
from jaxlm.trees import file as tree_file
from jaxlm.trees.build import huffman
from jaxlm.trees.paths import Tree, paths

HUFFMAN = "huffman"


@dataclass(frozen=True)
class TreeOptions:
    """Which tree the objective `tree` goes down."""

    tree: str = option(HUFFMAN, "of the objective tree, or a file, or the folder of an hlbl", metavar="huffman|FILE")


class Codes(NamedTuple):
    """The way to words: nodes int32 [..., L], the tree's number of nodes as padding; signs int8 [..., L], 0 as padding.

    A sign is 1 where the way goes to the left of its node, -1 to the right.
    """

    nodes: Any
    signs: Any


def codes(tree: Tree) -> Codes:
    """Return the way to every word: [N_w, L], L being the length of the longest."""
    found = paths(tree)
    lengths = np.diff(found.code_nodes)
    nodes = np.full((tree.num_words, lengths.max()), len(tree.children), np.int32)
    signs = np.zeros(nodes.shape, np.int8)
    row = np.repeat(np.arange(tree.num_words), lengths)
    place = np.arange(len(row)) - found.code_nodes[row]
    nodes[row, place], signs[row, place] = found.nodes, found.signs
    return Codes(nodes, signs)


def check(options: TreeOptions) -> None:
    """Raise a UserError for a tree that cannot be read."""
    if options.tree != HUFFMAN:
        if not Path(options.tree).exists():
            raise UserError(f"there is no tree {options.tree!r}", "--tree", f"give {HUFFMAN}, or a file that exists")
        _read(options)  # before the text, which may be long


def build(corpus: Corpus, options: TreeOptions, counts: NDArray[np.int64], key: Array) -> Tree:
    """Build the Huffman tree of the training text's words, or read one."""
    return huffman(counts) if options.tree == HUFFMAN else _read(options, len(counts))


def _read(options: TreeOptions, num_words: int | None = None) -> Tree:
    path = Path(options.tree)
    tree = tree_file.load(path / FILE if (path / FILE).exists() else path, num_words)
    if len(tree.children) != tree.num_words - 1:
        raise UserError("the tree has words with several codes", path, f"give another, or {HUFFMAN}")
    return tree


STRUCTURE = dataclasses.replace(
    TREE,
    options=TreeOptions,
    check=check,
    origin=lambda options: {"tree built": {"kind": HUFFMAN}} if options.tree == HUFFMAN else {},
    first_stage=lambda options: None,
    build=build,
    stand_in=lambda options, num_words, counts: huffman(np.maximum(counts, 1)),
)
