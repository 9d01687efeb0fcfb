"""The tree over words of a hierarchical model: its options, how it is built, its file (Mnih 2010, §4.4)."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxfit.errors import UserError
from jaxfit.recipe import option, require_bounds
from jaxfit.run_dir.metadata import read_info
from jaxlm.capabilities import Embeds
from jaxlm.context_model import combined
from jaxlm.data.contexts import Text, gather_contexts, text_of
from jaxlm.data.corpus import Corpus
from jaxlm.initial import fingerprint
from jaxlm.model_files import load
from jaxlm.trees import build as trees
from jaxlm.trees import clustering
from jaxlm.trees.clustering import average_features
from jaxlm.trees.options import LEARNED, OVERLAPPING, RULES, is_file
from jaxlm.trees.order import by_visits
from jaxlm.trees.paths import Tree
from jaxlm.trees.structure import of_trees, read

Clustered = Literal["predicted", "vectors"]
FOR_LEARNED = ("bootstrap", "bootstraps", "cluster", "em_steps")  # options
MOST_COPIES = 1000
BLOCK = 1000  # examples at a time
# Random trees of so many copies have the mean code length that Table 4.3 reports for learned trees of (ε, copies).
STAND_INS = {(0.25, 1): 2, (0.4, 1): 2, (0.4, 2): 5, (0.4, 4): 10}


@dataclass(frozen=True)
class TreeOptions:
    """Which tree an hlbl uses."""

    tree: str = option(
        "adaptive", "how words are split, or a tree file (§4.4)", metavar=f"{'|'.join(RULES)}|FILE", first=True
    )
    epsilon: float = option(0.0, "a word whose responsibilities are this close to 0.5 goes both ways", below=0.5)
    copies: int = option(1, "subtrees under new roots, x2, x4", "trees", high=MOST_COPIES)
    replicate: bool = option(
        False, "make the copies alike (Table 4.6)", only_with=("copies", range(2, MOST_COPIES + 1))
    )
    bootstrap: str | None = option(
        None,
        "a model, trained on this text, whose word features the tree is built from (default: an hlbl over a "
        "random tree is trained first)",
        metavar="DIR",
    )
    bootstraps: int = option(
        1, "rounds, in each of which a model is trained, and a tree is built from its word features", "rounds", high=10
    )
    cluster: Clustered = option(
        "predicted", "cluster average predicted vectors, or the word vectors of any model with --bootstrap"
    )
    em_steps: int = option(clustering.STEPS, "EM steps of each mixture of two Gaussians", "steps", high=10_000)
    shared_variance: bool = option(
        False, "set by the field of this name in the model's Config", only_with=("tree", LEARNED)
    )


def num_hot(num_nodes: int, num_words: int) -> int:
    """Return how many of the most visited nodes take part in a minibatch as one dense matrix product.

    Dense, a node costs the same whether visited or not, about as much as 30 visits one by one in a minibatch of 1000.
    More codes per word visit more nodes that often.
    """
    return min(num_nodes, 64 * max(1, round(num_nodes / num_words)))


def check(options: TreeOptions) -> None:
    """Raise a UserError for a tree that is neither a rule nor a file, and for options that only a rule takes."""
    require_bounds(options)
    if is_file(options.tree):
        names = (f.name for f in fields(TreeOptions) if f.name != "shared_variance")
        _refuse(options, names, "is for building a tree")
        read(options.tree)  # before the text, which may be long
        return
    if options.tree not in LEARNED:
        _refuse(options, FOR_LEARNED, "is for trees that are learned from word features")
    if options.tree not in OVERLAPPING:
        _refuse(options, ("epsilon",), f"is for trees that are {' or '.join(OVERLAPPING)}")
    if options.tree == "huffman":
        _refuse(options, ("replicate",), "has no effect, as copies of a Huffman tree are alike")
    if options.bootstrap is not None:  # before the text, which may be long
        if options.bootstraps > 1:
            raise UserError("the model to build from is given", "--bootstraps", "leave out --bootstraps")
        read_info(Path(options.bootstrap))


def _refuse(options: TreeOptions, names: Iterable[str], why: str) -> None:
    """Raise a UserError for the first of these options that is not at its default."""
    default = TreeOptions(options.tree)
    for name in names:
        if getattr(options, name) != getattr(default, name):
            raise UserError(f"--{name.replace('_', '-')} {why}", f"--tree {options.tree}", "leave one out")


def origin(options: TreeOptions) -> dict[str, Any]:
    """Return what determines a tree that is built, besides corpus and seed; {} for one from a file."""
    if options.tree not in RULES:
        return {}
    built = asdict(options) | {"bootstrap": options.bootstrap and fingerprint(Path(options.bootstrap))}
    return {"tree built": {"kind": built.pop("tree"), **built}}


def first_stage(options: TreeOptions) -> TreeOptions | None:
    """Return the tree of the model whose word features this tree is built from: a random one at first (§4.4)."""
    if options.tree not in LEARNED or options.bootstrap is not None:
        return None
    return TreeOptions("random") if options.bootstraps == 1 else replace(options, bootstraps=options.bootstraps - 1)


def build(corpus: Corpus, options: TreeOptions, counts: np.ndarray, key: Array) -> Tree:
    """Build a tree, or read it; the most visited nodes come first.

    Args:
        counts: int64 [N_w], of the training text.
    """
    num_words = len(corpus.vocabulary)
    if options.tree not in RULES:
        tree = read(options.tree, corpus.vocabulary)
    else:
        learned = options.bootstrap is not None and options.tree in LEARNED
        features = word_features(corpus, counts, Path(str(options.bootstrap)), options.cluster) if learned else None
        tree = trees.build(
            options.tree, key, num_words=num_words, features=features, counts=counts,  # type: ignore[arg-type]
            epsilon=options.epsilon, copies=options.copies, replicate=options.replicate, em_steps=options.em_steps,
            shared_variance=options.shared_variance,
        )  # fmt: skip
    return by_visits(tree, counts, num_hot(len(tree.children), num_words))


def stand_in(options: TreeOptions, num_words: int, counts: np.ndarray) -> Tree:
    """Return a random tree with about as many nodes and decisions a word as the tree that `build` would give."""
    copies = options.copies
    if options.tree in LEARNED:
        copies = STAND_INS.get((options.epsilon, options.copies), copies)
    tree = trees.build("random", jax.random.key(0), num_words=num_words, copies=copies)
    return by_visits(tree, counts, num_hot(len(tree.children), num_words))


def word_features(corpus: Corpus, counts: np.ndarray, bootstrap: Path, cluster: Clustered) -> np.ndarray:
    """Return what words are clustered by, [N_w, N_f]: of a trained hlbl, or word vectors of any model (§4.4).

    "predicted": the average predicted feature vector before each word of the training text.
    """
    model = load(bootstrap)
    if model.vocabulary.words != corpus.vocabulary.words:
        raise UserError("not a model over this vocabulary", bootstrap, "give the folder of one trained on this text")
    if cluster == "vectors":
        vectors = model.record.capability(Embeds)
        if vectors is None:
            raise UserError(f"a model of kind {model.record.name} has no word vectors", bootstrap, "choose another")
        return np.asarray(vectors.vectors(model.params))
    if TREE not in model.record.structures:
        raise UserError("only an hlbl predicts vectors for its tree", bootstrap, "add --cluster vectors")
    text = text_of(corpus.train, corpus.vocabulary.eos)
    return average_features(np.asarray(predicted_sums(model.params.R, model.params.C, text, model.config)), counts)


@partial(jax.jit, static_argnames="config")
def predicted_sums(R: Array, C: Array, text: Text, config: Any) -> Array:
    """Sum r̂ for each word over the contexts it follows, [N_w, N_f] (§4.4)."""
    size = text.events

    def step(i: Array, sums: Array) -> Array:
        index = i * BLOCK + jnp.arange(BLOCK, dtype=jnp.int32)
        context, word = gather_contexts(text, jnp.minimum(index, size - 1), config.context_size, config.across_lines)
        r_hat = combined(C, R[context])
        return sums.at[jnp.where(index < size, word, config.num_words)].add(r_hat, mode="drop")

    zeros = jnp.zeros((config.num_words, config.num_features))
    return jax.lax.fori_loop(0, -(-size // BLOCK), step, zeros)


TREE = of_trees(
    options=TreeOptions,
    check=check,
    origin=origin,
    first_stage=first_stage,
    build=build,
    fields=lambda tree: {"num_nodes": len(tree.children)},
    stand_in=stand_in,
)
