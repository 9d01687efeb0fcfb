"""The models' functions in a loop of one's own: plain parameters and batches, jit, vmap, grad, shard_map and optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from jaxcf.data import user_batches
from jaxcf.data.ratings import Pairs, Ratings, RatingScale
from jaxcf.models import crbm, masked_rbm, pmf
from jaxcf.models.cpmf import model as cpmf
from jaxcf.models.rbm import model as rbm
from jaxfit.devices import sharding

USERS, ITEMS, SCALE = 16, 12, RatingScale(1, 5, 1)


def ratings():
    seen = np.random.default_rng(0).permutation(USERS * ITEMS)[:80]
    stars = np.random.default_rng(1).integers(1, 6, 80).astype(np.float32)
    return Ratings((seen // ITEMS).astype(np.int32), (seen % ITEMS).astype(np.int32), stars)


def of_pmf():
    config = pmf.Config(USERS, ITEMS, num_features=3, mean=3.0)
    return pmf, config, pmf.init(jax.random.key(0), config), pmf.make_data(ratings(), config), 0


def of_cpmf():
    config = cpmf.Config(USERS, ITEMS, num_features=3, mean=3.0)
    data = cpmf.make_data(ratings(), cpmf.make_rated(ratings(), config=config), config)
    return cpmf, config, cpmf.init(jax.random.key(0), config), data, (128, 128)


def of_rbm(module=rbm, rated=None):
    config, known = rbm.Config(ITEMS, num_hidden=4, init_scale=0.3), ratings()
    values = SCALE.level(known.stars)
    params = module.init(jax.random.key(0), config, known, values)
    traced = jax.jit(lambda values: module.init(jax.random.key(0), config, known, values))(values)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), params, traced)
    data = user_batches.make_data(known, USERS, SCALE, rated=rated)
    return module, config, params, data, (128,) if rated is None else (128, 128)


def of_crbm():
    return of_rbm(crbm, (Pairs(ratings().user, ratings().item),))


@pytest.mark.extended
@pytest.mark.parametrize("make", [of_pmf, of_cpmf, of_rbm, of_crbm], ids=["pmf", "cpmf", "rbm", "crbm"])
def test_losses_work_in_a_users_own_loop(make):
    model, config, params, data, capacity = make()
    program, B = model.program(config), USERS
    index, keys, weight = np.arange(B, dtype=np.int32), jax.random.split(jax.random.key(2), B), np.ones(B, np.float32)

    @jax.jit
    def loss(params, index, weight, keys):
        batch = program.batch(data, index, capacity, config)
        total, metrics = program.loss(program.gathered(params, batch), batch, weight, keys, config)
        (mean,) = metrics.values()
        return total, mean.total

    (value, error), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, index, weight, keys)
    mesh, split = sharding.make(8), P(sharding.AXES)

    def of_shard(params, *args):
        grads, error = jax.grad(loss, has_aux=True)(params, *args)  # JAX sums those of replicated parameters
        return grads, jax.lax.psum(error, sharding.AXES)

    spread = jax.shard_map(of_shard, mesh=mesh, in_specs=(P(), split, split, split), out_specs=P())
    other, other_error = jax.jit(spread)(params, index, weight, keys)
    np.testing.assert_allclose(other_error, error, rtol=1e-4)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4), other, grads)

    two = jax.tree.map(lambda x: np.stack([x, 2 * x]), jax.device_get(params))
    values, _ = jax.jit(jax.vmap(loss, (0, None, None, None)))(two, index, weight, keys)
    np.testing.assert_allclose(values[0], value, rtol=1e-4, atol=1e-4)

    optimizer = optax.adam(0.1)
    state, now = optimizer.init(params), params

    @jax.jit
    def step(now, state):
        updates, state = optimizer.update(jax.grad(loss, has_aux=True)(now, index, weight, keys)[0], state)
        return optax.apply_updates(now, updates), state

    for _ in range(50):
        now, state = step(now, state)
    assert loss(now, index, weight, keys)[1] < 0.95 * error


@pytest.mark.parametrize("make", [of_pmf, of_cpmf, of_rbm, of_crbm], ids=["pmf", "cpmf", "rbm", "crbm"])
def test_losses_refuse_gathered_rows_for_whole_tables_and_the_reverse(make):
    """Also where there are as many users as examples, so that shapes agree."""
    model, config, params, data, capacity = make()
    program = model.program(config)
    batch = jax.jit(lambda index: program.batch(data, index, capacity, config))(np.arange(USERS, dtype=np.int32))
    with pytest.raises(TypeError, match=r"call it with program.gathered\(params, batch\)"):
        program.loss(params, batch, jnp.ones(USERS), jax.random.split(jax.random.key(0), USERS), config)
    rows = jax.jit(program.gathered)(params, batch)
    one = {
        pmf: lambda: pmf.loss(rows, pmf.Batch(0, 0, 1.0), config),
        cpmf: lambda: cpmf.loss(rows, pmf.Batch(0, jnp.zeros(1, int), jnp.ones(1)), jnp.zeros(1, int), config),
        rbm: lambda: rbm.loss(rows, (jnp.zeros(1, int),) * 2, jax.random.key(0), config),
        crbm: lambda: crbm.loss(rows, (jnp.zeros(1, int),) * 2, jnp.zeros(1, int), jax.random.key(0), config),
    }
    with pytest.raises(TypeError, match="reads whole tables"):
        one[model]()


@pytest.mark.parametrize("model", [rbm, crbm, masked_rbm], ids=["rbm", "crbm", "masked-rbm"])
def test_padding_of_a_users_ratings_is_not_counted(model):
    _, config, params, _, _ = of_crbm() if model is crbm else of_rbm()
    if model is masked_rbm:
        config = masked_rbm.Config(ITEMS, num_hidden=4)

    @jax.jit
    @jax.value_and_grad
    def loss(params, item, value):
        key, example = jax.random.key(1), (item, value)
        if model is masked_rbm:
            return masked_rbm.loss(params, example, key, config)
        given = (example, item) if model is crbm else (example,)
        return model.loss(params, *given, key, config, cd_steps=2)

    item, value = np.array([3, 7, 1]), np.array([4, 0, 2])
    padded = loss(params, np.pad(item, (0, 5), constant_values=ITEMS), np.pad(value, (0, 5), constant_values=1))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), padded, loss(params, item, value))
