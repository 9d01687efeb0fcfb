"""Trainings of the toy model."""

import dataclasses

import jax

import toy
from jaxfit import fit
from jaxfit.devices import sharding
from jaxfit.recipe import Recipe

RECIPE = Recipe(optimizer="sgd", batch_size=16, epochs=3, rate={"*": 0.02, "a": 0.01}, decay={"*": 0.3, "a": 0.1})


def recipe(**changes):
    return dataclasses.replace(RECIPE, **changes)


def train(by_rows=True, directory=None, noise=0.0, num_devices=1, program=None, params=None, **options):
    changes = {k: options.pop(k) for k in list(options) if k in vars(RECIPE)}
    data = toy.data(jax.random.key(1))
    return fit.fit(
        program or toy.program(by_rows, noise), toy.init(jax.random.key(0)) if params is None else params, data, data,
        recipe=recipe(**changes), key=jax.random.key(2), directory=directory, mesh=sharding.make(num_devices),
        **options,
    )  # fmt: skip
