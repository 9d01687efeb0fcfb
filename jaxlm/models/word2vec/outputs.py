"""How the models of word2vec learn to predict a word from a vector: negative sampling, or a hierarchical softmax.

Source: Mikolov et al. 2013b, §2.1 (hierarchical softmax), §2.2 (negative sampling). Differs: the noise words of
negative sampling are drawn for a block of words at a time. S words w_s take the place of k for each prediction, and
k/S Σ_s that of Σ_k, which has the same expectation; a block's scores of noise are then one product of matrices. As in
Eq. 4, noise may be the predicted word itself, which the authors' program leaves out.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.program import Metric
from jaxfit.recipe import option
from jaxlm.objectives.logistic import softplus
from jaxlm.objectives.tree import Codes

# in validation, of all words and their full windows; in training, of those drawn for the epoch: another quantity
METRICS = {"negative": Metric("negative sampling loss", float), "tree": Metric("hierarchical softmax loss", float)}
DRAWN = {name: Metric(f"{metric.name} of drawn windows", float) for name, metric in METRICS.items()}
BY_NOISE = ("objective", ("negative",))
PADDED = 32  # words, to whole multiples of which they are padded: JAX compiles for each length


@dataclass(frozen=True, kw_only=True)
class Options:
    """How words are predicted; part of a Config."""

    objective: Literal["negative", "tree"] = option(
        "negative", "tell words from noise, or go down a tree to them (hierarchical softmax)", first=True
    )
    num_noise: int = option(
        5,
        "negative samples of each prediction, k; those drawn for a block count as so many",
        "words",
        only_with=BY_NOISE,
    )
    noise_power: float = option(
        0.75, "power of the words' frequencies in the noise; 0: all words alike", high=10, only_with=BY_NOISE
    )
    block_noise: int = option(16, "noise words that are drawn for a block", "words", only_with=BY_NOISE)


class PaddedPaths(NamedTuple):
    """The decisions on the paths of words; L is the length of the longest path.

    Attributes:
        nodes: int32 [..., L], N_w for padding.
        signs: int8 [..., L], 1 where the path goes to the left of its node, -1 to the right, 0 for padding.
    """

    nodes: Array
    signs: Array


def padded_paths(codes: Codes, word: Array) -> PaddedPaths:
    """Gather the paths of words, int32 [...]."""
    place = codes.start[word][..., None] + jnp.arange(codes.longest).reshape(*[1] * word.ndim, -1)
    turn = jnp.where(place < codes.start[word + 1][..., None], codes.turn.at[place].get(mode="clip"), 0)
    return PaddedPaths(jnp.where(turn == 0, len(codes.start) - 1, jnp.abs(turn) - 1), jnp.sign(turn).astype(jnp.int8))


def nats(C: Array, x: Array, word: Array, aux: Any, config: Any) -> Array:
    """Compute the loss of ONE prediction: the specification.

    By negative sampling it is -log σ(x·c_w) - k/S Σ_s log σ(-x·c_s) (Eq. 4); by a tree, the sum of -log σ(± x·c_n) over
    the nodes n on the path to the word (Eq. 3).

    Args:
        C: vectors of words, [N_w, D], or of nodes, [N_w - 1, D].
        x: the vector that predicts, [D].
        word: the word that is predicted, int32.
        aux: its noise, int32 [S], or its `PaddedPaths`, [L].
        config: with `Options`.
    """
    if config.objective == "tree":
        return jnp.sum(jnp.where(aux.signs == 0, 0, jax.nn.softplus(-aux.signs * (C[aux.nodes] @ x))))
    share = config.num_noise / config.block_noise
    return jax.nn.softplus(-C[word] @ x) + share * jnp.sum(jax.nn.softplus(C[aux] @ x))


def log_odds(
    C: NDArray[np.float32], x: NDArray[np.float32], words: NDArray[np.int32], codes: Codes | None, config: Any
) -> NDArray[np.float32]:
    """Compute how well each of k vectors predicts each of n words: [k, n], nats.

    With a tree, it is log P(w | x). With negative sampling, it is x·c_w, an estimate of log(P(w | x) / (k P_n(w))),
    where P_n is the distribution of noise (Levy and Goldberg 2014).

    Args:
        C: as in `nats`.
        x: [k, D].
        words: int32 [n].
        codes: of the words in a tree; None for negative sampling.
        config: with `Options`.
    """
    if codes is None:
        return x @ C[words].T
    number = len(words)
    tables, padded = (jnp.asarray(C), jnp.asarray(x)), jnp.asarray(np.pad(words, (0, -number % PADDED)))
    of_words = jax.vmap(jax.vmap(nats, (None, None, 0, 0, None)), (None, 0, None, None, None))
    return -np.asarray(of_words(*tables, padded, padded_paths(codes, padded), config))[:, :number]


def row_ids(word: Array, aux: Any) -> Array:
    """Return the rows of C that a minibatch reads, int32 [n]: of each block its centres, then its noise; or nodes.

    Args:
        word: the centres, [B, M].
        aux: noise, int32 [B, S], or `PaddedPaths`, [B, M, L].
    """
    if isinstance(aux, PaddedPaths):
        return aux.nodes.reshape(-1)
    return jnp.concatenate([word, aux], axis=1).reshape(-1)


def by_tree(rows: Array, x: Array, paths: PaddedPaths) -> Array:
    """Compute the `nats` of predictions of a minibatch's centres by a tree: [B, M, J].

    Args:
        rows: rows of C, those of `row_ids`.
        x: [B, M, J, D], the J vectors that predict each centre.
        paths: to the centres, [B, M, L].
    """
    C = rows.reshape(*paths.nodes.shape, -1)
    signs = paths.signs[:, :, None, :].astype(x.dtype)
    found = softplus(-signs * jnp.einsum("bmjd,bmld->bmjl", x, C))
    return jnp.sum(jnp.where(signs == 0, 0, found), axis=3)
