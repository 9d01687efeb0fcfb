"""Data in the host's memory: devices receive the minibatches that they would have gathered themselves."""

import signal
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toy
from jaxfit import fit
from jaxfit.checks import check
from jaxfit.devices import sharding
from jaxfit.devices.platform import host
from jaxfit.errors import UserError
from jaxfit.minibatches import bucketing, streaming
from jaxfit.minibatches.bucketing import Stretch
from jaxfit.minibatches.division import Division, Order
from jaxfit.minibatches.streaming import Block, HostData
from jaxfit.program import Program, Ragged, Sequential, Visits, take_rows
from jaxfit.recipe import Recipe
from jaxfit.trainer import Trainer

RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.1})


@pytest.fixture(autouse=True)
def _blocks_as_large_as_their_bytes_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BLOCKS", 1)


OF_TWO_STEPS = 16 * 20 * 2  # bytes: a row, three features and the target of 16 examples


def train(program: Program | None = None, mesh: Any = None, recipe: Recipe = RECIPE, **options: Any) -> fit.Fitted:
    data = toy.data(jax.random.key(1))
    return fit.fit(
        program or toy.program(True, 0.1), toy.init(jax.random.key(0)), data, data, recipe=recipe,
        key=jax.random.key(2), mesh=mesh, **options,
    )  # fmt: skip


def recurrent() -> Program:
    """Return a model whose stream adds what it carries, the sum of earlier targets, to the error."""

    def loss(params: Any, seen: Any, weight: Any, keys: Any, config: Any) -> Any:
        total, metrics = toy.loss(params, seen.batch, weight, keys, config)
        return total + 0.1 * jnp.sum(weight * seen.carry * params.a[0]), metrics, seen.carry + seen.batch.y

    def score(params: Any, seen: Any, config: Any) -> Any:
        return toy.score(params, seen.batch, config), seen.carry + seen.batch.y

    return toy.program(False, loss=loss, score=score, sequential=Sequential(lambda config: np.float32(0), streams=2))


@pytest.mark.parametrize(
    ("held", "grouped"),
    [(1, {}), (1 << 20, {}), (OF_TWO_STEPS, {"group_size": 8}), (OF_TWO_STEPS, {"sections": 3})],
)
def test_training_from_the_host_equals_training_on_a_device(
    held: int, grouped: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "BLOCK_BYTES", held)
    program = toy.program(True, 0.1, **grouped)
    for one, other in zip(train(program).params, train(program, stream=True).params, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("program", "row_shards"),
    [(toy.program(True, 0.1), 1), (recurrent(), 1), (toy.program(True, 0.1), 4), (toy.program(False, 0.1), 4)],
    ids=["by rows", "recurrent", "rows exchanged", "rows split by the compiler"],
)
def test_devices_receive_their_shards(program: Program, row_shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BLOCK_BYTES", OF_TWO_STEPS // 8)
    mesh = sharding.make(8, row_shards)
    for one, other in zip(train(program, mesh).params, train(program, mesh, stream=True).params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_a_device_holds_its_part_of_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BLOCK_BYTES", OF_TWO_STEPS // 8)
    data, mesh, device = toy.data(jax.random.key(1)), sharding.make(8), jax.devices()[3]
    trainer = Trainer(toy.program(True), toy.init(jax.random.key(0)), data, RECIPE, jax.random.key(2), mesh, True)
    assert all(array.devices() == {host()} for array in jax.tree.leaves(trainer.data))
    epoch, from_host, held = trainer.plan_epoch(), trainer.host_data, []
    assert from_host is not None
    assert [stretch.end - stretch.begin for stretch in epoch.stretches] == [2, 2, 2, 1]
    gathered = from_host._gathered

    def gather(stretch: Stretch, of: Any) -> Block:
        made, order = gathered(stretch, of), of(stretch)
        (y,) = [part.data for part in made.batches.y.addressable_shards if part.device == device]
        assert y.shape == (1, 2, 2)  # shards, steps, examples
        index = np.asarray(order.visits).reshape(-1, 8, 2)[: stretch.end - stretch.begin, 3]
        np.testing.assert_array_equal(np.asarray(y)[0, : len(index)], np.asarray(data.y)[index])
        held.append(len([array for array in jax.live_arrays() if array.shape == (8, 2, 2, 3)]))
        return made

    monkeypatch.setattr(from_host, "_gathered", gather)
    for epoch_number in range(2):
        trainer.progress = trainer.progress._replace(epoch=epoch_number)
        trainer.epoch_run()(0, 7)
    assert len(held) == 8, "no block is gathered twice"
    assert max(held) == 2


def test_a_block_in_use_is_kept_while_the_next_one_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another one, of which a program was compiled, was gathered after it."""
    gathered, gather = [], HostData._gathered
    monkeypatch.setattr(HostData, "_gathered", lambda *given: gathered.append(given[1]) or gather(*given))
    of = HostData(toy.program(True), toy.data(jax.random.key(1)), 101, Division(16), None)
    first, second, other = (Stretch(at, at + 1, 0) for at in range(3))

    def order(stretch: Stretch) -> Order:
        return Order(np.arange(16, dtype=np.int32), np.int32(stretch.begin))

    for stretch in (first, other, first):
        of.block(stretch, order)
    of.prepare(second, order)
    for stretch in (first, second):
        of.block(stretch, order)
    assert gathered == [first, other, second]


def test_what_all_minibatches_share_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table among the data, which `batch` passes on."""
    monkeypatch.setattr(streaming, "BLOCK_BYTES", OF_TWO_STEPS)
    table = jax.random.normal(jax.random.key(3), (1000,))

    def loss(params: Any, batch: Any, weight: Any, keys: Any, config: Any) -> Any:
        rows, table = batch
        return toy.loss(params, rows, weight * table[7], keys, config)

    program = toy.program(
        False, loss=loss, score=lambda params, batch, config: toy.score(params, batch[0], config),
        size=lambda data: len(data[0].y),
        batch=lambda data, index, capacity, config: (take_rows(data[0], index, capacity, config), data[1]),
    )  # fmt: skip
    data = toy.data(jax.random.key(1)), table
    of = HostData(program, data, 101, Division(16), None)
    assert of.steps(0) == 2
    block = of.block(Stretch(0, 1, 0), lambda _: Order(np.arange(16, dtype=np.int32), np.int32(0)))
    assert block.batches[1] is None
    np.testing.assert_array_equal(block.shared[1], table)
    both = [
        fit.fit(
            program, toy.init(jax.random.key(0)), data, data, recipe=RECIPE, key=jax.random.key(2), stream=stream
        ).params
        for stream in (False, True)
    ]
    jax.tree.map(np.testing.assert_array_equal, *both)


@pytest.mark.parametrize("devices", [1, 8])
def test_minibatches_of_unequal_size_come_in_blocks_of_their_own(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few examples cost so much that there are several buckets, which alternate within an epoch."""
    costs = np.where(np.arange(101) % 10 == 0, 1000, 1).astype(np.int64)
    monkeypatch.setattr(bucketing, "LEAST", 1)
    program = toy.program(
        True, ragged=Ragged(lambda data: costs),
        batch=lambda data, index, capacity, config: take_rows(data, index, capacity, config),
    )  # fmt: skip
    recipe, mesh = replace(RECIPE, batch_size=devices), sharding.make(devices)
    gathered, gather = [], HostData._gathered

    def counted(self: HostData, stretch: Stretch, order: Any) -> Block:
        gathered.append(stretch)
        return gather(self, stretch, order)

    monkeypatch.setattr(HostData, "_gathered", counted)
    one, other = (train(program, mesh, recipe, stream=stream).params for stream in (False, True))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7), one, other)
    if devices == 1:
        assert len({stretch.capacity for stretch in gathered}) > 1


@pytest.mark.parametrize(
    ("step", "stream"),
    [(11, False), (11, True), (14, True)],
    ids=["from the host to a device", "the second step of those on the device", "the last step of an epoch"],
)
def test_stopped_and_resumed_training_is_the_same(
    step: int, stream: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train().params
    monkeypatch.setattr(streaming, "BLOCK_BYTES", OF_TWO_STEPS)
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 1e-9)  # a step at a time
    steps, check = [], fit._check_finite

    def interrupt(trainer: Trainer, directory: Any) -> None:
        steps.append(trainer.progress.at)
        if len(steps) == step:  # of seven in an epoch
            signal.raise_signal(signal.SIGINT)
        check(trainer, directory)

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_check_finite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(directory=tmp_path, stream=True)
    for one, other in zip(expected, train(directory=tmp_path, resume=True, stream=stream).params, strict=True):
        np.testing.assert_array_equal(one, other)


def test_minibatches_are_divided_as_a_plain_loop_divides_them() -> None:
    size, order = 11, Order(np.array([*range(10, -1, -1), 0], np.int32), np.int32(0))
    flat, streams = Division(4, 2), Division(4, 2, sequential=True)
    found = [[flat.examples(i, k, order, size).tolist() for k in range(2)] for i in range(3)]
    assert found == [[[10, 9], [8, 7]], [[6, 5], [4, 3]], [[2, 1], [0, 0]]]
    assert [flat.weights(2, flat.places(k), size).tolist() for k in range(2)] == [[1, 1], [1, 0]]
    assert [int(flat.used(i, size)) for i in range(3)] == [4, 4, 3]
    found = [[streams.examples(i, k, order, size).tolist() for k in range(2)] for i in range(3)]
    assert found == [[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 10]]]
    assert [streams.weights(2, streams.places(k), size).tolist() for k in range(2)] == [[1, 1], [1, 0]]
    assert [int(streams.used(i, size)) for i in range(3)] == [4, 4, 3]
    filled = Division(6, 3, sequential=True, streams=4)  # as `streams`, and two places more
    assert filled.steps(size) == streams.steps(size) == 3
    found = [[filled.examples(i, k, order, size).tolist() for k in range(3)] for i in range(3)]
    assert found == [[[0, 3], [6, 9], [10, 10]], [[1, 4], [7, 10], [10, 10]], [[2, 5], [8, 10], [10, 10]]]
    assert [filled.weights(2, filled.places(k), size).tolist() for k in range(3)] == [[1, 1], [1, 0], [0, 0]]
    assert [int(filled.used(i, size)) for i in range(3)] == [4, 4, 3]


def test_examples_that_are_visited_one_after_another_are_refused() -> None:
    program = toy.program(False, visits=Visits(lambda *_: None))
    with pytest.raises(UserError, match=r"visits its examples one after another.*\(--stream\)"):
        train(program, recipe=replace(RECIPE, optimizer="sgd", reduction="sum"), stream=True)


def test_a_missing_cpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: Any) -> Any:
        raise RuntimeError("Unknown backend: 'cpu'")

    monkeypatch.setattr(jax, "local_devices", none)
    with pytest.raises(UserError, match=r"JAX has no CPU.*JAX_PLATFORMS"):
        check(toy.program(True), RECIPE, None, stream=True)
