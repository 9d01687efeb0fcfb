"""The engine against dense updates in NumPy; invariance under chunks and the number of devices."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toy
from jaxfit import draws as order
from jaxfit import fit, loop, state
from jaxfit import tables as rows
from jaxfit.devices import sharding as mesh
from jaxfit.errors import Diverged, UserError
from jaxfit.minibatches.division import Order
from jaxfit.optimizer import transform
from jaxfit.program import Decay, Mean, Sparse
from jaxfit.tables import Rows
from jaxfit.trainer import Trainer
from toy_training import RECIPE, recipe, train


def test_row_updates_with_a_scale_equal_dense_sgd():
    for a, b in zip(train(by_rows=True).params, train(by_rows=False).params, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def in_numpy(rate, reduction, decay, penalised):
    """Train the same in NumPy: `decay` is how much all rows decay in a step, `penalised` whether used rows do."""
    data = jax.tree.map(np.asarray, toy.data(jax.random.key(1)))
    T, a = (np.asarray(p, np.float64) for p in toy.init(jax.random.key(0)))
    n, B = len(data.y), RECIPE.batch_size
    for epoch in range(RECIPE.epochs):
        order_key = jax.random.split(jax.random.key(2))[0]
        visits = np.asarray(order.permutation(jax.random.fold_in(order_key, epoch), n, n))
        for first in range(0, n, B):
            batch = visits[first : first + B]
            gT, ga = np.zeros_like(T), np.zeros_like(a)
            for i in batch:
                slope = 2 * (data.x[i] @ (T[data.row[i]] + a) - data.y[i]) * data.x[i]
                gT[data.row[i]] += slope + penalised * 0.3 * T[data.row[i]]
                ga += slope + penalised * 0.1 * a
            by = len(batch) if reduction == "mean" else 1
            shrink = decay(len(batch), by, n)
            T = T * (1 - rate * 0.3 * shrink) - rate * gT / by
            a = a * (1 - 0.01 * rate * 0.1 * shrink) - 0.01 * rate * ga / by
    return T, a


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(
    ("decay", "share", "shrink"),
    [
        ("every-step", 1.0, lambda used, by, n: 1.0),
        ("per-row", 1.0, lambda used, by, n: used / by / n),
        ("per-row", 0.3, lambda used, by, n: 0.3 * used / by / n),
        ("when-touched", 1.0, lambda used, by, n: 0.0),
    ],
)
def test_sgd_equals_a_loop_in_numpy_for_each_kind_of_decay(reduction, decay, share, shrink):
    rate = 0.002 if reduction == "sum" else 0.02

    def penalty(params, batch, weight, config):
        T, a = rows.rows_of(params)
        uses = jnp.sum(weight)
        return toy.Params(0.5 * jnp.sum(weight * jnp.sum(T**2, axis=1)), 0.5 * uses * jnp.sum(a**2))

    program = toy.program(True, decay=Decay(decay, penalty if decay == "when-touched" else None, share))
    got = train(program=program, rate={"*": rate, "a": 0.01 * rate}, reduction=reduction).params
    T, a = in_numpy(rate, reduction, shrink, decay == "when-touched")
    np.testing.assert_allclose(got.T, T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got.a, a, rtol=1e-4, atol=1e-6)


def test_metrics_and_scores_are_means_over_events_without_penalties():
    plain = train(rate={"*": 0.0})

    def halved(params, batch, weight, keys, config):
        total, metrics = toy.loss(params, batch, weight, keys, config)
        return total, {name: Mean(mean.total, 2 * mean.count) for name, mean in metrics.items()}

    def penalty(*_):
        return toy.Params(jnp.float32(1e6), jnp.float32(1e6))

    program = toy.program(
        True, events=lambda data: 2 * data.y.shape[0], loss=halved, decay=Decay("when-touched", penalty)
    )
    doubled = train(program=program, rate={"*": 0.0})
    assert doubled.score == pytest.approx(plain.score / 2)
    assert doubled.history[0]["train"] == pytest.approx(plain.history[0]["train"] / 2)
    assert doubled.events == 2 * plain.events


def test_scores_are_of_full_precision_as_in_validation():
    """By default a GPU or TPU rounds the factors of matrix products."""
    seen = []

    def score(params, batch, config):
        seen.append(jax.config.jax_default_matmul_precision)
        return toy.score(params, batch, config)

    program = toy.program(True, score=score)
    fit.scores(program, toy.init(jax.random.key(0)), toy.data(jax.random.key(1)))
    assert set(seen) == {"highest"}
    assert jax.config.jax_default_matmul_precision is None


def test_data_without_examples_have_no_scores():
    nothing = jax.tree.map(lambda x: x[:0], toy.data(jax.random.key(1)))
    found = fit.scores(toy.program(True), toy.init(jax.random.key(0)), nothing)
    assert (found.shape, found.dtype) == ((0,), np.float32)


def test_parameters_of_float64_are_trained_and_scored():
    with jax.enable_x64(True):
        params = jax.tree.map(lambda x: x.astype(np.float64), toy.init(jax.random.key(0)))
        wide = train(epochs=2, params=params)
        scores = fit.scores(toy.program(True), wide.params, toy.data(jax.random.key(1)))
    assert {x.dtype for x in wide.params} == {np.dtype(np.float64)}
    assert scores.dtype == np.float32
    assert wide.score == pytest.approx(scores.astype(np.float64).mean(), rel=1e-6)


def test_strict_promotion_of_types_changes_nothing():
    plain = train(epochs=1)
    with jax.numpy_dtype_promotion("strict"):
        strict = train(epochs=1)
    for one, two in zip(plain.params, strict.params, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise-adagrad", "adam"])
def test_row_updates_equal_dense_ones_if_every_step_touches_the_rows(optimizer):
    # one batch = all examples: every row that has examples is touched at every step
    options = {"optimizer": optimizer, "batch_size": 128, "epochs": 5, "rate": {"*": 0.05}}
    sparse, dense = train(by_rows=True, **options).params, train(by_rows=False, **options).params
    seen = np.unique(toy.data(jax.random.key(1)).row)
    np.testing.assert_allclose(np.asarray(sparse.T)[seen], np.asarray(dense.T)[seen], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sparse.a, dense.a, rtol=1e-4, atol=1e-5)


def test_lazy_adam_only_decays_untouched_rows():
    update = transform("adam")
    grad = np.ones((4, 3), np.float32)
    grad[3] = np.nan
    part = Rows(np.array([2, 0, 2, 4]), grad)  # row 2 twice, and padding

    @jax.jit
    def updated(values):
        table = rows.create(values, update, by_rows=True)
        return rows.update_rows(table, (part,), jnp.float32(0.1), jnp.float32(0.5), update)

    after = updated(np.arange(12, dtype=np.float32).reshape(4, 3))
    want = np.arange(12.0).reshape(4, 3) * 0.95
    want[[0, 2]] -= 0.1  # Adam's first step is the sign of the gradient
    np.testing.assert_allclose(rows.whole(after), want, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(after.memory.mu)[2], 0.2, rtol=1e-6)  # the sum of both gradients, once


def test_any_division_of_an_epoch_gives_the_same_bits_and_compiles_once():
    program, data, key = toy.program(True, noise=0.1), toy.data(jax.random.key(1)), jax.random.key(2)
    traces = []
    program = dataclasses.replace(program, loss=lambda *args: traces.append(1) or toy.loss(*args))
    update = transform("adam")
    run = loop.make_run(program, update, 16, 0, True)
    visits = Order(np.pad(order.permutation(key, 101, 101), (0, 11)), np.int32(0))
    like = toy.Params(np.float32(0.01), np.float32(0.01))
    rates = state.Rates(like, like, np.bool_(True), np.float32(21))

    def through(cuts):
        now = state.start(params := toy.init(jax.random.key(0)), program, update, state.by_rows(params, program, data))
        for begin, end in itertools.pairwise(cuts):
            now = run(now, data, visits, rates, key, np.int32(101), np.int32(begin), np.int32(end))
        return jax.tree.map(np.asarray, now)

    for a, b in zip(jax.tree.leaves(through([0, 7])), jax.tree.leaves(through([0, 1, 2, 5, 7])), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(traces) == 1


@pytest.mark.parametrize("num_devices", [1, 4])
@pytest.mark.parametrize("sections", [1, 3])
@pytest.mark.parametrize(("group_size", "groups_of"), [(1, 1), (8, 8), (7, 4), (64, 8)])
def test_an_epoch_visits_every_example_once_and_groups_contiguously(group_size, groups_of, sections, num_devices):
    """Each example has a row of its own, whose gradient is 1, so that rows count visits."""

    def loss(params, batch, weight, keys, config):
        total = jnp.sum(weight * params.rows.T[:, 0])
        return total, {toy.METRIC.name: Mean(total, jnp.sum(weight))}

    program = toy.program(True, loss=loss, group_size=group_size, sections=sections)
    data = toy.Data(*jax.device_put((np.arange(101, dtype=np.int32), np.zeros((101, 1)), np.zeros(101))))
    params = toy.Params(*jax.device_put((np.zeros((101, 1)), np.zeros(1))))
    plain = recipe(rate={"*": 1.0}, decay={"*": 0.0}, reduction="sum")
    trainer = Trainer(program, params, data, plain, jax.random.key(2), mesh.make(num_devices))
    firsts = []
    for epoch in range(2):
        trainer.progress = trainer.progress._replace(epoch=epoch)
        for i in range(trainer.steps):
            trainer.epoch_run()(i, i + 1)
            seen = -np.asarray(state.current(trainer.state).T)[:, 0]
            if i == 0:
                firsts.append(np.flatnonzero(seen > epoch))
        np.testing.assert_array_equal(seen, epoch + 1)
    for first in firsts:
        assert len(first) == 16
        assert len(np.unique(first // groups_of)) == 16 // groups_of
        assert list(first) != list(range(16))
    assert list(firsts[0]) != list(firsts[1])


@pytest.mark.parametrize(("optimizer", "group_size"), [("sgd", 1), ("adam", 1), ("sgd", 8)])
def test_many_devices_equal_one(optimizer, group_size):
    program = toy.program(True, 0.1, group_size=group_size)
    one = train(program=program, optimizer=optimizer)
    eight = train(program=program, optimizer=optimizer, num_devices=8)
    for a, b in zip(one.params, eight.params, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert one.score == pytest.approx(eight.score, rel=1e-5)


@pytest.mark.parametrize("result", ["best", "last"])
def test_the_result_is_the_best_epoch_or_the_last_however_validation_goes(result, tmp_path):
    def worse(params, batch, config):  # with each epoch
        return jnp.full(batch.y.shape, jnp.sum(params.T**2))

    def better(params, batch, config):
        return -worse(params, batch, config)

    options = {"decay": {}, "epochs": 5, **({"patience": 2} if result == "best" else {})}
    longest = train(program=toy.program(True, score=better), **options)  # its last epoch is its best
    first = train(program=toy.program(True, score=better), **{**options, "epochs": 1})
    program = toy.program(True, score=worse, result=result)
    done = train(program=program, **options)
    expected, epochs = (longest, 5) if result == "last" else (first, 3)
    np.testing.assert_array_equal(done.params.T, expected.params.T)
    assert done.epochs == len(done.history) == epochs
    assert done.score == done.history[-1 if result == "last" else 0]["valid"]
    for number in (1, 2, 5) if result == "last" else (1, 2, 3):  # resumed after one epoch, and after two
        again = train(program=program, directory=tmp_path, resume=True, **{**options, "epochs": number})
    np.testing.assert_array_equal(again.params.T, expected.params.T)
    assert again.score == done.score


def test_rates_drop_when_validation_stops_improving_and_training_ends():
    data = toy.data(jax.random.key(1))
    other = toy.data(jax.random.key(5))  # of other true parameters, so that its score soon gets worse
    done = fit.fit(
        toy.program(True), toy.init(jax.random.key(0)), data, other, key=jax.random.key(2),
        recipe=recipe(rate={"*": 0.02}, epochs=100, drops=(0.1, 0.01)),
    )  # fmt: skip
    used = [line["rate"] for line in done.history]
    scores = [line["valid"] for line in done.history]
    best, expected = float("inf"), [0.02, 0.002, 0.0002]
    for rate, score in zip(used, scores, strict=True):
        assert rate == pytest.approx(expected[0])
        if score >= best:
            expected.pop(0)
        best = min(best, score)
    assert expected == []  # training ended with the first epoch of the last rate that was no better
    assert done.score == best < scores[-1]
    assert fit.scores(toy.program(True), done.params, other).mean() == pytest.approx(best), "of the best epoch"


def test_annealed_rates_fall_to_zero_as_half_a_cosine_over_all_steps():
    """The gradient is 1 in every step, so that a step is as long as the rate."""

    def loss(params, batch, weight, keys, config):
        total = jnp.sum(weight) * jnp.sum(params.a)
        return total, {toy.METRIC.name: Mean(total, jnp.sum(weight))}

    plain, params = recipe(rate={"*": 0.5}, decay={"*": 0.0}, anneal=True), toy.init(jax.random.key(0))
    trainer = Trainer(
        toy.program(False, loss=loss), params, toy.data(jax.random.key(1)), plain, jax.random.key(2), mesh.make(1)
    )
    at, moved, shown = np.asarray(params.a), [], []
    for epoch in range(plain.epochs):
        trainer.progress = trainer.progress._replace(epoch=epoch)
        run = trainer.epoch_run()
        for i in range(trainer.steps):
            run(i, i + 1)
            before, at = at, np.asarray(state.current(trainer.state).a)
            moved.append(before - at)
            shown.append(trainer.last_rate())
    number = plain.epochs * trainer.steps
    expected = 0.25 * (1 + np.cos(np.pi * np.arange(number) / number))
    np.testing.assert_allclose(moved, np.repeat(expected[:, None], len(at), axis=1), atol=1e-6)
    np.testing.assert_allclose(shown, expected, rtol=1e-12)


def test_a_loss_that_is_not_finite_stops_training(tmp_path):
    with pytest.raises(UserError, match=r"not finite at step \d+; there is no checkpoint"):
        train(rate={"*": 1e30}, decay={}, directory=tmp_path)
    train(directory=tmp_path, epochs=2, max_minutes=0)
    with pytest.raises(UserError, match="no parameter is called 'Q'"):
        train(rate={"Q": 1.0})


def test_a_sum_of_losses_that_overflows_stops_training():
    def loss(params, batch, weight, keys, config):
        total, _ = toy.loss(params, batch, weight, keys, config)
        return total, {toy.METRIC.name: Mean(jnp.float32(1e38), jnp.float32(1))}

    with pytest.raises(Diverged, match="the mean of the training loss is not finite after step 6"):
        train(program=toy.program(False, loss=loss))


def test_training_data_may_be_numpy_arrays():
    data = toy.data(jax.random.key(1))
    options = {"recipe": recipe(epochs=1), "key": jax.random.key(2)}
    one, other = (
        fit.fit(toy.program(True), toy.init(jax.random.key(0)), given, data, **options).params
        for given in (data, jax.device_get(data))
    )
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_strong_decay_over_many_steps_equals_the_dense_update():
    # without rescaling, (1 - 0.02)^9000 underflows
    data = toy.data(jax.random.key(1), n=9000)
    options = {
        "recipe": recipe(batch_size=1, epochs=1, rate={"*": 0.02}, decay={"*": 0.99}),
        "key": jax.random.key(2),
    }
    sparse, dense = (
        fit.fit(toy.program(by_rows), toy.init(jax.random.key(0)), data, data, **options).params
        for by_rows in (True, False)
    )
    np.testing.assert_allclose(sparse.T, dense.T, rtol=1e-3, atol=1e-5)
    with pytest.raises(UserError, match="rate times the decay is too large"):
        train(rate={"*": 0.1}, decay={"*": 0.5})


def test_penalties_that_contradict_the_program_are_refused():
    own = Sparse(toy.touched, lambda *_: None)
    with pytest.raises(ValueError, match="leaves out its penalty"):
        toy.program(True, sparse=own, decay=Decay("when-touched", lambda *_: None))
    with pytest.raises(ValueError, match="a penalty belongs to the decay"):
        toy.program(True, decay=Decay("when-touched"))


def test_separately_made_equal_programs_share_one_compilation():
    train(noise=0.1)
    made = loop.make_run.cache_info()
    assert toy.program(True, 0.1) == toy.program(True, 0.1)
    train(noise=0.1, rate={"*": 0.01})
    assert loop.make_run.cache_info().misses == made.misses
    runs = [loop.make_run(toy.program(True, 0.1), transform("sgd"), 16, 0, True) for _ in range(2)]
    assert runs[0] is runs[1]
