"""The memory of a training is estimated before any of it is taken."""

import jax
import jax.numpy as jnp
import pytest

from jaxfit.devices import memory
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe

SHAPES = {"R": jax.ShapeDtypeStruct((1000, 250), jnp.float32)}  # 1 MB
RECIPES = {None: 3, "sgd": 3, "adagrad": 4, "adam": 5}  # MB in all


@pytest.mark.parametrize("optimizer", RECIPES)
def test_parameters_with_the_optimizers_state_must_fit(monkeypatch, optimizer):
    recipe = optimizer and Recipe(optimizer, 1, 1, {"*": 0.1}, {"*": 0.0})
    needed = RECIPES[optimizer] * 10**6
    monkeypatch.setattr(memory, "available", lambda: needed)
    memory.require(SHAPES, recipe, "--num-features")
    monkeypatch.setattr(memory, "available", lambda: needed - 1)
    with pytest.raises(UserError, match=rf"take {RECIPES[optimizer]} MB; there are .* MB \(--num-features\)"):
        memory.require(SHAPES, recipe, "--num-features")


def test_where_the_memory_is_not_known_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    memory.require({"R": jax.ShapeDtypeStruct((2**31 - 1, 2**31 - 1), jnp.float32)}, None, "")


def test_this_machine_has_memory():
    assert memory.available() > 1 << 28


def test_bytes_are_written_as_people_read_them():
    shown = [memory.show(number) for number in (0, 999, 24e9, 4.1e12, 1e20, 1e24)]
    assert shown == ["0 bytes", "999 bytes", "24 GB", "4.1 TB", "100 EB", "1e+06 EB"]
