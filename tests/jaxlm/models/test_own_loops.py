"""The models' functions in a loop of one's own: plain parameters and batches, jit, vmap, grad, shard_map and optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from jaxfit.devices import sharding
from jaxlm.data.contexts import pad
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl
from jaxlm.trees.build import random_tree
from jaxlm.trees.order import by_visits
from jaxlm.trees.paths import node_biases

V, B = 11, 16


def of_lbl():
    config = lbl.Config(V, num_features=4, context_size=3, dropout=0.2)
    text = np.random.default_rng(0).integers(0, V, 100).astype(np.int32)
    counts = np.bincount(text, minlength=V)
    params = lbl.init(jax.random.key(0), config, counts)
    traced = jax.jit(lambda counts: lbl.init(jax.random.key(0), config, counts))(counts)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), params, traced)
    return config, lbl.program(config), params, pad(text, 3, 0), 0


def of_hlbl():
    text = np.random.default_rng(0).integers(0, V, 100).astype(np.int32)
    counts = np.bincount(text, minlength=V)
    tree = random_tree(jax.random.key(1), V)
    config = hlbl.Config(V, len(tree.children), num_features=4, context_size=3, dropout=0.2)
    tree = by_visits(tree, counts, config.num_hot)
    params = hlbl.init(jax.random.key(0), config, node_biases(tree, counts))
    return config, hlbl.program(config), params, hlbl.make_data(text, tree, config, 0), (128, 128, 128)


@pytest.mark.parametrize("make", [of_lbl, of_hlbl], ids=["lbl", "hlbl"])
def test_losses_work_under_other_transformations(make):
    config, program, params, data, capacity = make()
    index, keys, weight = jnp.arange(B, dtype=jnp.int32), jax.random.split(jax.random.key(2), B), jnp.ones(B)

    def loss(params, index, weight, keys):
        batch = program.batch(data, index, capacity, config)
        return program.loss(program.gathered(params, batch), batch, weight, keys, config)[0]

    value, grads = jax.jit(jax.value_and_grad(loss))(params, index, weight, keys)

    # data-parallel over 8 devices
    mesh, split = sharding.make(8), P(sharding.AXIS)

    def of_shard(*args):
        return jax.lax.psum(loss(*args), sharding.AXIS)

    everywhere = jax.shard_map(of_shard, mesh=mesh, in_specs=(P(), split, split, split), out_specs=P())
    shared, shared_grads = jax.jit(jax.value_and_grad(everywhere))(params, index, weight, keys)
    inside = jax.shard_map(
        jax.grad(loss), mesh=mesh, in_specs=(P(), split, split, split), out_specs=P()
    )  # the gradient of replicated parameters is summed by JAX
    np.testing.assert_allclose(shared, value, rtol=1e-5)
    for other in (shared_grads, jax.jit(inside)(params, index, weight, keys)):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), other, grads)

    # several models at once
    two = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), params)
    values = jax.jit(jax.vmap(loss, (0, None, None, None)))(two, index, weight, keys)
    twice = loss(jax.tree.map(lambda x: 2 * x, params), index, weight, keys)
    np.testing.assert_allclose(values, [value, twice], rtol=1e-5)

    optimizer = optax.adam(0.05)
    state, now = optimizer.init(params), params
    step = jax.jit(jax.grad(loss))
    for _ in range(20):
        updates, state = optimizer.update(step(now, index, weight, keys), state)
        now = optax.apply_updates(now, updates)
    assert loss(now, index, weight, keys) < 0.9 * value


def test_gathered_rows_and_whole_tables_are_not_confused():
    config, program, params, data, capacity = of_hlbl()
    batch = program.batch(data, jnp.arange(B, dtype=jnp.int32), capacity, config)
    with pytest.raises(TypeError, match=r"call it with program.gathered\(params, batch\)"):
        hlbl.batch_loss(params, batch, jnp.ones(B), None, config)
    with pytest.raises(TypeError, match="reads whole tables"):
        hlbl.loss(program.gathered(params, batch), (jnp.zeros(3, jnp.int32),) * 3, None, config)
    flat, whole = lbl.program(lbl.Config(V)), (jnp.zeros(1),)
    assert flat.gathered(whole, None) is whole
