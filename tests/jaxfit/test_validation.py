"""Validation in pieces, between which a training can be stopped."""

import dataclasses
import signal

import jax
import numpy as np
import pytest

import toy
from jaxfit import fit, trainer
from jaxfit.devices import sharding
from jaxfit.errors import Interrupted
from jaxfit.program import Program, Sequential
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint

RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.1})
NOISY = toy.program(True, 0.1)


def sequential() -> Program:
    """The toy, whose streams add the errors before to each one's."""

    def score(params, given, config):
        errors = toy.score(params, given.batch, config)
        return errors + 0.1 * given.carry, given.carry + errors

    return dataclasses.replace(toy.program(False), score=score, sequential=Sequential(lambda config: np.float32(1), 16))


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(trainer, "SCORED", 16)
    monkeypatch.setattr(trainer, "PIECE_SECONDS", 1e-9)  # a minibatch


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("program", [NOISY, sequential()], ids=["examples", "streams"])
def test_pieces_give_the_bits_of_a_whole(program, devices, monkeypatch):
    data, params, asked = toy.data(jax.random.key(1)), toy.init(jax.random.key(0)), []
    validation = trainer.Validation(program, data, sharding.make(devices))
    found = validation.mean(params, lambda: asked.append(1))
    assert len(asked) == len(validation.minibatches) - 1 >= 6
    monkeypatch.setattr(validation, "at_once", 1000)
    asked.clear()
    assert validation.mean(params, lambda: asked.append(1)) == found
    assert not asked


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_training_that_is_stopped_in_validation_goes_on_there(epoch, tmp_path, monkeypatch):
    data, params = toy.data(jax.random.key(1)), toy.init(jax.random.key(0))

    def run(name, **more):
        options = {"recipe": RECIPE, "key": jax.random.key(2), "directory": tmp_path / name, **more}
        return fit.fit(NOISY, params, data, data, **options)

    whole, mean, count = run("whole"), trainer.Validation.mean, []

    def stopped_in(self, params, stopped):
        count.append(1)
        if len(count) == epoch + 1:
            signal.raise_signal(signal.SIGTERM)
        return mean(self, params, stopped)

    with monkeypatch.context() as patch:
        patch.setattr(trainer.Validation, "mean", stopped_in)
        with pytest.raises(Interrupted):
            run("part")
    state = checkpoint.state(checkpoint.latest(tmp_path / "part"))
    assert (state["progress"]["epoch"], state["progress"]["at"]) == (epoch, 7)
    got = run("part", resume=True)
    for a, b in zip(whole.params, got.params, strict=True):
        np.testing.assert_array_equal(a, b)
    journals = [(tmp_path / name / "journal.jsonl").read_text() for name in ("part", "whole")]
    assert journals[0] == journals[1]
