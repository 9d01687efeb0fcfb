"""Tree files: .npz files of plain arrays with a format version, validated when read."""

import re
from collections.abc import Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.run_dir.arrays import read_npz
from jaxfit.run_dir.atomic import replacing
from jaxfit.wording import quantity
from jaxlm.trees.paths import Tree

VERSION = 1
DAMAGED, REPAIR = "not a tree file, or a damaged one", "create one: jaxlm tree DIR --out tree.npz"


def save(tree: Tree, path: str | Path, words: Sequence[str] | None = None) -> None:
    """Write a tree atomically to an .npz file of exactly this name.

    The file holds `version` (1), and `num_words` and `children` as in `Tree`; of a tree whose words are given, it also
    holds `words`, UTF-8 bytes, a line for each.

    Args:
        words: the vocabulary that the tree was built for, in the order of ids. None: the file has ids alone.

    Raises:
        UserError: the tree is invalid, or the file cannot be written.
    """
    check(tree)
    arrays: dict[str, Any] = {"version": VERSION, "num_words": tree.num_words, "children": tree.children}
    if words is not None:
        arrays["words"] = np.frombuffer("\n".join(words).encode(), np.uint8)
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(path: str | Path, num_words: int | None = None) -> Tree:
    """Read a tree written by `save`, without unpickling.

    Args:
        num_words: size of the vocabulary, if known.

    Raises:
        UserError: the file is missing, damaged or of another version, holds no valid tree, or is for a vocabulary of
            another size.
    """
    if _is_text(path):
        do = "write it as a file: jaxlm tree DIR --out tree.npz"
        raise UserError("a tree written as text, for people", path, do)
    try:
        arrays = read_npz(Path(path), DAMAGED, REPAIR)
        version, tree = index(arrays["version"]), Tree(arrays["children"], index(arrays["num_words"]))
    except FileNotFoundError as error:
        raise UserError("no such file", path) from error
    except (KeyError, TypeError) as error:
        raise UserError(DAMAGED, path, REPAIR) from error
    if version != VERSION:
        raise UserError(f"tree file of version {version}, not {VERSION}", path, "create it again")
    check(tree, path)
    if num_words is not None:
        require_size(tree, num_words, path)
    return tree


def require_size(tree: Tree, num_words: int, path: str | Path) -> None:
    """Raise a UserError for a tree that is not over as many words as a vocabulary has."""
    if tree.num_words != num_words:
        what = f"tree over {tree.num_words} words for a vocabulary of {num_words}"
        raise UserError(what, path, "use the vocabulary the tree was built for")


def words_of(path: str | Path) -> tuple[str, ...] | None:
    """Return the words of the tree in a file that `load` reads, in the order of their ids; None where it has ids alone.

    Raises:
        UserError: the file is damaged.
    """
    found = read_npz(Path(path), DAMAGED, REPAIR).get("words")
    if found is None:
        return None
    try:
        return tuple(found.tobytes().decode().split("\n"))
    except UnicodeDecodeError as error:
        raise UserError(DAMAGED, path, REPAIR) from error


def _is_text(path: str | Path) -> bool:
    """Return whether a file begins as `jaxlm tree` writes a tree as text: a word, a tab and its code."""
    if not Path(path).is_file():  # a named pipe would be waited for
        return False
    try:
        with Path(path).open("rb") as file:
            return re.match(rb"\S+\t[01]+\r?\n", file.readline(1 << 16)) is not None
    except OSError:
        return False


def check(tree: Tree, where: object | None = None) -> None:
    """Raise a UserError unless the tree is valid: root 0, ids increasing from parent to child, each word a leaf."""
    children, num_words = tree
    if children.dtype != np.int32 or children.shape[1:] != (2,):
        raise UserError(f"children are {children.dtype}{list(children.shape)}, not int32 [nodes, 2]", where)
    if num_words < 2 or len(children) == 0:
        raise UserError(f"invalid tree of {len(children)} nodes over {quantity(num_words, 'word')}", where)
    node, side = np.nonzero(children >= 0)
    child = children[node, side]
    if (bad := np.flatnonzero(child >= len(children))).size:
        raise UserError(f"node {node[bad[0]]} has child {child[bad[0]]}, but there is no such node", where)
    if (bad := np.flatnonzero(child <= node)).size:  # a cycle has a step to the same or a smaller id
        raise UserError(f"node {node[bad[0]]} has child {child[bad[0]]}: a cycle, or ids out of order", where)
    num_parents = np.bincount(child, minlength=len(children))
    if (bad := np.flatnonzero(num_parents[1:] != 1)).size:
        raise UserError(f"node {bad[0] + 1} has {num_parents[bad[0] + 1]} parents, not one", where)
    word = ~children[children < 0]
    if (bad := np.flatnonzero(word >= num_words)).size:
        raise UserError(f"a leaf has word {word[bad[0]]}, but there are only {num_words} words", where)
    if num_words > len(word):  # before an array of that size is made
        raise UserError(f"{num_words} words, but there are only {len(word)} leaves", where)
    if (bad := np.flatnonzero(np.bincount(word, minlength=num_words) == 0)).size:
        raise UserError(f"word {bad[0]} has no leaf", where)
