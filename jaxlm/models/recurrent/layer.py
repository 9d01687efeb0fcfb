"""A layer of recurrent cells, run over the events of a minibatch."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.sharding import varying_alike
from jaxlm.objectives.promotion import promoted

State = Any  # of a cell: as flax has it, with the hidden units in the last array


@dataclass(frozen=True)
class Cell:
    """What the network needs to know about a cell.

    Attributes:
        module: number of units -> the flax module.
        gates: names of its gates; flax names the parameters of gate x "ix" for the input and "hx" for the state.
        step: (state, products of the input, products of the state, each [B, gates N_h]) -> the new state.
    """

    module: Callable[[int], Any]
    gates: tuple[str, ...]
    step: Callable[[State, Array, Array], State]


def layer(
    cell: Cell, inputs: Array, W: Array, bias: Array, state: State, real: Array, fresh: Array, kept: Array | None
) -> tuple[Array, State]:
    """Run a layer over the events of a minibatch.

    Its gradient by W is one product over all events; differentiating the loop would add up a product for each event.

    Args:
        cell: kind of the layer's cells.
        inputs: products of the gates with the layer's inputs, [T, B, gates N_h].
        W: weights of the gates for the state, [N_h, gates N_h].
        bias: [gates N_h], added to the products with the state.
        state: before the first event, [B, …].
        real: bool [T, B], which events are of the text; the others leave the state as it is.
        fresh: bool [T, B], events before which the state is reset to zero.
        kept: dropout masks of the units that W reads, [B, N_h]; None: no dropout.

    Returns:
        The hidden units, [T, B, N_h], and the state after the last event, of the types of the state before.
    """
    floats, tree = jax.tree.flatten((inputs, W, bias, state, kept))
    *floats, real, fresh = varying_alike(*promoted(*floats), real, fresh)
    inputs, W, bias, begun, kept = jax.tree.unflatten(tree, floats)
    found, after = _layer(cell, inputs, W, bias, begun, real, fresh, kept)
    return found, jax.tree.map(lambda new, old: new.astype(old.dtype), after, state)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _layer(
    cell: Cell, inputs: Array, W: Array, bias: Array, state: State, real: Array, fresh: Array, kept: Array | None
) -> tuple[Array, State]:
    products = jnp.broadcast_to(bias[None, None], inputs.shape)
    units, after, _ = _events(cell, inputs, products, W, state, real, fresh, kept)
    return units, after


@jax.named_scope("cells")
def _events(
    cell: Cell, inputs: Array, added: Array, W: Array, state: State, real: Array, fresh: Array, kept: Array | None
) -> tuple[Array, State, Array]:
    """Compute `layer` with what is added to the state's products; also what W reads at each event, [T, B, N_h]."""

    def event(state: State, given: tuple[Array, ...]) -> tuple[State, tuple[Array, Array]]:
        inputs, added, real, fresh = given
        begun = jax.tree.map(lambda s: jnp.where(fresh[:, None], 0.0, s), state)
        before = units(begun) if kept is None else units(begun) * kept
        new = cell.step(begun, inputs, before @ W + added)
        return jax.tree.map(lambda n, s: jnp.where(real[:, None], n, s), new, state), (units(new), before)

    after, (found, before) = lax.scan(event, state, (inputs, added, real, fresh))
    return found, after, before


def units(state: State) -> Array:
    """Return the hidden units of a cell's state."""
    return jax.tree.leaves(state)[-1]


def _forward(
    cell: Cell, inputs: Array, W: Array, bias: Array, state: State, real: Array, fresh: Array, kept: Array | None
) -> Any:
    def run(inputs: Array, added: Array, state: State) -> tuple[tuple[Array, State], Array]:
        found, after, before = _events(cell, inputs, added, W, state, real, fresh, kept)
        return (found, after), before

    found, pull, before = jax.vjp(run, inputs, jnp.broadcast_to(bias[None, None], inputs.shape), state, has_aux=True)
    return found, (pull, before)


def _backward(cell: Cell, residuals: tuple[Any, Array], gradient: tuple[Array, State]) -> tuple[Any, ...]:
    pull, before = residuals
    d_inputs, d_products, d_state = pull(gradient)
    d_W = jnp.einsum("tbh,tbg->hg", before, d_products)
    return d_inputs, d_W, jnp.sum(d_products, axis=(0, 1)), d_state, None, None, None


_layer.defvjp(_forward, _backward)
