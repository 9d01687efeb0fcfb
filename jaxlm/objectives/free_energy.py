"""The output of models with binary hidden units: a word's probability by its free energy (Mnih 2010, Eq. 3.5).

Where a context gives the hidden units the input a, [N_h], and word w adds u_w, [N_h],

    log P(w) = b_w + Σ_j log(1 + exp(a_j + u_wj)) - log Z.

For a minibatch these are B N_w N_h terms, which do not fit into memory: contexts are taken in blocks, for a block the
words in tiles, and for a tile the hidden units in groups. Most terms need neither an exponential nor a logarithm of
their own: exp(a_j + u_wj) is a product of exp(a_j) and exp(u_wj), which are computed once for each context and each
word, and all terms of a word take one logarithm, of the product of 1 + exp(a_j + u_wj) over the hidden units. To avoid
overflow, the product's exponent is accumulated separately, as an integer, after every SAFE units. If inputs are too
large for that, each term takes an exponential.

These functions are not meant to be differentiated.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.platform import block, parts, platform
from jaxfit.devices.sharding import varying_alike
from jaxlm.objectives import word_samples
from jaxlm.objectives.promotion import promoted
from jaxlm.objectives.softmax import from_blocks, to_blocks

GROUP = 16  # hidden units that are read at a time; with 8, XLA's loop on a CPU is ten times as slow
SAFE = 4  # hidden units in a product before its exponent is set aside
LARGEST = 64.0  # of the sum over SAFE units of max(0, a_j) + max(0, u_wj): a product is at most 2 (2^SAFE) exp(LARGEST)
ROWS = 64  # contexts in a block, on a CPU
TILE = 2048  # words in a tile, on a CPU: the products of a block and a tile stay in its cache
LARGEST_BLOCK = 1 << 22  # numbers of [contexts, words] in a block, on a CPU
LogWeights = Callable[[Array], Array]  # a [rows, N_h] -> log P(w) + log Z, [rows, N_w]
Result = TypeVar("Result")


def block_rows(batch_size: int, num_words: int) -> int:
    """Return how many contexts are taken at a time."""
    if platform() != "cpu":
        return block(batch_size, num_words)
    return max(1, min(batch_size, ROWS, LARGEST_BLOCK // num_words))


def log_normalizer(a: Array, U: Array, b: Array) -> Array:
    """Compute log Z of each context: [B], nats.

    Args:
        a: [B, N_h].
        U: [N_h, N_w].
        b: [N_w].
    """
    return _by_blocks(a, U, b, functools.partial(jax.nn.logsumexp, axis=1))


def draw(a: Array, U: Array, b: Array, uniform: Array) -> tuple[Array, Array]:
    """Draw words in each context from the model, each by one uniform number.

    Args:
        a: [B, N_h].
        U: [N_h, N_w].
        b: [N_w].
        uniform: [B, K], in [0, 1).

    Returns:
        The words, int32[B, K], and log Z of each context, [B], nats.
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
    a, U, b = promoted(a, U, b)
    B, rows = a.shape[0], block_rows(a.shape[0], b.shape[0])
    blocks = [to_blocks(x, rows) for x in (a, *others)]

    def run(log_weights: LogWeights) -> Any:
        return lax.map(lambda given: function(log_weights(given[0]), *given[1:]), blocks)

    found = _by_size(a, U, b, run)
    return jax.tree.map(lambda x: from_blocks(x, B), found)


def _by_size(a: Array, U: Array, b: Array, run: Callable[[LogWeights], Result]) -> Result:
    """Run with the log weights that are computed as the size of the inputs allows."""
    largest = jnp.maximum(jnp.max(a, axis=0), 0) + jnp.maximum(jnp.max(U, axis=1), 0)
    small = jnp.max(jnp.sum(_groups(largest[:, None], 0.0).reshape(-1, SAFE), axis=1)) < LARGEST
    return lax.cond(small, lambda: run(_by_products(U, b)), lambda: run(_by_terms(U, b)))


def _by_products(U: Array, b: Array) -> LogWeights:
    """Return a function that computes log weights by products, of inputs that are not too large for it."""
    of_words = _tiles(jnp.exp(_groups(U, -jnp.inf)))
    products = of_words.shape[1] * GROUP // SAFE
    number = jnp.finfo(U.dtype)
    integer, bias = jnp.dtype(f"int{number.bits}"), number.maxexp - 1  # a number's bits: exponent + bias, mantissa
    one, mantissa = bias << number.nmant, (1 << number.nmant) - 1

    def multiply(state: tuple[Array, Array], group: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        product, exponent = state
        for begin in range(0, GROUP, SAFE):
            s, t = (x[begin : begin + SAFE] for x in group)
            factors = (1 + s[j][:, None] * t[j][None] for j in range(SAFE))
            bits = lax.bitcast_convert_type(functools.reduce(operator.mul, factors, product), integer)
            exponent += bits >> number.nmant
            product = lax.bitcast_convert_type(bits & mantissa | one, U.dtype)
        return (product, exponent), None

    def log_weights(a: Array) -> Array:
        of_contexts = jnp.exp(_groups(a.T, -jnp.inf))

        def of_tile(tile: Array) -> Array:
            shape = (a.shape[0], tile.shape[2])
            start = jnp.ones(shape, U.dtype), jnp.zeros(shape, integer)
            ones, zeros, *_ = varying_alike(*start, of_contexts, tile)
            (product, exponent), _ = lax.scan(multiply, (ones, zeros), (of_contexts, tile))
            return jnp.log(product) + (exponent - bias * products) * math.log(2)

        return b[None] + _all_tiles(of_tile, of_words, len(b))

    return log_weights


def _by_terms(U: Array, b: Array) -> LogWeights:
    """Return a function that computes log weights of any inputs: log(1 + exp(x)) is max(x, 0) + log(1 + exp(-|x|))."""
    of_words = _tiles(_groups(U, 0.0))

    def add(total: Array, group: tuple[Array, Array]) -> tuple[Array, None]:
        a, u = group
        inputs = [a[j][:, None] + u[j][None] for j in range(GROUP)]
        products = functools.reduce(operator.mul, (1 + jnp.exp(-jnp.abs(x)) for x in inputs))
        return total + sum(jnp.maximum(x, 0) for x in inputs) + jnp.log(products), None

    def log_weights(a: Array) -> Array:
        of_contexts = _groups(a.T, -jnp.inf)

        def of_tile(tile: Array) -> Array:
            zeros = jnp.zeros((a.shape[0], tile.shape[2]), tile.dtype)
            start = varying_alike(zeros, of_contexts, tile)[0]
            return lax.scan(add, start, (of_contexts, tile))[0]

        return b[None] + _all_tiles(of_tile, of_words, len(b))

    return log_weights


def _groups(x: Array, fill: float) -> Array:
    """Cut [N_h, n] into [groups, GROUP, n]; units that fill up the last group are given `fill`."""
    padded = jnp.pad(x, ((0, -x.shape[0] % GROUP), (0, 0)), constant_values=fill)
    return padded.reshape(-1, GROUP, x.shape[1])


def _tiles(of_words: Array) -> Array:
    """Cut [groups, GROUP, N_w] into [tiles, groups, GROUP, words of a tile]; words that fill up the last tile are 0."""
    num_words = of_words.shape[2]
    number = -(-num_words // TILE) if platform() == "cpu" and parts() == 1 else 1
    size = -(-num_words // number)
    padded = jnp.pad(of_words, ((0, 0), (0, 0), (0, number * size - num_words)))
    return jnp.moveaxis(padded.reshape(*of_words.shape[:2], number, size), 2, 0)


def _all_tiles(function: Callable[[Array], Array], of_words: Array, num_words: int) -> Array:
    """Apply a function, [groups, GROUP, words] -> [rows, words], to each tile: [rows, N_w]."""
    found = jnp.moveaxis(lax.map(function, of_words), 0, 1)
    return found.reshape(found.shape[0], -1)[:, :num_words]
