"""Recipes that do not fit a model or its data are refused."""

from dataclasses import replace

import jax
import pytest

import toy
import toy_training
from jaxfit.checks import check_minibatch, check_size
from jaxfit.devices import sharding
from jaxfit.errors import UserError
from jaxfit.program import Decay
from jaxfit.recipe import Recipe
from jaxfit.validation import Validation

RECIPE = Recipe(optimizer="sgd", batch_size=1, epochs=1, rate={"*": 1e-2}, decay={"*": 0.0})


@pytest.mark.parametrize(("batch_size", "said"), [(1000, "1,000 examples"), (1, "1 example")])
def test_devices_that_do_not_divide_a_minibatch_are_refused_with_a_remedy_for_a_resume(batch_size, said):
    with pytest.raises(UserError, match=f"^a minibatch of {said} does not divide among 3 devices") as error:
        check_minibatch(replace(RECIPE, batch_size=batch_size), sharding.make(3))
    assert str(error.value).endswith(
        " - take devices whose number divides it, or (not with --resume) a multiple of 3 as --batch-size"
    )


def test_data_without_examples_are_refused():
    program, params = toy.program(True), toy.init(jax.random.key(0))
    with pytest.raises(UserError, match=r"there are no examples \(training data\)"):
        check_size(program, RECIPE, params, 0)
    nothing = jax.tree.map(lambda x: x[:0], toy.data(jax.random.key(0)))
    with pytest.raises(UserError, match=r"there is nothing to score \(validation data\)"):
        Validation(program, nothing, None)


@pytest.mark.parametrize("kind", ["bfloat16", "int32"])
def test_parameters_of_other_types_than_float32_and_float64_are_refused(kind):
    params = toy.init(jax.random.key(0))
    params = params._replace(a=params.a.astype(kind))
    with pytest.raises(UserError, match=rf"^a is of {kind} \(initial parameters\) - convert it to float32, or leave "):
        toy_training.train(params=params)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("size", "shrink", "fits"), [(9, 0.49, True), (9, 0.51, False), (5000, 0.1, False)])
def test_a_decay_by_which_scales_would_underflow_is_refused(size, shrink, fits, share):
    """Of each row, per step: over the 4096 steps between which scales are applied, a tenth leaves 1e-188."""
    program, params = replace(toy.program(True), decay=Decay("per-row", share=share)), toy.init(jax.random.key(0))
    recipe = replace(RECIPE, decay={"*": shrink * size / share / 1e-2})
    if fits:
        check_size(program, recipe, params, size)
        return
    with pytest.raises(UserError, match="rate times the decay is too large"):
        check_size(program, recipe, params, size)
