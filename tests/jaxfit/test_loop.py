"""The loop of training steps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import toy
from jaxfit import loop
from jaxfit.devices.platform import tracing_for
from jaxfit.program import Mean, Metric
from jaxfit.trainer import Trainer
from toy_training import RECIPE, train


@pytest.mark.parametrize(("first", "last"), [(0, 0), (3, 2), (0, 5), (1, 17), (2, 18), (0, 40), (7, 100)])
def test_steps_that_a_gpu_starts_together_are_the_same(first: int, last: int) -> None:
    def step(i: jax.Array, state: jax.Array) -> jax.Array:
        return 3 * state + i

    def run(first: jax.Array, last: jax.Array) -> jax.Array:
        return loop.repeated(first, last, step, jnp.int32(1))

    one_by_one = jax.jit(run)(first, last)
    with tracing_for("gpu"):
        assert jax.jit(run)(first, last) == one_by_one
        assert "scan[" in str(jax.make_jaxpr(run)(first, last)), "a loop of a known number of steps"
    assert "scan[" not in str(jax.make_jaxpr(run)(first, last))


def test_orders_and_steps_are_drawn_by_keys_of_their_own() -> None:
    """Else an epoch's order would be drawn by the key of the step of its number."""
    key, data = jax.random.key(2), toy.data(jax.random.key(1))
    trainer = Trainer(toy.program(False), toy.init(jax.random.key(0)), data, RECIPE, key, None)
    keys = jax.random.key_data(jnp.stack([key, trainer.order_key, trainer.step_key]))
    assert len(jnp.unique(keys, axis=0)) == 3


class Keyed(NamedTuple):
    """A minibatch, and the key of what its examples share."""

    batch: toy.Data
    shared: jax.Array


def test_what_a_minibatch_shares_is_drawn_by_a_key_that_no_example_has() -> None:
    def at_step(batch, key, fraction, config):
        return Keyed(batch, jax.random.key_data(key))

    def loss(params, given, weight, keys, config):
        total, metrics = toy.loss(params, given.batch, weight, keys, config)
        equal = jnp.all(jax.random.key_data(keys) == given.shared[None], axis=1)
        return total, {**metrics, "equal keys": Mean(jnp.sum(equal.astype(jnp.float32)), jnp.float32(1))}

    metrics = toy.METRIC, Metric("equal keys", float)
    done = train(program=toy.program(False, loss=loss, at_step=at_step, training_metrics=metrics), epochs=1)
    assert done.history[0]["train equal keys"] == 0
