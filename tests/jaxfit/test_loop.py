"""The loop of training steps."""

import jax
import jax.numpy as jnp
import pytest

from jaxfit import loop
from jaxfit.devices.platform import tracing_for


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
