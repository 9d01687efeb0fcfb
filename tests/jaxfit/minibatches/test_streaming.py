"""Data in the host's memory: devices receive the minibatches that they would have gathered themselves."""

from dataclasses import replace
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
from jaxfit.minibatches import streaming
from jaxfit.minibatches.division import Division, Order
from jaxfit.program import Program, Sequential, Visits
from jaxfit.recipe import Recipe
from jaxfit.trainer import Trainer

RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.1})
OF_TWO_STEPS = 16 * 20 * 2  # bytes: a row, three features and the target of 16 examples


def train(program: Program | None = None, mesh: Any = None, recipe: Recipe = RECIPE, **options: Any) -> fit.Fitted:
    data = toy.data(jax.random.key(1))
    return fit.fit(
        program or toy.program(True, 0.1), toy.init(jax.random.key(0)), data, data, recipe=recipe,
        key=jax.random.key(2), mesh=mesh, **options,
    )  # fmt: skip


def recurrent() -> Program:
    """A model whose stream adds what it carries, the sum of earlier targets, to the error."""

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
    monkeypatch.setattr(streaming, "HELD", held)
    program = toy.program(True, 0.1, **grouped)
    for one, other in zip(train(program).params, train(program, stream=True).params, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("program", "row_shards"),
    [(toy.program(True, 0.1), 1), (recurrent(), 1), (toy.program(True, 0.1), 4), (toy.program(False, 0.1), 4)],
    ids=["by rows", "recurrent", "rows exchanged", "rows split by the compiler"],
)
def test_devices_receive_their_shards(program: Program, row_shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "HELD", OF_TWO_STEPS // 8)
    mesh = sharding.make(8, row_shards)
    for one, other in zip(train(program, mesh).params, train(program, mesh, stream=True).params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_a_device_holds_its_part_of_some_minibatches_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "HELD", OF_TWO_STEPS // 8)
    data, mesh = toy.data(jax.random.key(1)), sharding.make(8)
    trainer = Trainer(toy.program(True), toy.init(jax.random.key(0)), data, RECIPE, jax.random.key(2), mesh, True)
    assert all(array.devices() == {host()} for array in jax.tree.leaves(trainer.data))
    epoch, stream = trainer.plan_epoch(), trainer.stream
    assert stream is not None
    assert [stretch.end - stretch.begin for stretch in epoch.stretches] == [2, 2, 2, 1]
    order, seen = trainer.epochs.orders(0, epoch), []
    for stretch in epoch.stretches:
        batches, placed = stream.minibatches(stretch, order(stretch))
        assert int(placed.first) == stretch.begin
        for number, part in enumerate(batches.y.addressable_shards):
            assert part.data.shape == (2, 1, 2)  # steps, shards, examples
            index = np.asarray(order(stretch).visits).reshape(-1, 8, 2)[:, number]
            np.testing.assert_array_equal(np.asarray(part.data)[:, 0], np.asarray(data.y)[index])
            seen.append(index[: stretch.end - stretch.begin].ravel())
    np.testing.assert_array_equal(np.unique(np.concatenate(seen)), np.arange(101))


def test_killed_in_the_middle_and_resumed_from_a_device_it_is_the_same(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train().params
    monkeypatch.setattr(streaming, "HELD", OF_TWO_STEPS)
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 1e-9)  # a step at a time
    steps, check = [], fit._check_finite

    def interrupt(trainer: Trainer, directory: Any) -> None:
        steps.append(trainer.progress.at)
        if len(steps) == 11:  # the fourth step of the second epoch: the second of those on the device
            raise KeyboardInterrupt
        check(trainer, directory)

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_check_finite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(directory=tmp_path, checkpoint_minutes=0, stream=True)
    for one, other in zip(expected, train(directory=tmp_path, resume=True).params, strict=True):
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


def test_examples_that_are_visited_one_after_another_are_refused() -> None:
    program = toy.program(False, visits=Visits(lambda *_: None))
    with pytest.raises(UserError, match=r"visits its examples one after another.*\(--stream\)"):
        train(program, recipe=replace(RECIPE, optimizer="sgd"), stream=True)


def test_a_missing_cpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: Any) -> Any:
        raise RuntimeError("Unknown backend: 'cpu'")

    monkeypatch.setattr(jax, "local_devices", none)
    with pytest.raises(UserError, match=r"JAX has no CPU.*JAX_PLATFORMS"):
        check(toy.program(True), RECIPE, None, stream=True)
