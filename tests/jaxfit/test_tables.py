"""Updates of tables in place: no table is copied in a step, and all platforms update alike."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfit import tables
from jaxfit.devices import platform as platforms
from jaxfit.devices.platform import tracing_for
from jaxfit.optimizer import transform


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "rowwise-adagrad"])
def test_a_row_that_is_not_finite_does_not_change_the_memory_of_others(optimizer, bad):
    update, ids = transform(optimizer), jnp.array([0, 3, 5])
    table = tables.create(jnp.ones((6, 2)), update, by_rows=True)
    grad = jnp.ones((3, 2)).at[0].set(bad)  # of row 0, on whose first entry the other updates depend
    step = jax.jit(lambda w: tables.update_rows(w, (tables.Rows(ids, grad),), 0.1, 0.0, update))
    after = step(table)
    alone = tables.update_rows(table, (tables.Rows(ids[1:], grad[1:]),), 0.1, 0.0, update)
    for x, y in zip(jax.tree.leaves(after.memory), jax.tree.leaves(alone.memory), strict=True):
        if x.shape[:1] == (6,):
            np.testing.assert_allclose(x[1:], y[1:], rtol=1e-6)
    np.testing.assert_allclose(after.value[1:], alone.value[1:], rtol=1e-6)


@pytest.mark.parametrize("rows", [6, 5000], ids=["one block", "blocks"])
def test_adam_leaves_rows_without_a_gradient_as_they_are(rows):
    """As those of an example that fills up a minibatch, without weight."""
    update, rng = transform("adam"), np.random.default_rng(0)
    ids, first = jnp.arange(rows - 1), jnp.asarray(rng.normal(size=(rows - 1, 2)), jnp.float32)
    step = jax.jit(lambda w, grad: tables.update_rows(w, (tables.Rows(ids, grad),), 0.1, 0.0, update))
    before = step(tables.create(jnp.ones((rows, 2)), update, by_rows=True), first)
    still = np.asarray(rng.random(rows - 1) < 0.5)
    after = step(before, jnp.where(still[:, None], 0, first))
    leaves = zip(*map(jax.tree.leaves, (before.memory, after.memory)), strict=True)
    moments = [(old, new) for old, new in leaves if old.shape == (rows, 2)]
    assert len(moments) == 2
    for old, new in [(before.value, after.value), *moments]:
        changed = np.any(np.asarray(old != new), axis=1)
        np.testing.assert_array_equal(changed, np.append(~still, False))


def test_rowwise_adagrad_divides_a_row_by_the_root_of_its_sum_of_mean_squares():
    update, rng = transform("rowwise-adagrad"), np.random.default_rng(0)
    want, sums = rng.normal(size=(5, 3)), np.zeros(5)
    table = tables.create(jnp.array(want, jnp.float32), update, by_rows=True)
    for ids in ([1, 3, 1, 5], [4, 1, 1, 0]):  # row 1 more than once, and padding
        grad = rng.normal(size=(4, 3))
        table = tables.update_rows(table, (tables.Rows(jnp.array(ids), grad),), 0.1, 0.0, update)
        total = np.zeros((6, 3))
        np.add.at(total, ids, grad)
        sums += np.mean(total[:5] ** 2, axis=1)
        want -= 0.1 * total[:5] / np.sqrt(np.maximum(sums, 1e-10))[:, None]
    np.testing.assert_allclose(table.value, want, rtol=1e-5)
    np.testing.assert_allclose(table.memory, sums, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (3, 4, 2)], ids=str)
def test_rowwise_adagrad_of_any_rank(shape):
    """As of the weights of networks, updated as a whole; of a scalar and of a vector it is AdaGrad."""
    rng, moved = np.random.default_rng(0), {}
    value, grads = rng.normal(size=shape).astype(np.float32), rng.normal(size=(2, *shape)).astype(np.float32)
    for optimizer in ("adagrad", "rowwise-adagrad"):
        update = transform(optimizer)
        weights = tables.create(jnp.array(value), update, by_rows=False)
        for grad in grads:
            weights = tables.update_whole(weights, jnp.array(grad), jnp.float32(0.1), jnp.float32(0), update)
        moved[optimizer] = weights.value - value
        assert weights.value.shape == shape
    assert weights.memory.shape == shape[:1]
    if len(shape) < 2:
        np.testing.assert_allclose(*moved.values(), rtol=1e-6)
    else:
        within = tuple(range(1, len(shape)))
        sums = np.cumsum(np.mean(grads**2, axis=tuple(axis + 1 for axis in within), keepdims=True), axis=0)
        np.testing.assert_allclose(
            moved["rowwise-adagrad"], -0.1 * np.sum(grads / np.sqrt(sums), axis=0), rtol=1e-5, atol=1e-6
        )


def test_adam_is_optax_s_with_the_constants_of_its_paper():
    """Kingma and Ba 2015: decay rates of 0.9 and 0.999, a rate of 0.001, ε of 1e-8."""
    update, rng, theirs = transform("adam"), np.random.default_rng(0), optax.adam(0.001)
    params = jnp.ones((4, 3))
    ours, memory = tables.create(params, update, by_rows=False), theirs.init(params)
    for scale in (1.0, 30.0, 0.1, 0.0, 2.0):
        grad = jnp.asarray(scale * rng.normal(size=(4, 3)), jnp.float32)
        ours = tables.update_whole(ours, grad, jnp.float32(0.001), jnp.float32(0), update)
        steps, memory = theirs.update(grad, memory)
        params = optax.apply_updates(params, steps)
    np.testing.assert_allclose(ours.value, params, rtol=1e-6)
    np.testing.assert_allclose(ours.memory.nu, memory[0].nu, rtol=1e-6)


def test_many_ids_of_a_small_table():
    update, rng = transform("adagrad"), np.random.default_rng(0)
    ids, grad = rng.integers(0, 12, 5000), rng.normal(size=(5000, 2)).astype(np.float32)  # 10, 11 are padding
    table = tables.create(jnp.zeros((10, 2)), update, by_rows=True)
    after = tables.update_rows(table, (tables.Rows(jnp.array(ids), grad),), 0.1, 0.0, update)
    total = np.zeros((12, 2))
    np.add.at(total, ids, grad)
    np.testing.assert_allclose(after.memory.sum_of_squares, total[:10] ** 2, rtol=1e-3)
    np.testing.assert_allclose(after.value, -0.1 * np.sign(total[:10]), rtol=1e-5)


def test_parts_of_a_gradient_are_summed():
    table, rng = np.zeros((9, 3), np.float32), np.random.default_rng(0)
    k = 8192  # two chunks
    ids = rng.integers(0, 11, k)  # 9 and 10 are padding
    coef, owner = rng.normal(size=k), np.arange(k) % 5
    vectors = rng.normal(size=(5, 3))
    parts = (
        tables.Head(np.ones((2, 3))),
        tables.Rows(np.array([4, 9]), np.full((2, 3), 2.0)),
        tables.outer(ids, coef, owner, vectors),
    )
    want = np.zeros((11, 3))
    want[:2] += 1
    want[[4, 9]] += 2
    np.add.at(want, ids, coef[:, None] * vectors[owner])
    np.testing.assert_allclose(
        jax.jit(tables.add)(table, parts, np.float32(-0.5)), -0.5 * want[:9], rtol=1e-4, atol=1e-4
    )
    np.testing.assert_array_equal(jax.jit(tables.row_ids)(parts), [0, 1, 4, 9, *ids])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_products_are_those_of_matrices_in_groups_of_rows(optimizer):
    update, rng, K, D = transform(optimizer), np.random.default_rng(0), 3, 4
    ids, owner = rng.integers(0, 6, 50), rng.integers(0, 7, 50)  # of five groups; the sixth is padding
    coef, vectors = rng.normal(size=(50, K, 2)).astype(np.float32), rng.normal(size=(7, 2, D)).astype(np.float32)
    grad = np.zeros((6, K, D), np.float32)
    for i, each, o in zip(ids, coef, owner, strict=True):
        grad[i] += each @ vectors[o]
    rows = tables.Rows(np.arange(15), grad[:5].reshape(15, D))
    start = tables.create(jnp.ones((15, D)), update, by_rows=True)
    found, want = (
        jax.jit(lambda table, part: tables.update_rows(table, (part,), 0.1, 0.01, update))(start, part)
        for part in (tables.Products(ids, coef, owner, vectors), rows)
    )
    for x, y in zip(jax.tree.leaves(found[:3]), jax.tree.leaves(want[:3]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_zero_after_is_zero_for_any_argument():
    for x in (0.0, -1.0, 3.0, jnp.inf, -jnp.inf, jnp.nan):
        assert jax.jit(tables.zero_after)(jnp.float32(x)) == 0


@pytest.mark.parametrize("number", [100, 3000])  # in one block, and in several
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise-adagrad", "adam"])
def test_a_step_copies_no_table(optimizer, number):
    update = transform(optimizer)
    table = tables.create(jnp.ones((5003, 7)), update, by_rows=True)

    def steps(table):
        def step(i, table):
            ids = jax.random.randint(jax.random.fold_in(jax.random.key(0), i), (number,), 0, 5003)
            grad = tables.gather(table, ids)
            return tables.update_rows(table, (tables.Rows(ids, grad),), 0.1, 0.1, update)

        return jax.lax.fori_loop(0, 5, step, table)

    compiled = jax.jit(steps, donate_argnums=0).lower(table).compile().as_text()
    assert "5003,7" in compiled
    assert not re.findall(r"= \w+\[5003[,\]][^=]* copy\(", compiled)


@pytest.mark.parametrize("held", [1 << 28, 5 * 7 * 3, 5 * 7 * 64])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise-adagrad", "adam"])
def test_updates_in_an_accelerator_s_blocks_equal_those_of_a_cpu(monkeypatch, optimizer, held):
    """In one block, without a loop; in many of a few rows each; in some of which the last are padding."""
    monkeypatch.setattr(platforms, "HELD", held)
    update, keys = transform(optimizer), jax.random.split(jax.random.key(0), 4)
    ids = jax.random.randint(keys[0], (500,), 0, 210)  # of 200 rows; the others are padding
    owner = jax.random.randint(keys[1], (500,), 0, 5)
    rows = tables.Rows(ids[:90], jax.random.normal(keys[2], (90, 7)))
    outer = tables.outer(ids, jnp.linspace(-1, 1, 500), owner, jax.random.normal(keys[3], (5, 7)))
    table = tables.create(jnp.ones((200, 7)), update, by_rows=True)

    def step(table):
        return tables.update_rows(table, (rows, outer), jnp.float32(0.1), jnp.float32(0.01), update)

    want = jax.jit(step)(table)
    with tracing_for("gpu"):
        found = jax.jit(step)(table)
    for x, y in zip(
        jax.tree.leaves(found._replace(scratch=None)), jax.tree.leaves(want._replace(scratch=None)), strict=True
    ):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)
