"""Helpers: trees over a few words with random features and counts, and their leaves by recursion."""

import jax
import numpy as np

from jaxlm.trees import build as trees
from jaxlm.trees.paths import Tree

KEY = jax.random.key(7)
NUM_WORDS = 61
FEATURES = np.asarray(jax.random.normal(jax.random.key(1), (NUM_WORDS, 4))) * np.array([4.0, 2.0, 1.0, 0.5])
COUNTS = np.asarray(jax.random.randint(jax.random.key(2), (NUM_WORDS,), 0, 50))


def make_tree(kind="adaptive", epsilon=0.4, copies=1, replicate=False, key=KEY) -> Tree:
    return trees.build(
        kind,
        key,
        num_words=NUM_WORDS,
        features=FEATURES,
        counts=COUNTS,
        epsilon=epsilon,
        copies=copies,
        replicate=replicate,
    )


def walk(tree: Tree, node: int = 0, code: tuple = ()) -> list[tuple[int, tuple]]:
    """Return (word, ((node, sign), …)) of each leaf, by recursion, from left to right."""
    leaves = []
    for child, sign in zip(tree.children[node].tolist(), (1, -1), strict=True):
        path = (*code, (node, sign))
        leaves += [(~child, path)] if child < 0 else walk(tree, child, path)
    return leaves
