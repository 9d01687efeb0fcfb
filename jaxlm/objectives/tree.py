"""Words as leaves of a binary tree: a word's probability is the product of the decisions on its path from the root.

At inner node v the path goes left with probability σ(z·q_v + b_v), so that a word costs as many products as its code is
long, and the probabilities of all words sum to one. Each word has one code; the hierarchical log-bilinear model also
takes words with several.

Source: Morin and Bengio 2005; Mnih 2010, §4.3 (Eq. 4.4-4.5).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxfit.minibatches.bucketing import spread
from jaxlm.objectives.segments import segment_logsumexp
from jaxlm.trees.paths import Tree, paths


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Codes:
    """The codes of all words, end to end, on the device.

    Attributes:
        start: int32 [N_w + 1], word w's decisions are start[w] up to start[w + 1].
        turn: int32 [decisions], v + 1 where the code goes left at node v, -(v + 1) where right.
        children: of the tree, int32 [N_w - 1, 2].
        longest: length of the longest code (static).
    """

    start: Array
    turn: Array
    children: Array
    longest: int = field(metadata={"static": True})


class Decisions(NamedTuple):
    """The decisions of a minibatch's next words, laid flat.

    Attributes:
        owner: int32 [n], the index of the next word; the last one for padding.
        node: int32 [n], N_w for padding.
        sign: float32 [n], +1 left, -1 right, 0 for padding.
        children: of the tree, which the specification reads.
    """

    owner: Array
    node: Array
    sign: Array
    children: Array


def codes(tree: Tree) -> Codes:
    """Return the codes of a tree in which each word has one."""
    every = paths(tree)
    turn = (every.nodes + 1) * every.signs.astype(np.int32)
    start, turn, children = jax.device_put((every.code_nodes, turn, tree.children))
    return Codes(start, turn, children, int(np.diff(every.code_nodes).max()))


def decisions(codes: Codes, word: Array, capacity: int) -> Decisions:
    """Gather the decisions of next words, int32 [B], into `capacity` entries; 0: enough for the longest codes."""
    owner, place, real = spread(codes.start, word, max(1, capacity or len(word) * codes.longest))
    turn = jnp.where(real, codes.turn[place], 0)
    node = jnp.where(real, jnp.abs(turn) - 1, len(codes.start) - 1)
    return Decisions(jnp.minimum(owner, len(word) - 1), node, jnp.sign(turn).astype(jnp.float32), codes.children)


@jax.named_scope("tree")
def nll(Q: Array, b: Array, z: Array, made: Decisions) -> Array:
    """Compute -log P of next words in nats: [B].

    Args:
        Q: vectors of the nodes of `made`, [n, D].
        b: their biases, [n].
        z: the vectors that predict, [B, D].
        made: from `decisions`.
    """
    logit = jnp.sum(Q * z[made.owner], axis=1) + b
    nats = jnp.where(made.sign == 0, 0.0, jax.nn.softplus(-made.sign * logit))  # -log σ(sign logit)
    return jax.ops.segment_sum(nats, made.owner, len(z), indices_are_sorted=True)


def log_prob_of_logits(logit: Array, children: Array, num_words: int) -> Array:
    """Compute log P of every word: [N_w], nats (Mnih 2010, Eq. 4.4-4.6); a word may have several codes.

    The log-probabilities of all decisions are summed from the root down by pointer doubling: log2(nodes) passes over
    the nodes, whatever the tree; a static number, so that it can be differentiated.

    Args:
        logit: of going left at each node, [nodes].
        children: of the tree, int32 [nodes, 2].
        num_words: N_w.
    """
    decision = jnp.stack([jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit)], axis=1)  # [nodes, 2]
    n = logit.shape[0]
    # inner node -> its parent and the decision that leads to it; leaves are written past the end
    inner = jnp.where(children >= 0, children, n)
    parents = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32)[:, None], (n, 2))
    above = jnp.zeros(n + 1, jnp.int32).at[inner].set(parents)[:n]
    reach = jnp.zeros(n + 1, logit.dtype).at[inner].set(decision)[:n]

    def double(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        above, reach = carry
        return above[above], reach + reach[above]

    _, reach = jax.lax.fori_loop(0, n.bit_length(), double, (above, reach))
    # a node's parent may be the root itself: the root's own reach is 0, so nothing is counted twice
    leaf = (reach[:, None] + decision).reshape(-1)
    word = jnp.where(children < 0, ~children, num_words).reshape(-1)
    return segment_logsumexp(leaf, word, num_words, in_order=False)
