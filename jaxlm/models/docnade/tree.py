"""The tree over words of DocNADE: random as in the paper, by frequency, or learned as in the thesis.

Source: Lauly et al. 2017, §2.2; Mnih 2010, §4.4.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.run_dir.metadata import read_info
from jaxlm.data.documents.collection import DocumentCorpus
from jaxlm.initial import fingerprint
from jaxlm.model_files import load
from jaxlm.objectives import word_tree
from jaxlm.trees import build as trees
from jaxlm.trees.clustering import average_features
from jaxlm.trees.options import LEARNED, RULES, is_file
from jaxlm.trees.paths import Tree


@dataclass(frozen=True)
class TreeOptions:
    """Which tree has the words as leaves."""

    tree: str = option("random", "how words are split, or a tree file", metavar=f"{'|'.join(RULES)}|FILE", first=True)
    bootstrap: str | None = option(
        None,
        "a docnade, trained on these documents, from whose representations the tree is learned (default: one over a "
        "random tree is trained first)",
        metavar="DIR",
    )


def check(options: TreeOptions) -> None:
    """Raise a UserError for a tree that is neither a rule nor a file, or for a bootstrap that the rule does not use."""
    if options.bootstrap is not None and options.tree not in LEARNED:
        raise UserError("--bootstrap is for learning a tree", f"--tree {options.tree}", "leave one out")
    if options.bootstrap is not None:  # before the documents, which may be many
        read_info(Path(options.bootstrap))
    if is_file(options.tree):
        word_tree.check(word_tree.Options(options.tree))


def origin(options: TreeOptions) -> dict[str, Any]:
    """Return what determines a tree that is built, apart from corpus and seed; {} for one from a file."""
    if options.tree not in RULES:
        return {}
    bootstrap = None if options.bootstrap is None else fingerprint(Path(options.bootstrap))
    return {"tree built": {"kind": options.tree, "bootstrap": bootstrap}}


def first_stage(options: TreeOptions) -> TreeOptions | None:
    """Return the tree options of the model from which this tree is learned: a random tree; None if there is none."""
    return TreeOptions("random") if options.tree in LEARNED and options.bootstrap is None else None


def build(corpus: DocumentCorpus, options: TreeOptions, counts: np.ndarray, key: Array) -> Tree:
    """Build a tree, or read it.

    Args:
        counts: int64 [N_w], of the training documents.
    """
    num_words = len(corpus.vocabulary)
    if options.tree not in RULES:
        return word_tree.build(corpus, word_tree.Options(options.tree), counts, key)
    features = word_features(corpus, counts, Path(str(options.bootstrap))) if options.tree in LEARNED else None
    kind: Any = options.tree
    return trees.build(kind, key, num_words=num_words, features=features, counts=counts)


def word_features(corpus: DocumentCorpus, counts: np.ndarray, bootstrap: Path) -> np.ndarray:
    """Return the mean representation of the documents that a word occurs in, weighted by its counts: [N_w, H].

    It takes the place of the predicted feature vectors that the thesis averages over the contexts of a word (§4.4).
    """
    model = load(bootstrap)
    if TREE not in model.record.structures or model.vocabulary.words != corpus.vocabulary.words:
        raise UserError("not a docnade over this vocabulary", bootstrap, "give the folder of one trained on this data")
    return average_features(corpus.train.counts.T @ model.features(corpus.train), counts)


def stand_in(options: TreeOptions, num_words: int, counts: np.ndarray) -> Tree:
    """Return a tree with about as many decisions a word as the tree that `build` would give."""
    kind: Any = options.tree if options.tree == "huffman" else "random"
    return trees.build(kind, jax.random.key(0), num_words=num_words, counts=counts)


TREE = replace(
    word_tree.WORD_TREE, options=TreeOptions, needed=lambda config: True, check=check, origin=origin,
    first_stage=first_stage, build=build, stand_in=stand_in,
)  # fmt: skip
