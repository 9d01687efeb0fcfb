"""A model small enough to check by hand: predict y from a table row and a dense vector, by least squares."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxfit.program import Mean, Metric, Program, Sparse
from jaxfit.tables import rows_of

NUM_ROWS, NUM_FEATURES, NUM_EXAMPLES = 40, 3, 101


class Params(NamedTuple):
    T: jax.Array  # [rows, features]
    a: jax.Array  # [features]


class Data(NamedTuple):
    row: jax.Array
    x: jax.Array
    y: jax.Array


@jax.jit
def init(key):
    return Params(0.1 * jax.random.normal(key, (NUM_ROWS, NUM_FEATURES)), jnp.full(NUM_FEATURES, 0.5))


@functools.partial(jax.jit, static_argnames="n")
def data(key, n=NUM_EXAMPLES):
    k = jax.random.split(key, 4)
    # few distinct rows, so that a minibatch reads the same row several times
    row = jax.random.randint(k[0], (n,), 0, NUM_ROWS // 4)
    x = jax.random.normal(k[1], (n, NUM_FEATURES))
    truth = jax.random.normal(k[2], (NUM_ROWS, NUM_FEATURES))
    return Data(row, x, jnp.sum(x * truth[row], axis=1) + 0.1 * jax.random.normal(k[3], (n,)))


def _errors(rows, a, batch):
    return (jnp.sum(batch.x * (rows + a[None, :]), axis=1) - batch.y) ** 2


class Config(NamedTuple):
    by_rows: bool
    noise: float


def loss(params, batch, weight, keys, config):
    given = rows_of(params) if config.by_rows else params
    rows = given.T if config.by_rows else given.T[batch.row]
    errors = _errors(rows, given.a, batch)
    jitter = config.noise * jax.vmap(jax.random.normal)(keys)
    metrics = {"mean squared error": Mean(weight @ errors, jnp.sum(weight))}
    return jnp.sum(weight * (errors + jitter * rows[:, 0])), metrics


def score(params, batch, config):
    return _errors(params.T[batch.row], params.a, batch)


def touched(batch, config):
    return Params(batch.row, None)


METRIC = Metric("mean squared error", float)


def program(by_rows, noise=0.0, **more):
    options = {"sparse": Sparse(touched) if by_rows else None, **more}
    return Program(
        **{"config": Config(by_rows, noise), "loss": loss, "score": score, "metric": METRIC, **options}
    )  # fmt: skip
