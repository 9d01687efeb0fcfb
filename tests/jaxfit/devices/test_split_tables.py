"""Tables that are split by rows over devices: exchange, updates and training equal those of whole tables."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import toy
from jaxfit import state, tables
from jaxfit.devices import row_exchange, sharding, split_tables
from jaxfit.devices.platform import on_host, parts
from jaxfit.errors import UserError
from jaxfit.fit import fit
from jaxfit.optimizer import transform
from jaxfit.recipe import Recipe
from jaxfit.trainer import Trainer
from jaxfit.validation import Validation

DEVICES, ROWS, D, K = 8, 83, 3, 24
LAYOUT = split_tables.Layout(jax.tree.structure(0), (ROWS,))
MESHES = [8, 4, 2]  # devices that share the rows of a table, of 8
IDS = {
    "few of each device": lambda rng: rng.permutation(ROWS)[:K],
    "repeated": lambda rng: rng.integers(0, 9, K),
    "all of one device": lambda rng: DEVICES * rng.integers(0, ROWS // DEVICES, K),
    "some padding": lambda rng: np.where(rng.random(K) < 0.5, ROWS + rng.integers(0, 2, K), rng.integers(0, ROWS, K)),
    "padding alone": lambda rng: np.full(K, ROWS),
}


def drawn(kind, seed=0):
    """Draw a table, and of each device the ids that it reads and gradients of them."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([IDS[kind](rng) for _ in range(DEVICES)]).astype(np.int32)
    return rng.normal(size=(ROWS, D)).astype(np.float32), ids, rng.normal(size=(len(ids), D)).astype(np.float32)


def on_devices(mesh, function, arguments, results):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=arguments, out_specs=results, check_vma=False))


@pytest.mark.parametrize("row_shards", MESHES)
@pytest.mark.parametrize("rows", [1, 8, 63, 64, 65, 83])
def test_a_split_table_is_a_part_on_each_device_and_whole_again(rows, row_shards):
    mesh, table = sharding.make(DEVICES, row_shards), np.arange(2.0 * rows).reshape(rows, 2)
    split = split_tables.split(table, mesh)
    length = split_tables.part_length(rows, row_shards)
    assert rows / row_shards <= length < rows / row_shards + row_shards
    assert {piece.data.shape for piece in split.addressable_shards} == {(length, 2)}
    np.testing.assert_array_equal(split_tables.whole(split, rows), table)
    in_order = jax.jit(lambda x: split_tables.Layout(jax.tree.structure(0), (rows,)).in_order(x, mesh))(split)
    np.testing.assert_array_equal(in_order, table)


def test_what_need_not_fit_on_a_device_is_made_by_the_cpu(monkeypatch):
    cpu, other = jax.devices("cpu")[0], jax.devices()[5]  # the latter stands in for an accelerator
    key = jax.random.key(0)

    def made(wanted):
        with jax.default_device(other), on_host(wanted):
            return jax.random.normal(key, (3,))

    np.testing.assert_array_equal(made(True), made(False))
    assert (made(False).device, made(True).device) == (other, cpu)
    message = "Unknown backend cpu. Available backends are ['cuda']"
    monkeypatch.setattr(jax, "local_devices", lambda **_: (_ for _ in ()).throw(RuntimeError(message)))
    assert made(True).device == other


@pytest.mark.parametrize("row_shards", MESHES)
@pytest.mark.parametrize("kind", IDS)
def test_rows_fetched_are_those_of_the_whole_table(kind, row_shards):
    mesh, (table, ids, _) = sharding.make(DEVICES, row_shards), drawn(kind)

    def fetched(part, ids):
        found = row_exchange.route(ids, ROWS)
        return row_exchange.fetch(part, found), found.fits[None]

    run = on_devices(mesh, fetched, (split_tables.SPLIT, sharding.SHARDED), (sharding.SHARDED, sharding.SHARDED))
    found, fits = run(split_tables.split(table, mesh), ids)
    np.testing.assert_array_equal(found, table[np.minimum(ids, ROWS - 1)])
    most = row_exchange.capacity(K, ROWS, row_shards)
    asked = [np.bincount(np.unique(np.minimum(own, ROWS - 1)) % row_shards).max() for own in ids.reshape(DEVICES, -1)]
    assert np.all(np.asarray(fits) == (max(asked) <= most))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rowwise-adagrad"])
@pytest.mark.parametrize("row_shards", MESHES)
@pytest.mark.parametrize("kind", IDS)
def test_updates_are_those_of_the_whole_table(kind, row_shards, optimizer):
    mesh, direction = sharding.make(DEVICES, row_shards), transform(optimizer)
    table, *steps = [drawn(kind)[0], *(drawn(kind, seed)[1:] for seed in (1, 2))]
    rate, decay = jnp.float32(0.1), jnp.float32(0.5)
    whole = tables.create(jnp.asarray(table), direction, by_rows=True)
    split = LAYOUT.place(whole, direction, mesh)
    specs = LAYOUT.specs(direction)

    def step(weights, ids, grad):
        return row_exchange.update(weights, row_exchange.route(ids, ROWS), grad, rate, decay, direction)

    run = on_devices(mesh, step, (specs, sharding.SHARDED, sharding.SHARDED), specs)
    for ids, grad in steps:
        whole = tables.update_rows(whole, (tables.Rows(ids, grad),), rate, decay, direction)
        split = run(split, ids, grad)
    assert_whole(LAYOUT.whole_weights(split, direction), split, whole)


def assert_whole(found, split, whole):
    """Assert that joined parts are the whole table's, and that what is not split (counts) is alike on all devices."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(whole._replace(scratch=None)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for leaf in jax.tree.leaves(split):
        if leaf.sharding.is_fully_replicated:
            for piece in leaf.addressable_shards:
                np.testing.assert_array_equal(piece.data, leaf.addressable_data(0))


def test_padding_moves_no_row():
    """Not the last one either, which padding reads, although its averages are not zero."""
    mesh, direction = sharding.make(DEVICES, DEVICES), transform("adam")
    weights = LAYOUT.place(tables.create(jnp.ones((ROWS, D)), direction, by_rows=True), direction, mesh)
    specs = LAYOUT.specs(direction)

    def step(weights, ids):
        found = row_exchange.route(ids, ROWS)
        grad = row_exchange.fetch(weights.value, found)
        return row_exchange.update(weights, found, grad, jnp.float32(0.1), None, direction)

    run = on_devices(mesh, step, (specs, sharding.SHARDED), specs)
    for last in (ROWS - 1, ROWS):
        before, weights = weights, run(weights, np.full(DEVICES * K, last, np.int32))
        moved = np.flatnonzero(np.any(whole_of(weights) != whole_of(before), axis=1))
        assert moved.tolist() == ([last] if last < ROWS else [])


def whole_of(weights):
    return split_tables.whole(weights.value, ROWS)


def test_a_device_none_of_whose_rows_are_read_counts_the_step():
    """In parts and lists of ids that are updated in several blocks."""
    rows, number, mesh, direction = 20_000, 2048, sharding.make(DEVICES, DEVICES), transform("adam")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows, 2)).astype(np.float32)
    layout = split_tables.Layout(jax.tree.structure(0), (rows,))
    whole = tables.create(jnp.asarray(table), direction, by_rows=True)
    split, specs = layout.place(whole, direction, mesh), layout.specs(direction)
    rate, decay = jnp.float32(0.1), jnp.float32(0.5)

    def step(weights, ids, grad):
        return row_exchange.update(weights, row_exchange.route(ids, rows), grad, rate, decay, direction)

    run = on_devices(mesh, step, (specs, sharding.SHARDED, sharding.SHARDED), specs)
    for ids in (rng.integers(0, rows, DEVICES * number), DEVICES * rng.integers(0, rows // DEVICES, DEVICES * number)):
        grad = rng.normal(size=(len(ids), 2)).astype(np.float32)
        whole = tables.update_rows(whole, (tables.Rows(jnp.asarray(ids), grad),), rate, decay, direction)
        split = run(split, ids.astype(np.int32), grad)
    assert_whole(layout.whole_weights(split, direction), split, whole)


def test_what_a_device_sends_does_not_grow_with_the_number_of_devices():
    """The numbers that a step exchanges where all share a table and none asks another one for too much."""

    def exchanged(devices):
        mesh = sharding.over(jax.devices()[:devices], devices)

        def step(weights, ids):
            found = row_exchange.route(ids, ROWS)
            rows = row_exchange.fetch(weights.value, found)
            return row_exchange.update(weights, found, rows, jnp.float32(0.1), None, transform("sgd"))

        specs, sgd = LAYOUT.specs(transform("sgd")), transform("sgd")
        weights = LAYOUT.place(tables.create(jnp.zeros((ROWS, D)), sgd, by_rows=True), sgd, mesh)
        run = on_devices(mesh, step, (specs, sharding.SHARDED), specs)
        ids = jax.ShapeDtypeStruct((devices * 8,), jnp.int32, sharding=NamedSharding(mesh, sharding.SHARDED))
        text = run.lower(weights, ids).as_text()
        shapes = re.findall(r"all_to_all.*?-> tensor<([\dx]+)x[fi]32>", text, flags=re.DOTALL)
        return sum(int(np.prod([int(size) for size in shape.split("x")])) for shape in shapes)

    assert {exchanged(devices) for devices in (2, 4, 8)} == {2 * (1 + D) * row_exchange.SLACK * 8}  # ids, rows and back


def train(folder, devices, row_shards, epochs, by_rows, **more):
    recipe = Recipe(optimizer="adam", batch_size=16, epochs=epochs, rate={"*": 0.01}, decay={"*": 0.01}, patience=4)
    params, data, valid = toy.init(jax.random.key(0)), toy.data(jax.random.key(1)), toy.data(jax.random.key(3))
    program = toy.program(by_rows, noise=0.1)
    return fit(
        program, params, data, valid, recipe=recipe, key=jax.random.key(2), directory=folder,
        mesh=sharding.make(devices, row_shards), **more,
    )  # fmt: skip


@pytest.mark.parametrize("by_rows", [True, False])
def test_training_goes_on_with_tables_split_otherwise(by_rows, tmp_path):
    expected = train(None, 1, 1, 4, by_rows)
    train(tmp_path, 8, 8, 2, by_rows)
    train(tmp_path, 4, 2, 3, by_rows, resume=True)
    found = train(tmp_path, 1, 1, 4, by_rows, resume=True)
    assert found.epochs == 4
    for a, b in zip(found.params, expected.params, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert found.score == pytest.approx(expected.score, rel=1e-5)


@pytest.mark.parametrize("by_rows", [True, False])
def test_before_the_first_step_whole_tables_are_in_the_hosts_memory(by_rows, monkeypatch):
    started, one_row = [], split_tables.Layout.one_row
    monkeypatch.setattr(
        split_tables.Layout, "one_row", lambda self, params: one_row(self, started.append(params) or params)
    )
    recipe = Recipe(optimizer="adam", batch_size=16, epochs=1, rate={"*": 0.01}, decay={"*": 0.0})
    params, data = toy.init(jax.random.key(0)), toy.data(jax.random.key(1))
    trainer = Trainer(toy.program(by_rows), params, data, recipe, jax.random.key(2), sharding.make(8, 4))
    for whole in (*started, trainer.best):  # of JAX's arrays, an operation on one row can move all to a device
        trainer.layout.map(
            lambda rows, x: rows is None or isinstance(x, np.ndarray) or pytest.fail("on a device"), whole
        )
    assert len(started) == 1
    assert any(rows is not None for rows in trainer.layout.rows)


@pytest.mark.parametrize("by_rows", [True, False])
def test_each_device_holds_its_part_of_tables_and_of_their_memory(by_rows):
    recipe = Recipe(optimizer="adam", batch_size=16, epochs=1, rate={"*": 0.01}, decay={"*": 0.0})
    params, data = toy.init(jax.random.key(0)), toy.data(jax.random.key(1))
    trainer = Trainer(toy.program(by_rows), params, data, recipe, jax.random.key(2), sharding.make(8, 4))
    trainer.epoch_run()(0, 3)
    table, dense = trainer.state.weights
    part = split_tables.part_length(toy.NUM_ROWS, 4)
    for leaf in jax.tree.leaves((table.value, table.memory, table.scratch)):
        if leaf.ndim:
            assert leaf.addressable_shards[0].data.shape[0] == part
            assert leaf.sharding.spec == P("rows")
    assert dense.value.sharding.is_fully_replicated


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by_rows", [True, False])
def test_validation_is_shared_by_devices_that_share_no_tables(by_rows, stream):
    """By the operations of the compiled program, in which a minibatch is scored."""
    recipe = Recipe(optimizer="sgd", batch_size=16, epochs=1, rate={"*": 0.01}, decay={"*": 0.0})
    params, data = toy.init(jax.random.key(0)), toy.data(jax.random.key(1), n=2000)
    traced, found = [], {}

    def score(params, batch, config):
        traced.append(parts())
        return toy.score(params, batch, config)

    program = toy.program(by_rows, score=score)
    for row_shards in (8, 2):
        mesh = sharding.make(8, row_shards)
        trainer = Trainer(program, params, data, recipe, jax.random.key(2), mesh)
        run = Validation(program, data, mesh, trainer.layout, stream)
        given = run.data if run.host_data is None else run.host_data.block(run.stretches[0])
        split = state.between_epochs(trainer.state)[1]
        traced.clear()
        lowered = run.run.lower(split, given, np.int32(2000), run.begun, np.int32(0), np.int32(2))
        assert set(traced) == {1 if by_rows else row_shards}
        found[row_shards] = lowered.compile().cost_analysis()["flops"]
    assert 0.2 < found[2] / found[8] < 0.3


@pytest.mark.parametrize(
    ("devices", "row_shards", "advice"),
    [
        (8, 3, "give a divisor of the number of devices"),
        (1, 8, "give --devices a multiple of 8"),
        (4, 8, "give --devices a multiple of 8"),
    ],
)
def test_groups_that_do_not_divide_the_devices_are_refused(devices, row_shards, advice):
    with pytest.raises(UserError, match=rf"\(--row-shards\) - {advice}$"):
        sharding.make(devices, row_shards)
