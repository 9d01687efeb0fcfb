"""A model small enough to check by hand: predict y from a table row and a dense vector, by least squares."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxfit.program import Program

NUM_ROWS, NUM_FEATURES, NUM_EXAMPLES = 40, 3, 101


class Params(NamedTuple):
    T: jax.Array  # [rows, features]
    a: jax.Array  # [features]


class Data(NamedTuple):
    row: jax.Array
    x: jax.Array
    y: jax.Array


def init(key):
    return Params(0.1 * jax.random.normal(key, (NUM_ROWS, NUM_FEATURES)), jnp.full(NUM_FEATURES, 0.5))


def data(key, n=NUM_EXAMPLES):
    k = jax.random.split(key, 4)
    # few distinct rows, so that a minibatch reads the same row several times
    row = jax.random.randint(k[0], (n,), 0, NUM_ROWS // 4)
    x = jax.random.normal(k[1], (n, NUM_FEATURES))
    truth = jax.random.normal(k[2], (NUM_ROWS, NUM_FEATURES))
    return Data(row, x, jnp.sum(x * truth[row], axis=1) + 0.1 * jax.random.normal(k[3], (n,)))


def _errors(rows, a, batch):
    return (jnp.sum(batch.x * (rows + a[None, :]), axis=1) - batch.y) ** 2


def program(by_rows, noise=0.0):
    def loss(params, batch, weight, keys):
        rows = params.T if by_rows else params.T[batch.row]
        jitter = noise * jax.vmap(jax.random.normal)(keys)
        return jnp.sum(weight * (_errors(rows, params.a, batch) + jitter * rows[:, 0]))

    return Program(
        size=lambda data: data.y.shape[0],
        batch=lambda data, index, capacity: jax.tree.map(lambda x: x[index], data),
        loss=loss,
        touched=(lambda batch: Params(batch.row, None)) if by_rows else None,
        score=lambda params, batch: _errors(params.T[batch.row], params.a, batch),
        costs=None,
        metric=("mean squared error", lambda score: score),
    )
