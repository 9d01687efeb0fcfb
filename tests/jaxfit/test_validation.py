"""Validation in chunks, between which a training can be stopped."""

import dataclasses
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import toy
from jaxfit import fit, validation
from jaxfit.devices import sharding
from jaxfit.errors import Interrupted
from jaxfit.minibatches import streaming
from jaxfit.program import Mean, Program, Sequential
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint

RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.1})
NOISY = toy.program(True, 0.1)


def sequential() -> Program:
    """Return the toy, whose streams add the errors before to each one's."""

    def score(params, given, config):
        errors = toy.score(params, given.batch, config)
        return errors + 0.1 * given.carry, given.carry + errors

    def loss(params, given, weight, keys, config):
        errors, carry = score(params, given, config)
        total = weight @ errors
        return total, {"mean squared error": Mean(total, jnp.sum(weight))}, carry

    streams = Sequential(lambda config: np.float32(1), 16)
    return dataclasses.replace(toy.program(False), loss=loss, score=score, sequential=streams)


SEQUENTIAL = sequential()


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(validation, "SCORED", 16)
    monkeypatch.setattr(validation, "VALIDATION_CHUNK_SECONDS", 1e-9)  # a minibatch


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("program", [NOISY, SEQUENTIAL], ids=["examples", "streams"])
def test_chunks_give_the_bits_of_a_whole(program, devices, monkeypatch):
    data, params, asked = toy.data(jax.random.key(1)), toy.init(jax.random.key(0)), []
    scored = validation.Validation(program, data, sharding.make(devices))
    found = scored.mean(params, lambda: asked.append(1))
    assert len(asked) == len(scored.minibatches) - 1 >= 6
    monkeypatch.setattr(scored, "chunk", 1000)
    asked.clear()
    assert scored.mean(params, lambda: asked.append(1)) == found
    assert not asked

    # from the host, in blocks of two steps
    monkeypatch.setattr(streaming, "BLOCKS", 1)
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 16 * 20 * 2 // devices)
    from_host = validation.Validation(program, data, sharding.make(devices), stream=True)
    assert len(from_host.stretches) >= 3
    assert from_host.mean(params) == pytest.approx(found, rel=1e-6)
    assert from_host.mean(params) == from_host.mean(params)


@pytest.mark.parametrize(
    ("program", "devices", "epoch"),
    [(NOISY, 1, 0), (NOISY, 8, 2), (SEQUENTIAL, 8, 0)],
    ids=["one device", "eight devices, last epoch", "streams"],
)
def test_a_training_that_is_stopped_in_validation_goes_on_there(program, devices, epoch, tmp_path, monkeypatch):
    data, params = toy.data(jax.random.key(1)), toy.init(jax.random.key(0))

    def run(name, **more):
        options = {"recipe": RECIPE, "key": jax.random.key(2), "mesh": sharding.make(devices), **more}
        return fit.fit(program, params, data, data, directory=tmp_path / name, **options)

    whole, mean, count = run("whole"), validation.Validation.mean, []

    def stopped_in(self, params, stopped):
        count.append(1)
        if len(count) == epoch + 1:
            signal.raise_signal(signal.SIGTERM)
        return mean(self, params, stopped)

    with monkeypatch.context() as patch:
        patch.setattr(validation.Validation, "mean", stopped_in)
        with pytest.raises(Interrupted):
            run("part")
    state = checkpoint.state(checkpoint.latest(tmp_path / "part"))
    assert (state["progress"]["epoch"], state["progress"]["at"]) == (epoch, 7)
    got = run("part", resume=True)
    for a, b in zip(whole.params, got.params, strict=True):
        np.testing.assert_array_equal(a, b)
    journals = [(tmp_path / name / "journal.jsonl").read_text() for name in ("part", "whole")]
    assert journals[0] == journals[1]
