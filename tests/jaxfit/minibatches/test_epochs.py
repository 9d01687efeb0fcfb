"""Orders of examples: drawn by windows, or laid out beforehand."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jax
import numpy as np
import pytest

import toy
from jaxfit import fit
from jaxfit.devices.platform import tracing_for
from jaxfit.draws import permutation
from jaxfit.minibatches import epochs
from jaxfit.minibatches.bucketing import buckets
from jaxfit.minibatches.division import Division, Order
from jaxfit.minibatches.epochs import Epochs
from jaxfit.program import Ragged, take_rows
from jaxfit.recipe import Recipe
from jaxfit.trainer import Trainer

KEY, SIZE = jax.random.key(0), 1003
STORED = [9, 8, 0, 7, 4, 3, 6, 2, 5, 1]  # of ten examples, by the key of 0


def made(batch_size: int = 16, costs: np.ndarray | None = None, **program: object) -> Epochs:
    bucketed = None if costs is None else buckets(costs, batch_size, 1)
    of = replace(toy.program(True), **program)
    division = Division(batch_size, group_size=epochs.group_size(of, SIZE, batch_size))
    return Epochs(of, SIZE, division, bucketed, KEY, jax.device_put, ThreadPoolExecutor(1))


def visited(of: Epochs, number: int) -> np.ndarray:
    """Return the examples, or groups, that an epoch visits, as the compiled loop reads them."""
    planned = of.plan(number)
    order, steps = of.orders(number, planned), []
    for stretch in planned.stretches:
        found: Order = order(stretch)
        for step in range(stretch.begin, stretch.end):
            at = (step - int(found.first)) * of.places
            steps.append(np.asarray(found.visits)[at : at + of.places])
            assert len(steps[-1]) == of.places
    return np.concatenate(steps)


@pytest.mark.parametrize("window", [1, 64, 5000])
def test_windows_of_any_length_are_of_one_order(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "WINDOW", window)
    of = made()
    assert len(of.plan(3).stretches) == -(-of.steps // max(1, window // 16))
    expected = np.asarray(permutation(jax.random.fold_in(KEY, 3), SIZE, SIZE))
    np.testing.assert_array_equal(visited(of, 3), np.pad(expected, (0, -SIZE % 16)))


def test_a_group_that_is_not_whole_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "WINDOW", 6)
    groups = visited(made(group_size=8), 1)
    assert len(groups) == 2 * 63
    np.testing.assert_array_equal(np.sort(groups), np.arange(126))
    assert groups[-1] == 125, "the one of three examples"


@pytest.mark.parametrize("group_size", [1, 8])
@pytest.mark.parametrize("window", [6, 5000])
def test_sections_are_visited_one_after_another_in_drawn_orders(
    group_size: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "WINDOW", window)
    of, groups = made(group_size=group_size, sections=7), -(-SIZE // group_size)
    length = SIZE // group_size // 7
    first, second = (visited(of, number)[:groups] for number in (0, 1))
    orders = []
    for order in (first, second):
        np.testing.assert_array_equal(np.sort(order), np.arange(groups))
        np.testing.assert_array_equal(order[7 * length :], np.arange(7 * length, groups), "what is left comes last")
        section, within = np.divmod(order[: 7 * length].reshape(7, length), length)
        assert np.all(section == section[:, :1])
        assert list(within[0]) != sorted(within[0])
        assert np.all(within == within[:1]), "the same in all sections"
        assert list(section[:, 0]) != list(within[0])[:7]
        orders.append((tuple(section[:, 0]), tuple(within[0])))
    assert orders[0][0] != orders[1][0]
    assert orders[0][1] != orders[1][1]


def test_fewer_groups_than_sections_are_all_visited() -> None:
    few = made(batch_size=1000, group_size=500, sections=7)
    np.testing.assert_array_equal(np.sort(visited(few, 0))[-3:], np.arange(3))


def test_every_window_has_the_same_shape_and_the_last_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "WINDOW", 160)
    of = made()
    planned = of.plan(0)
    order = of.orders(0, planned)
    assert {order(stretch).visits.shape for stretch in planned.stretches} == {(160,)}
    assert order(planned.stretches[-1]) is order(planned.stretches[-1])


def test_orders_laid_out_ahead_are_those_laid_out_in_turn() -> None:
    costs = 1 + np.arange(SIZE) % 7
    ahead, in_turn = made(costs=costs), made(costs=costs)
    with tracing_for("gpu"), ahead.planner:
        for number in range(3):
            for _ in range(2):  # an epoch may be asked for again
                found, expected = ahead.plan(number), in_turn.plan(number)
                np.testing.assert_array_equal(found.visits, expected.visits)
                assert found.stretches == expected.stretches
                ahead.plan_ahead(number + 1)
            assert list(ahead.ahead) == [number + 1]
    assert not in_turn.ahead


def test_the_order_is_that_of_earlier_versions():
    assert permutation(jax.random.key(0), 10, 10).tolist() == STORED


def test_training_in_windows_and_resumed_in_one_equals_training_in_one_window(tmp_path, monkeypatch):
    recipe = Recipe(optimizer="adam", batch_size=16, epochs=2, rate={"*": 0.02}, decay={"*": 0.1})

    def train(folder=None, **options):
        data = toy.data(jax.random.key(1))
        return fit.fit(
            toy.program(True, 0.1), toy.init(jax.random.key(0)), data, data, recipe=recipe, key=jax.random.key(2),
            directory=folder, **options,
        ).params  # fmt: skip

    expected = train()
    monkeypatch.setattr(epochs, "WINDOW", 32)  # two of seven steps
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 1e-9)  # a step at a time
    steps, check = [], fit._check_finite

    def interrupt(trainer, directory):
        steps.append(trainer.progress.at)
        if len(steps) == 12:  # the fifth step of the second epoch, the first of a window
            raise KeyboardInterrupt
        check(trainer, directory)

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_check_finite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, checkpoint_minutes=0)
    for one, resumed, whole in zip(expected, train(tmp_path, resume=True), train(), strict=True):
        np.testing.assert_array_equal(one, resumed)
        np.testing.assert_array_equal(one, whole)


def test_the_last_epoch_and_data_drawn_anew_are_not_planned_ahead():
    recipe = Recipe(optimizer="sgd", batch_size=16, epochs=2, rate={"*": 0.02}, decay={"*": 0.0})
    ragged = replace(
        toy.program(True), ragged=Ragged(lambda data: np.ones(len(data.y), np.int32)),
        batch=lambda data, index, capacity, config: take_rows(data, index, 0, config),
    )  # fmt: skip
    drawn_anew = replace(ragged, redraw=lambda data, key, config: data)
    with tracing_for("gpu"):
        for program, expected in ((ragged, [[1], [1]]), (drawn_anew, [[], []])):
            data = toy.data(jax.random.key(1))
            trainer = Trainer(program, toy.init(jax.random.key(0)), data, recipe, KEY, None)
            for epoch, planned in enumerate(expected):
                trainer.progress = trainer.progress._replace(epoch=epoch)
                trainer.plan_ahead()
                assert list(trainer.epochs.ahead) == planned


def test_buckets_are_made_anew_only_for_data_of_other_costs():
    """Data are drawn anew for each epoch; in the last of three they cost more."""
    recipe = Recipe(optimizer="sgd", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.0})
    factor, data = [1], toy.data(jax.random.key(1))
    program = replace(
        toy.program(True), ragged=Ragged(lambda data: np.full(len(data.y), factor[0], np.int32)),
        batch=lambda data, index, capacity, config: take_rows(data, index, 0, config),
        redraw=lambda data, key, config: data,
    )  # fmt: skip
    trainer, found = Trainer(program, toy.init(jax.random.key(0)), data, recipe, KEY, None), []
    for epoch, cost in enumerate((1, 1, 2)):
        factor[0], trainer.progress = cost, trainer.progress._replace(epoch=epoch)
        trainer.epoch_run()
        found.append(trainer.bucketed)
    assert found[0] is found[1]
    assert found[1] is not found[2]


def test_nothing_is_laid_out_ahead_on_a_cpu_or_where_windows_are_drawn() -> None:
    unequal, equal = made(costs=1 + np.arange(SIZE) % 7), made()
    unequal.plan_ahead(1)
    with tracing_for("gpu"):
        equal.plan_ahead(1)
    assert not unequal.ahead
    assert not equal.ahead
