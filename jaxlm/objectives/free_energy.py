"""The output of models with binary hidden units: a word's probability by its free energy (Mnih 2010, Eq. 3.5).

Where a context gives the hidden units the input a, [N_h], and word w adds u_w, [N_h],

    log P(w) = b_w + Σ_j log(1 + exp(a_j + u_wj)) - log Z.

For a minibatch these are B N_w N_h terms, which do not fit into memory: contexts are taken in blocks, and for a block
the hidden units in groups. Most terms need neither an exponential nor a logarithm of their own. As

    log(1 + exp(x)) = x/2 + log(exp(x/2) + exp(-x/2)),

and exp(±x/2) is a product of exp(±a/2) and exp(±u/2), which are computed once for each context and each word, a group
takes one logarithm, of the product of its sums. That holds as long as no product overflows; where inputs are larger
than `LARGEST`, each term takes an exponential.

These functions are not meant to be differentiated.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.platform import block, platform
from jaxlm.objectives import word_samples

GROUP = 8  # hidden units, of whose terms one logarithm is taken
LARGEST = 20.0  # of |a_j + u_wj|: then GROUP factors of at most 2 exp(LARGEST / 2) are below 3e38, float32's largest
CACHED = 1 << 20  # numbers of [contexts, words] in a block, on a CPU
LogWeights = Callable[[Array], Array]  # a [rows, N_h] -> log P(w) + log Z, [rows, N_w]
Result = TypeVar("Result")


def block_rows(batch_size: int, num_words: int) -> int:
    """Return how many contexts are taken at a time."""
    if platform() != "cpu":
        return block(batch_size, num_words)
    return max(1, min(batch_size, CACHED // num_words))


def log_normalizer(a: Array, U: Array, b: Array) -> Array:
    """Compute log Z of each context: a [B, N_h], U [N_h, N_w], b [N_w] -> [B], nats."""
    return _by_blocks(a, U, b, functools.partial(jax.nn.logsumexp, axis=1))


def draw(a: Array, U: Array, b: Array, uniform: Array) -> tuple[Array, Array]:
    """Draw a word in each context from the model, by one uniform number.

    Args:
        a: [B, N_h].
        U: [N_h, N_w].
        b: [N_w].
        uniform: [B], in [0, 1).

    Returns:
        The words, int32[B], and log Z of each context, [B], nats.
    """
    U, b = jnp.pad(U, ((0, 0), (0, -U.shape[1] % word_samples.PIECE))), word_samples.whole_pieces(b)

    def of_block(log_weights: Array, uniform: Array) -> tuple[Array, Array]:
        top = jnp.max(log_weights, axis=1)
        word, total = word_samples.inverted(jnp.exp(log_weights - top[:, None]), uniform)
        return word, top + jnp.log(total)

    return _by_blocks(a, U, b, of_block, uniform)


@jax.named_scope("free_energy")
def _by_blocks(a: Array, U: Array, b: Array, function: Callable[..., Any], *others: Array) -> Any:
    """Apply a function to all words' log weights, [rows, N_w], and to rows of the others, in blocks of contexts."""
    B, rows = a.shape[0], block_rows(a.shape[0], b.shape[0])
    blocks = [_blocks(x, rows) for x in (a, *others)]

    def run(log_weights: LogWeights) -> Any:
        return lax.map(lambda given: function(log_weights(given[0]), *given[1:]), blocks)

    found = _by_size(a, U, b, run)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:B], found)


def _blocks(x: Array, rows: int) -> Array:
    """[B, …] -> [blocks, rows, …], padded with zeros."""
    padded = jnp.pad(x, ((0, -x.shape[0] % rows), *[(0, 0)] * (x.ndim - 1)))
    return padded.reshape(-1, rows, *x.shape[1:])


def _by_size(a: Array, U: Array, b: Array, run: Callable[[LogWeights], Result]) -> Result:
    """Run with the log weights that are computed as the size of the inputs allows."""
    small = jnp.max(jnp.abs(a)) + jnp.max(jnp.abs(U)) < LARGEST
    return lax.cond(small, lambda: run(_by_products(U, b)), lambda: run(_by_terms(U, b)))


def _by_products(U: Array, b: Array) -> LogWeights:
    """Return a function that computes log weights by products, of inputs below LARGEST."""

    def factors(x: Array) -> Array:  # [N_h, n] -> [groups, GROUP, 2, n]; of units that fill up, the product is 1
        y = jnp.exp(x / 2)
        return jnp.stack([_groups(y, 1.0), _groups(1 / y, 0.0)], axis=2)

    of_words, shared = factors(U), b + jnp.sum(U, axis=0) / 2

    def add(total: Array, group: tuple[Array, Array]) -> tuple[Array, None]:
        p, q = group
        each = (p[j, 0][:, None] * q[j, 0][None] + p[j, 1][:, None] * q[j, 1][None] for j in range(GROUP))
        return total + jnp.log(functools.reduce(operator.mul, each)), None

    def log_weights(a: Array) -> Array:
        start = shared[None] + jnp.sum(a, axis=1)[:, None] / 2
        return lax.scan(add, start, (factors(a.T), of_words))[0]

    return log_weights


def _by_terms(U: Array, b: Array) -> LogWeights:
    """Return a function that computes log weights of any inputs: log(1 + exp(x)) is max(x, 0) + log(1 + exp(-|x|))."""
    of_words = _groups(U, 0.0)

    def add(total: Array, group: tuple[Array, Array]) -> tuple[Array, None]:
        a, u = group
        inputs = [a[j][:, None] + u[j][None] for j in range(GROUP)]
        products = functools.reduce(operator.mul, (1 + jnp.exp(-jnp.abs(x)) for x in inputs))
        return total + sum(jnp.maximum(x, 0) for x in inputs) + jnp.log(products), None

    def log_weights(a: Array) -> Array:
        start = jnp.broadcast_to(b[None], (a.shape[0], b.shape[0]))
        return lax.scan(add, start, (_groups(a.T, -jnp.inf), of_words))[0]

    return log_weights


def _groups(x: Array, fill: float) -> Array:
    """[N_h, n] -> [groups, GROUP, n]; units that fill up the last group are given `fill`."""
    padded = jnp.pad(x, ((0, -x.shape[0] % GROUP), (0, 0)), constant_values=fill)
    return padded.reshape(-1, GROUP, x.shape[1])
