"""The models' functions in a loop of one's own: plain parameters and batches, jit, vmap, grad, shard_map and optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from jaxfit.devices import sharding
from jaxfit.program import Carried
from jaxfit.state import streams
from jaxlm import context_model
from jaxlm.data.contexts import text_of
from jaxlm.models import frbm, lbl
from jaxlm.models.hlbl import model as hlbl
from jaxlm.models.hlbl.examples import Example, examples, padded_paths
from jaxlm.models.recurrent import rnn
from jaxlm.trees import build as trees
from jaxlm.trees.order import by_visits

V, C, D, EOS, B = 11, 3, 4, 0, 16
IDS = np.random.default_rng(0).integers(0, V, 60).astype(np.int32)


def lbl_case():
    config = lbl.Config(V, num_features=D, context_size=C)
    params = lbl.init(jax.random.key(0), config, np.ones(V))
    batch = lbl.Batch(*context_model.examples(IDS, C, EOS))

    def distribution(params, context):
        return lbl.log_prob(params, context, config)

    return lbl, config, params, batch, distribution


def hlbl_case():
    tree = trees.build("random", jax.random.key(0), num_words=V, copies=2)
    config = hlbl.Config(V, len(tree.children), num_features=D, context_size=C, init_scale=0.5)
    params = hlbl.init(jax.random.key(0), config, np.ones(V), tree)

    def distribution(params, context):
        return hlbl.log_prob(params, context, config, jnp.asarray(tree.children))

    return hlbl, config, params, examples(IDS, tree, C, EOS), distribution


@pytest.fixture(params=[lbl_case, hlbl_case], ids=["lbl", "hlbl"])
def case(request):
    return request.param()


def losses(model, config, params, batch):
    return jax.vmap(lambda example: model.loss(params, example, None, config))(batch)


def test_losses_of_plain_batches_are_those_of_the_distribution(case):
    model, config, params, batch, distribution = case
    found = jax.jit(lambda p, b: losses(model, config, p, b))(params, batch)
    log_p = np.asarray(jax.jit(jax.vmap(distribution, (None, 0)))(params, batch.context))
    np.testing.assert_allclose(found, -log_p[np.arange(len(IDS)), IDS], rtol=1e-4)


def test_optax_trains_on_plain_batches(case):
    model, config, params, batch, _ = case
    optimizer = optax.adam(0.02)

    @jax.jit
    def step(params, state):
        loss, grads = jax.value_and_grad(lambda p: losses(model, config, p, batch).mean())(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    state, seen = optimizer.init(params), []
    for _ in range(30):
        params, state, loss = step(params, state)
        seen.append(float(loss))
    assert seen[-1] < seen[0] - 0.3


def test_examples_of_a_part_are_examples_of_the_whole(case):
    *_, batch, _ = case
    contexts, words = context_model.examples(IDS, C, EOS)
    np.testing.assert_array_equal(words, IDS)
    np.testing.assert_array_equal(batch.context, contexts)
    np.testing.assert_array_equal(contexts[0], [EOS] * C)
    np.testing.assert_array_equal(contexts[10], IDS[7:10])


def test_contexts_can_stop_at_line_ends():
    contexts, _ = context_model.examples(np.array([3, 4, 0, 5, 6, 0]), C, EOS, across_lines=False)
    np.testing.assert_array_equal(contexts[4], [0, 0, 5])


def test_padded_paths_hold_every_leaf_once():
    tree = trees.build("random", jax.random.key(1), num_words=V, copies=2)
    nodes, signs = padded_paths(tree)
    lengths = (signs != 0).sum(axis=2)
    assert (lengths > 0).sum() == (tree.children < 0).sum()
    assert np.sum(2.0 ** -lengths[lengths > 0]) == 1  # Kraft
    for word in range(V):
        for code in range(nodes.shape[1]):
            node = 0
            for at, sign in zip(nodes[word, code], signs[word, code], strict=True):
                if sign:
                    assert at == node
                    node = tree.children[node, 0 if sign > 0 else 1]
            assert lengths[word, code] == 0 or node == ~word
    assert isinstance(examples(IDS, tree, C, EOS), Example)


def of_lbl():
    config = lbl.Config(V, num_features=4, context_size=3, dropout=0.2)
    text = np.random.default_rng(0).integers(0, V, 100).astype(np.int32)
    counts = np.bincount(text, minlength=V)
    params = lbl.init(jax.random.key(0), config, counts)
    traced = jax.jit(lambda counts: lbl.init(jax.random.key(0), config, counts))(counts)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), params, traced)
    return config, lbl.program(config), params, text_of(text, 0), 0


def of_hlbl():
    text = np.random.default_rng(0).integers(0, V, 100).astype(np.int32)
    counts = np.bincount(text, minlength=V)
    tree = trees.random_tree(jax.random.key(1), V)
    config = hlbl.Config(V, len(tree.children), num_features=4, context_size=3, dropout=0.2)
    tree = by_visits(tree, counts, config.num_hot)
    params = hlbl.init(jax.random.key(0), config, counts, tree)
    return config, hlbl.program(config), params, hlbl.make_data(text, tree, config, 0), (128, 128, 128)


@pytest.mark.parametrize("make", [of_lbl, of_hlbl], ids=["lbl", "hlbl"])
def test_losses_work_under_other_transformations(make):
    config, program, params, data, capacity = make()
    index, keys, weight = np.arange(B, dtype=np.int32), jax.random.split(jax.random.key(2), B), np.ones(B, np.float32)

    @jax.jit
    def loss(params, index, weight, keys):
        batch = program.batch(data, index, capacity, config)
        return program.loss(program.gathered(params, batch), batch, weight, keys, config)[0]

    value, grads = jax.jit(jax.value_and_grad(loss))(params, index, weight, keys)

    # data-parallel over 8 devices
    mesh, split = sharding.make(8), P(sharding.AXES)

    def of_shard(*args):
        return jax.lax.psum(loss(*args), sharding.AXES)

    everywhere = jax.shard_map(of_shard, mesh=mesh, in_specs=(P(), split, split, split), out_specs=P())
    shared, shared_grads = jax.jit(jax.value_and_grad(everywhere))(params, index, weight, keys)
    inside = jax.shard_map(
        jax.grad(loss), mesh=mesh, in_specs=(P(), split, split, split), out_specs=P()
    )  # the gradient of replicated parameters is summed by JAX
    np.testing.assert_allclose(shared, value, rtol=1e-5)
    for other in (shared_grads, jax.jit(inside)(params, index, weight, keys)):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), other, grads)

    # several models at once
    two = jax.tree.map(lambda x: np.stack([x, 2 * x]), jax.device_get(params))
    values = jax.jit(jax.vmap(loss, (0, None, None, None)))(two, index, weight, keys)
    twice = loss(jax.tree.map(lambda x: x[1], two), index, weight, keys)
    np.testing.assert_allclose(values, [value, twice], rtol=1e-5)

    optimizer = optax.adam(0.05)
    state, now = optimizer.init(params), params

    @jax.jit
    def step(now, state):
        updates, state = optimizer.update(jax.grad(loss)(now, index, weight, keys), state)
        return optax.apply_updates(now, updates), state

    for _ in range(20):
        now, state = step(now, state)
    assert loss(now, index, weight, keys) < 0.9 * value


@pytest.mark.parametrize(
    ("model", "fields"),
    [(rnn, {}), (frbm, {}), (frbm, {"objective": "likelihood"})],
    ids=["rnn", "frbm", "frbm-likelihood"],
)
def test_gradients_of_loops_are_summed_over_devices(model, fields):
    """Of a recurrent layer, and of what is drawn from a Gibbs chain; LSTM, GRU and tfrbm share them."""
    config = model.MODEL.config(V, num_features=4, num_hidden=5, **fields)
    text = np.random.default_rng(0).integers(0, V, 700).astype(np.int32)
    fitting = model.MODEL.fitting
    program, params = fitting.program(config), fitting.init(jax.random.key(0), config, np.bincount(text, minlength=V))
    data, carry = fitting.texts(config, EOS)(text), streams(program, B) if program.sequential else None

    def gradient(params, index, weight, keys, carry):
        batch = program.batch(data, index, 0, config)
        seen = batch if program.sequential is None else Carried(batch, carry)
        return jax.grad(lambda params: program.loss(params, seen, weight, keys, config)[0])(params)

    split = P(sharding.AXES)
    where = P(), split, split, split, jax.tree.map(lambda _: split, carry)
    spread = jax.shard_map(gradient, mesh=sharding.make(8), in_specs=where, out_specs=P())
    given = params, np.arange(B, dtype=np.int32), np.ones(B, np.float32), jax.random.split(jax.random.key(2), B), carry
    found, expected = jax.jit(spread)(*given), jax.jit(gradient)(*given)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), found, expected)


def test_gathered_rows_and_whole_tables_are_not_confused():
    config, program, params, data, capacity = of_hlbl()
    batch = jax.jit(lambda index: program.batch(data, index, capacity, config))(np.arange(B, dtype=np.int32))
    with pytest.raises(TypeError, match=r"call it with program.gathered\(params, batch\)"):
        hlbl.batch_loss(params, batch, jnp.ones(B), None, config)
    with pytest.raises(TypeError, match="reads whole tables"):
        hlbl.loss(program.gathered(params, batch), (jnp.zeros(3, jnp.int32),) * 3, None, config)
    flat, whole = lbl.program(lbl.Config(V)), (jnp.zeros(1),)
    assert flat.gathered(whole, None) is whole
