"""Optional parts of a program: any pytree of parameters, metrics, noise of a step, sequences, redrawn data."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toy
from jaxfit import fit
from jaxfit.devices import sharding
from jaxfit.errors import UserError
from jaxfit.program import Carried, Mean, Metric, Program, Ragged, Sequential, Sparse, Visits
from jaxfit.recipe import Recipe, per_parameter
from jaxfit.run_dir import checkpoint
from jaxfit.state import Sum
from jaxfit.tables import rows_of
from jaxfit.validation import Validation

LOSS = Metric("loss", float)
RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.1})


def run(program, params, data, valid=None, devices=1, **changes):
    options = {k: changes.pop(k) for k in list(changes) if k not in vars(RECIPE)}
    return fit.fit(
        program, params, data, data if valid is None else valid, recipe=dataclasses.replace(RECIPE, **changes),
        key=jax.random.key(2), mesh=sharding.make(devices), **options,
    )  # fmt: skip


def same(a, b, **tolerance):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **(tolerance or {"rtol": 0}))  # otherwise exactly


# Parameters


def nested(params):
    return {"table": {"T": params.T}, "dense": [params.a]}


def nested_program(by_rows):
    def flat(tree):
        return toy.Params(tree["table"]["T"], tree["dense"][0])

    def loss(params, batch, weight, keys, config):
        given = type(params)(flat(rows_of(params))) if by_rows else flat(params)
        return toy.loss(given, batch, weight, keys, config)

    return toy.program(
        by_rows, 0.1, loss=loss,
        score=lambda params, batch, config: toy.score(flat(params), batch, config),
        sparse=Sparse(lambda batch, config: {"table": {"T": batch.row}, "dense": [None]}) if by_rows else None,
    )  # fmt: skip


@pytest.mark.parametrize("by_rows", [True, False])
def test_params_may_be_a_nested_dict(by_rows, tmp_path):
    data, params = toy.data(jax.random.key(1)), toy.init(jax.random.key(0))
    plain = run(toy.program(by_rows, 0.1), params, data, rate={"T": 0.02, "a": 0.01}, decay={"T": 0.3})
    rate, decay = {"*": 0.02, "dense": 0.01}, {"table": 0.3}
    tree = run(nested_program(by_rows), nested(params), data, rate=rate, decay=decay, directory=tmp_path / "model")
    same(tree.params, nested(plain.params))


def test_rates_are_by_path_and_the_longest_prefix_wins():
    names = ("enc/a/kernel", "enc/a/bias", "enc/ab", "dec")
    values = {"*": 1.0, "enc": 2.0, "enc/a": 3.0, "enc/a/bias": 4.0}
    assert per_parameter(names, values, "--rate") == [3.0, 4.0, 2.0, 1.0]
    assert per_parameter(names, {"enc/a": 3.0}, "--rate") == [3.0, 3.0, 0.0, 0.0]
    with pytest.raises(UserError, match="no parameter is called 'enc/a/b'"):
        per_parameter(names, {"enc/a/b": 1.0}, "--rate")


def test_params_may_be_those_of_a_flax_module():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(1)(nn.tanh(nn.Dense(4)(x)))[..., 0]

    net, data = Net(), toy.data(jax.random.key(1))

    def errors(params, batch):
        return (net.apply(params, batch.x) - batch.y) ** 2

    def loss(params, batch, weight, keys, config):
        total = weight @ errors(params, batch)
        return total, {"loss": Mean(total, jnp.sum(weight))}

    program = Program(config=None, loss=loss, score=lambda params, batch, _: errors(params, batch))
    params = net.init(jax.random.key(0), data.x)
    fitted = run(program, params, data, rate={"*": 0.02, "params/Dense_1": 0.0}, decay={})
    assert fitted.history[-1]["train"] < fitted.history[0]["train"]
    same(fitted.params["params"]["Dense_1"], params["params"]["Dense_1"])
    assert np.any(fitted.params["params"]["Dense_0"]["kernel"] != params["params"]["Dense_0"]["kernel"])


# Metrics


def test_sums_of_many_ratings_are_exact():
    """99 million, in steps of a thousand: plain float32 stops counting at 16.8 million."""

    @jax.jit
    def count():
        zero = jnp.zeros((), jnp.float32)
        return jax.lax.fori_loop(0, 99_000, lambda _, s: s.add(jnp.float32(1001.25)), Sum(zero, zero))

    assert float(count()) == 99_000 * 1001.25


def test_each_metric_is_shown_by_its_own_name(capfd):
    def loss(params, batch, weight, keys, config):
        total, metrics = toy.loss(params, batch, weight, keys, config)
        shown = {"absolute error": Mean(3 * jnp.sum(weight), jnp.sum(weight))}
        return total, {**metrics, **shown}

    both = (toy.METRIC, Metric("absolute error", lambda x: 10 * x))
    data = toy.data(jax.random.key(1))
    program = toy.program(True, loss=loss, training_metrics=both)
    fitted = run(program, toy.init(jax.random.key(0)), data, show=True, epochs=1)
    assert fitted.history[0]["train absolute error"] == pytest.approx(3, rel=1e-6)
    assert "absolute error 30.0000 on training, mean squared error" in " ".join(capfd.readouterr().err.split())
    with pytest.raises(ValueError, match=r"the loss returns metrics \['mean squared error'\]"):
        run(toy.program(True, training_metrics=both), toy.init(jax.random.key(0)), data)


# What depends on the step


class Noisy(NamedTuple):
    batch: toy.Data
    sampled: jax.Array  # rows that the whole minibatch shares


def shared_noise():
    """Return a program that pushes rows drawn for each minibatch, the same on all devices, towards zero."""

    def at_step(batch, key, fraction, config):
        return Noisy(batch, jax.random.randint(key, (4,), 0, toy.NUM_ROWS))

    def touched(batch, config):
        return toy.Params(jnp.concatenate([batch.batch.row, batch.sampled]), None)

    def loss(params, batch, weight, keys, config):
        given, examples = rows_of(params), batch.batch.row.shape[0]
        plain = type(params)(given._replace(T=given.T[:examples]))
        total, metrics = toy.loss(plain, batch.batch, weight, keys, config)
        return total + 0.1 * jnp.sum(weight) * jnp.sum(given.T[examples:] ** 2), metrics

    return toy.program(True, loss=loss, at_step=at_step, sparse=Sparse(touched))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_noise_shared_by_a_minibatch_is_the_same_on_all_devices(optimizer):
    data, params = toy.data(jax.random.key(1)), toy.init(jax.random.key(0))
    one, eight = (run(shared_noise(), params, data, devices=n, optimizer=optimizer) for n in (1, 8))
    same(one.params, eight.params, rtol=1e-4, atol=1e-5)
    moved = np.flatnonzero(np.any(one.params.T != params.T, axis=1))
    assert moved.max() >= toy.NUM_ROWS // 4  # rows that no example has


def test_redraw_draws_data_for_each_epoch_by_key():
    def redraw(data, key, config):
        return data._replace(y=data.y + jax.random.normal(key, ()))

    data, params = toy.data(jax.random.key(1)), toy.init(jax.random.key(0))
    program = toy.program(True, redraw=redraw)
    once, again = (run(program, params, data, rate={"*": 0.0}, decay={}, anneal=True) for _ in range(2))
    losses = [line["train"] for line in once.history]
    assert len(set(losses)) == RECIPE.epochs
    assert losses == [line["train"] for line in again.history]
    assert len({line["valid"] for line in once.history}) == 1


# Sequences


class Windows(NamedTuple):
    x: jax.Array  # [windows, events]


def recurrent(noise=0.0):
    """Return a program that predicts x[t] from a running state h <- tanh(a h + b x[t])."""

    def score(params, given, config):
        (x,), carry = given

        def step(h, now):
            return jnp.tanh(params["a"] * h + params["b"] * now), (h - now) ** 2

        carry, errors = jax.lax.scan(step, carry, x.T)
        return errors.sum(axis=0), carry

    def loss(params, given, weight, keys, config):
        assert isinstance(given, Carried)
        errors, carry = score(params, given, config)
        jitter = noise * jax.vmap(jax.random.normal)(keys)
        total = weight @ errors
        metrics = {"loss": Mean(total, jnp.sum(weight) * given.batch.x.shape[1])}
        return total + params["a"] * (weight @ jitter), metrics, carry

    return Program(
        config=None,
        loss=loss,
        score=score,
        events=lambda data: data.x.size,
        sequential=Sequential(lambda config: jnp.float32(0.5)),
    )


PARAMS = {"a": jnp.float32(0.3), "b": jnp.float32(0.2)}


def windows(number=101):
    return Windows(jax.random.normal(jax.random.key(3), (number, 3)))


def test_streams_are_read_in_order_and_carry_their_state():
    """At a rate of 0 the training loss is that of each stream read from its start to its end."""
    data = windows()
    fitted = run(recurrent(), PARAMS, data, rate={"*": 0.0}, decay={}, epochs=2)
    length, total = -(-101 // 16), 0.0
    for stream in range(16):
        h = 0.5
        for now in np.asarray(data.x[stream * length : (stream + 1) * length]).ravel():
            total += (h - now) ** 2
            h = np.tanh(0.3 * h + 0.2 * now)
    for line in fitted.history:  # each epoch begins afresh
        assert line["train"] == pytest.approx(total / data.x.size, rel=1e-5)


def test_scores_of_a_sequence_are_those_of_a_single_stream():
    data, h, expected = windows(20), 0.5, []
    for window in np.asarray(data.x):
        expected.append(0.0)
        for now in window:
            expected[-1] += (h - now) ** 2
            h = np.tanh(0.3 * h + 0.2 * now)
    np.testing.assert_allclose(fit.scores(recurrent(), PARAMS, data), expected, rtol=1e-5)


@pytest.mark.parametrize("devices", [1, 3, 8])  # 3: two places of a minibatch have no stream
@pytest.mark.parametrize("number", [101, 20])  # streams of 7 windows, and of 2, which are shorter than what they burn
def test_streams_of_validation_read_windows_before_their_own(number, devices):
    data, program, streams, burn_in = windows(number), recurrent(), 16, 3
    program = dataclasses.replace(program, sequential=Sequential(program.sequential.start, streams, burn_in))
    length, total, a = -(-number // streams), 0.0, 0.9  # a remembers more than is burnt in: the cut decides the score
    for own in range(0, number, length):
        h = 0.5
        for place in range(max(0, own - burn_in), min(own + length, number)):
            for now in np.asarray(data.x[place]):
                total += (place >= own) * (h - now) ** 2
                h = np.tanh(a * h + 0.2 * now)
    for stream in (False, True):
        found = Validation(program, data, sharding.make(devices), stream=stream).mean({**PARAMS, "a": jnp.float32(a)})
        assert found == pytest.approx(total / data.x.size, rel=1e-5)


def test_streams_on_many_devices_equal_those_on_one():
    one, eight = (run(recurrent(0.1), PARAMS, windows(), devices=n) for n in (1, 8))
    same(one.params, eight.params, rtol=1e-4, atol=1e-6)
    assert one.score == pytest.approx(eight.score, rel=1e-5)


@pytest.mark.parametrize("devices", [1, 8])
def test_resume_within_an_epoch_restores_the_carry(devices, tmp_path, monkeypatch):
    whole = run(recurrent(0.1), PARAMS, windows(), devices=devices, directory=tmp_path / "whole")
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 1e-9)  # one step a chunk
    saves, save = [], checkpoint.save

    def save_then_die(directory, arrays, state):
        save(directory, arrays, state)
        saves.append(state["progress"]["at"])
        if len(saves) % 4 == 3:
            raise ZeroDivisionError("killed")

    monkeypatch.setattr(checkpoint, "save", save_then_die)
    for _ in range(30):
        try:
            got = run(
                recurrent_again, PARAMS, windows(), devices=devices, directory=tmp_path / "part", resume=True,
                checkpoint_minutes=0,
            )  # fmt: skip
            break
        except ZeroDivisionError:
            continue
    assert sum(at > 0 for at in saves) > 5
    same(whole.params, got.params)
    assert (tmp_path / "part/journal.jsonl").read_text() == (tmp_path / "whole/journal.jsonl").read_text()


recurrent_again = recurrent(0.1)


# Validation


@pytest.mark.parametrize("program", [toy.program(True, 0.1), recurrent()], ids=["examples", "sequence"])
def test_validation_on_many_devices_equals_that_on_one(program):
    data = windows() if program.sequential else toy.data(jax.random.key(1))
    params = PARAMS if program.sequential else toy.init(jax.random.key(0))
    one, eight = (run(program, params, data, devices=n, rate={"*": 0.0}, decay={}, epochs=1) for n in (1, 8))
    assert one.score == pytest.approx(eight.score, rel=1e-6)
    if not program.sequential:
        exact = np.mean(fit.scores(program, params, data), dtype=np.float64)
        assert one.score == pytest.approx(exact, rel=1e-12)


def test_costs_are_computed_once_for_a_data_set():
    counted = []

    def costs(data):
        counted.append(data)
        return np.ones(data.y.shape[0], np.int64)

    run(toy.program(True, ragged=Ragged(costs)), toy.init(jax.random.key(0)), toy.data(jax.random.key(1)))
    assert len(counted) == 2  # training and validation


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"group_size": 2, "ragged": Ragged(len)}, "of equal cost"),
        ({"sequential": Sequential(len), "visits": Visits(len)}, "visited in order"),
        ({"sequential": Sequential(len), "sparse": Sparse(len, len)}, "does not return a carry"),
        ({"visits": Visits(len), "sparse": Sparse(len, len)}, "visits take the place"),
        ({"visits": Visits(len), "at_step": len}, "visits take the place"),
        ({"scheduled": True}, "only what depends on the step"),
        ({"training_metrics": (LOSS, LOSS)}, "the same name"),
        ({"group_size": 0}, "one example at least"),
        ({"sections": 0}, "one section at least"),
        ({"sections": 2, "ragged": Ragged(len)}, "of equal cost"),
    ],
)
def test_programs_with_contradicting_parts_are_refused(parts, fault):
    with pytest.raises(ValueError, match=fault):
        toy.program(True, **parts)


def test_another_metric_is_that_of_training_too():
    program = toy.program(True)
    assert program.loss_metrics == (program.metric,)
    assert dataclasses.replace(program, metric=LOSS).loss_metrics == (LOSS,)
