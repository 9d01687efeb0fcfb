"""What restricted Boltzmann machines share: sampling units, running a Gibbs chain, CD-T as a loss, schedules of T.

Every draw is made by the key of its example, so that it depends neither on the rest of the minibatch
nor on the device. Source: Mnih 2010, §1.3; Hinton 2002.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.sharding import varying_alike
from jaxfit.draws import uniform
from jaxfit.errors import UserError


def bernoulli(keys: Array, p: Array) -> Array:
    """Draw binary units, 0. or 1., that are on with probability p (Eq. 1.6-1.7): [B, units].

    Args:
        keys: [B].
        p: [B, units].
    """
    return (uniform(keys[:, None], jnp.arange(p.shape[1])[None]) < p).astype(p.dtype)


def multinomial(u: Array, p: Array) -> Array:
    """Draw units with K values, by inverting their distribution functions: int32 [...].

    Args:
        u: uniform numbers in [0, 1), [...].
        p: [..., K].
    """
    below = jnp.cumsum(p, axis=-1)[..., :-1]
    return jnp.sum(u[..., None] >= below, axis=-1, dtype=jnp.int32)


def hidden_free_energy(x: Array) -> Array:
    """Compute -Σ_j log(1 + exp(x_j)), the hidden units' part of -log Σ_h exp(-E(v, h)): [..., N_h] -> [...]."""
    return -jnp.sum(jax.nn.softplus(x), axis=-1)


def gibbs(step: Callable[[Any, Array], Any], state: Any, keys: Array, steps: Array | int) -> Any:
    """Run full steps of block Gibbs sampling from a state; return the last state.

    The chain is not differentiated: `step` must not close over values that are (see `lax.stop_gradient`).

    Args:
        step: (state, key [B]) -> state, after one full step.
        state: pytree of arrays.
        keys: [B].
        steps: number of steps, traced or not.
    """

    @jax.named_scope("gibbs_step")
    def body(t: Array, state: Any) -> Any:
        return step(state, jax.vmap(jax.random.fold_in, (0, None))(keys, t))

    leaves, tree = jax.tree.flatten(lax.stop_gradient(state))
    begin = varying_alike(*leaves, jax.random.key_data(keys))[:-1]
    return lax.fori_loop(0, steps, body, jax.tree.unflatten(tree, begin))


def contrastive_divergence(free_energy: Callable[[Any], Array], data: Any, reconstruction: Any) -> Array:
    """Compute F(data) - F(reconstruction), whose negative gradient is the update of CD-T (§1.3.2).

    That update is E_D[-∂E/∂θ] - E_T[-∂E/∂θ], with the free energy F(v) = -log Σ_h exp(-E(v, h)). As T -> ∞, the
    gradient becomes that of -log P(data), Eq. 1.9. The value itself says nothing about how good a model is.

    Args:
        free_energy: (state) -> F.
        data: state of the visible units in the data.
        reconstruction: state after T steps of the Gibbs chain; not differentiated.
    """
    return free_energy(data) - free_energy(lax.stop_gradient(reconstruction))


def schedule(cd_steps: Sequence[int]) -> tuple[int, ...]:
    """Return the T of CD-T for each of the equal parts of training; raises UserError for none, or a T below 1."""
    if not cd_steps or min(cd_steps) < 1:
        raise UserError("CD-T takes at least one step", "--cd-steps", "give 1, or 1,1,3 for a schedule")
    return tuple(cd_steps)


def scheduled_steps(batch: Any, key: Array, fraction: Array, config: Any) -> Any:
    """Set a minibatch's T, `cd_steps`, to that of the schedule when a fraction of the training is done.

    It is `Program.at_step` of models whose Config has the schedule as `cd_steps`.
    """
    steps = config.cd_steps
    part = jnp.minimum((fraction * len(steps)).astype(jnp.int32), len(steps) - 1)
    return batch._replace(cd_steps=jnp.asarray(steps, jnp.int32)[part])
