"""What restricted Boltzmann machines share: sampling units, running a Gibbs chain, CD-T as a loss, schedules of T.

Every draw is made by the key of its example, so that it depends neither on the rest of the minibatch
nor on the device. Source: Mnih 2010, §1.3; Hinton 2002.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.draws import uniform
from jaxfit.errors import UserError


def bernoulli(keys: Array, p: Array) -> Array:
    """Draw binary units, 0. or 1., on with probability p (Eq. 1.6-1.7): [B, units].

    Args:
        keys: [B].
        p: [B, units].
    """
    return (uniform(keys[:, None], jnp.arange(p.shape[1])[None]) < p).astype(p.dtype)


def multinomial(uniform: Array, p: Array) -> Array:
    """Draw units with K values, by inversion: int32 [...].

    Args:
        uniform: in [0, 1), [...].
        p: [..., K].
    """
    below = jnp.cumsum(p, axis=-1)[..., :-1]
    return jnp.sum(uniform[..., None] >= below, axis=-1, dtype=jnp.int32)


def hidden_free_energy(x: Array) -> Array:
    """-Σ log(1 + exp(x)): the hidden units' part of -log Σ_h exp(-E(v, h)); their inputs [..., N_h] -> [...]."""
    return -jnp.sum(jax.nn.softplus(x), axis=-1)


def gibbs(step: Callable[[Any, Array], Any], state: Any, keys: Array, steps: Array | int) -> Any:
    """Run full steps of block Gibbs sampling from a state.

    Nothing is differentiated through the chain: `step` must not close over what is (see `lax.stop_gradient`).

    Args:
        step: (state, key [B]) -> state, after one full step.
        keys: [B].
        steps: their number, traced or not.
    """

    @jax.named_scope("gibbs_step")
    def body(t: Array, state: Any) -> Any:
        return step(state, jax.vmap(jax.random.fold_in, (0, None))(keys, t))

    return lax.fori_loop(0, steps, body, lax.stop_gradient(state))


def contrastive_divergence(free_energy: Callable[[Any], Array], data: Any, reconstruction: Any) -> Array:
    """F(data) - F(reconstruction): minus its gradient is E_D[-∂E/∂θ] - E_T[-∂E/∂θ], the rule of CD-T (§1.3.2).

    The free energy is F(v) = -log Σ_h exp(-E(v, h)). With T steps of the chain from the data, T -> ∞, this is the
    gradient of -log P(data), Eq. 1.9. The value itself says nothing about how good a model is.
    """
    return free_energy(data) - free_energy(lax.stop_gradient(reconstruction))


def schedule(cd_steps: Sequence[int]) -> tuple[int, ...]:
    """Return T of CD-T for each equal part of the training; raises UserError for none, or a T below 1."""
    if not cd_steps or min(cd_steps) < 1:
        raise UserError("CD-T takes at least one step", "--cd-steps", "give 1, or 1,1,3 for a schedule")
    return tuple(cd_steps)


def scheduled(cd_steps: tuple[int, ...], fraction: Array) -> Array:
    """Return T of the schedule, int32, when a fraction of the training is done."""
    part = jnp.minimum((fraction * len(cd_steps)).astype(jnp.int32), len(cd_steps) - 1)
    return jnp.asarray(cd_steps, jnp.int32)[part]
