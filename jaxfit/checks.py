"""Whether a recipe, devices and data fit a model, which is checked before a training begins."""

from typing import Any

import jax.numpy as jnp
from jax.sharding import Mesh

from jaxfit.devices import sharding
from jaxfit.devices.platform import host
from jaxfit.errors import UserError
from jaxfit.loop import LARGEST_DECAY, RESCALE_STEPS
from jaxfit.program import Program
from jaxfit.recipe import INT32_MAX, Recipe, named_arrays, per_parameter
from jaxfit.wording import quantity

MAX_PADDED_BATCH = 1000  # examples up to which a minibatch may be larger than the data: as recipes have them
LARGEST_SHRINK = 0.5  # of a row, by the prior `per-row`, in one step


def check_minibatch(recipe: Recipe, mesh: Mesh | None) -> None:
    """Raise UserError where a recipe's minibatch does not divide among the devices."""
    shards = sharding.shards(mesh)
    if recipe.batch_size % shards:
        what = f"a minibatch of {quantity(recipe.batch_size, 'example')} does not divide among {shards} devices"
        advice = f"take devices whose number divides it, or (not with --resume) a multiple of {shards} as --batch-size"
        raise UserError(what, "--devices, --batch-size", advice)


def check(program: Program, recipe: Recipe, mesh: Mesh | None, stream: bool = False) -> None:
    """Raise UserError where a recipe or devices, or data in the host's memory (`stream`), do not fit a model."""
    shards = sharding.shards(mesh)
    if sharding.row_shards(mesh) > 1 and program.sparse is not None and program.sparse.preconditioned:
        what = "the steps of this model are not along the gradient of its rows: no table can be split"
        raise UserError(what, "--row-shards", "leave it out")
    check_minibatch(recipe, mesh)
    if program.visits and recipe.optimizer != "sgd":
        raise UserError(f"{recipe.optimizer} cannot train this model", "--optimizer", "use sgd")
    if program.visits and recipe.reduction != "sum":
        what = "this model visits its examples one after another: no step is of a minibatch's mean"
        raise UserError(what, "--reduction", "use sum")
    if program.visits and shards > 1:
        what = "this model visits its examples one after another: each device would do the work of all"
        raise UserError(what, "--devices", "leave it out")
    if program.visits and stream:
        what = "this model visits its examples one after another: a device needs all data"
        raise UserError(what, "--stream", "leave it out")
    if stream and host() is None:
        raise UserError("JAX has no CPU", "--stream", "add cpu to JAX_PLATFORMS, as in cuda,cpu")
    stops = recipe.patience != Recipe.patience and recipe.patience < recipe.epochs
    if program.result == "last" and (recipe.drops or stops):
        what = "all epochs are run, whatever the validation score, and the last is the result"
        option = "--drops" if recipe.drops else "--patience"
        raise UserError(what, option, "leave it out, and choose --epochs and --rate")


def check_validation(program: Program, data: Any) -> None:
    """Raise UserError where there is nothing to score."""
    if not program.num_events(data):
        raise UserError("there is nothing to score", "validation data", "give some, or leave them out")


def check_types(params: Any) -> None:
    """Raise UserError for parameters that are not float32 or float64."""
    for name, array in named_arrays(params).items():
        kind = jnp.result_type(array)
        if kind not in (jnp.float32, jnp.float64):
            advice = "convert it to float32, or leave it out of what is trained"
            raise UserError(f"{name or 'an array'} is of {kind}", "initial parameters", advice)


def check_size(program: Program, recipe: Recipe, params: Any, size: int) -> None:
    """Raise UserError where a recipe does not fit data of `size` examples, or where there are none."""
    if size == 0:
        raise UserError("there are no examples", "training data", "give some")
    if recipe.batch_size > max(size, MAX_PADDED_BATCH):
        what = f"a minibatch of {recipe.batch_size:,} examples, and there are {size:,} in all"
        raise UserError(what, "--batch-size", f"give at most {max(size, MAX_PADDED_BATCH):,}")
    steps = -(-size // recipe.batch_size)
    if steps * recipe.epochs > INT32_MAX:
        what = f"{steps * recipe.epochs:,} steps in all, which 32 bits do not count"
        raise UserError(what, "--epochs", f"give at most {INT32_MAX // steps:,}")
    names = named_arrays(params)
    rate, decay = per_parameter(names, recipe.rate, "--rate"), per_parameter(names, recipe.decay, "--decay")
    most, when, advice = max(r * d for r, d in zip(rate, decay, strict=True)), program.decay.when, ""
    share = program.decay.share * (1 if recipe.reduction == "mean" else min(recipe.batch_size, size)) / size
    if when == "every-step" and most > LARGEST_DECAY:
        advice = f"keep it under {LARGEST_DECAY} a step"
    largest = min(LARGEST_SHRINK, 1 - 1e-36 ** (1 / min(steps, RESCALE_STEPS)))  # scales do not underflow
    if when == "per-row" and most * share > largest:
        advice = f"keep it under {largest / share:.3g}, or give a smaller --batch-size"
    if advice:
        raise UserError("the rate times the decay is too large", "--rate, --decay", advice)
