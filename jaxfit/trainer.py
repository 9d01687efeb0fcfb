"""One training: what is fixed (program, data, compiled loops), and what moves (state, stand, best)."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxfit import loop as step
from jaxfit import sharding as devices
from jaxfit.bucketing import Plan, buckets, plan, rung
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe, per_parameter, transform
from jaxfit.shuffle import permutation


class Stand(NamedTuple):
    """Where training stands between chunks (all that is not an array)."""

    epoch: int = 0  # the epoch under way
    at: int = 0  # steps of it that are done
    phase: int = 0  # how many rate drops have been entered
    waited: int = 0  # epochs without improvement in this phase
    best: float = float("inf")
    best_epoch: int = -1
    journal: int = 0  # bytes
    done: bool = False


def check(program: step.Program, recipe: Recipe, mesh: Mesh | None) -> None:
    """Raise UserError where a recipe or devices do not fit a model, ValueError where a program contradicts itself."""
    lanes = devices.lanes(mesh)
    if recipe.batch_size % lanes:
        advice = f"make it a multiple of {lanes}"
        raise UserError(
            f"{recipe.batch_size} examples do not divide among the devices", "--batch-size", advice
        )
    if program.visit and recipe.optimizer != "sgd":
        raise UserError(f"{recipe.optimizer} cannot train this model", "--optimizer", "use sgd")
    if program.visit and lanes > 1:
        what = "this model visits its examples one after another: each device would do the work of all"
        raise UserError(what, "--devices", "leave it out")
    if program.gradient and program.decay == "when-touched":
        raise ValueError(
            "a program's own gradient leaves out its penalty: give no gradient, or another decay"
        )
    if program.together > 1 and program.costs:
        raise ValueError("groups of examples must cost alike")


class Trainer:
    """A training at some step of some epoch; `jaxfit.fit.fit` moves it on."""

    def __init__(
        self, program: step.Program, params: Any, data: Any, recipe: Recipe, key: jax.Array, mesh: Mesh | None
    ):
        check(program, recipe, mesh)
        self.program, self.recipe, self.mesh = program, recipe, mesh
        self.order_key, self.step_key = jax.random.split(key)
        self.data = devices.replicate(data, mesh)
        self.size = program.size(data)
        self.events = program.events(data) if program.events else self.size
        self.factor = 2.0 if program.halved else 1.0  # from losses to scores
        self.steps = -(-self.size // recipe.batch_size)
        self.together = together(program, self.size, recipe.batch_size)
        self.transform = transform(recipe.optimizer)
        self.names = type(params)._fields
        self.rate = per_parameter(self.names, recipe.rate, "--rate")
        self.decay = per_parameter(self.names, recipe.decay, "--decay")
        most = max(r * d for r, d in zip(self.rate, self.decay, strict=True))
        share = (1 if recipe.reduction == "mean" else min(recipe.batch_size, self.size)) / self.size
        if program.decay == "every-step" and most > step.LARGEST_DECAY:
            advice = f"keep it under {step.LARGEST_DECAY} a step"
            raise UserError("the rate times the decay is too large", "--rate, --decay", advice)
        if program.decay == "per-row" and most * share > 0.5:
            advice = f"keep it under {0.5 / share:g}, or give a smaller --batch-size"
            raise UserError("the rate times the decay is too large", "--rate, --decay", advice)
        # visits need no room
        self.costs = program.costs(data) if program.costs and not program.visit else None
        self.bucketed = (
            None if self.costs is None else buckets(self.costs, recipe.batch_size, devices.lanes(mesh))
        )
        self.params_type = type(params)
        self.state = devices.replicate(step.start(params, program, self.transform, data), mesh)
        self.best = params
        self.stand = Stand()
        self.compile_seconds = 0.0

    def rates(self) -> step.Rates:
        """This phase's traced rates."""
        factor = (1.0, *self.recipe.drops)[self.stand.phase]
        like = self.params_type._make
        return step.Rates(
            rate=like([jnp.float32(factor * r) for r in self.rate]),
            decay=like([jnp.float32(d) for d in self.decay]),
            anneal=jnp.bool_(self.recipe.anneal),
            total=jnp.float32(self.steps * self.recipe.epochs),
        )

    def epoch_run(self) -> Callable[[int, int], None]:
        """The compiled loop of the epoch under way, as a function of its first and last step."""
        laid, batch_size = self.laid_out(), self.recipe.batch_size
        # in room for a few more: a program serves data sets of nearly the same size
        visits = np.zeros(rung(self.steps) * (batch_size // self.together), np.int32)
        visits[: len(laid.visits)] = laid.visits
        fixed = devices.replicate((visits, self.rates(), self.step_key, np.int32(self.size)), self.mesh)
        mean = self.recipe.reduction == "mean"
        runs = {
            room: step.make_run(
                self.program, self.transform, batch_size, room, mean, self.mesh, self.together
            )
            for _, _, room in laid.stretches
        }

        def run(begin: int, end: int) -> None:
            for first, last, room in laid.stretches:
                bounds = np.int32(max(begin, first)), np.int32(min(end, last))
                # an empty run of all steps compiles every program
                if bounds[0] < bounds[1] or begin == end:
                    self.state = runs[room](self.state, self.data, *fixed, *bounds)
            jax.block_until_ready(self.state.step)

        before = time.perf_counter()
        run(0, 0)  # compiles, or finds it compiled
        self.compile_seconds += time.perf_counter() - before
        return run

    def laid_out(self) -> Plan:
        """The epoch under way: its visits are of groups of `together` examples (of examples, where that is 1)."""
        key = jax.random.fold_in(self.order_key, self.stand.epoch)
        whole, rest = divmod(self.size, self.together)
        order = np.asarray(permutation(key, whole))
        if rest:
            order = np.append(order, np.int32(whole))
        batch, lanes = self.recipe.batch_size // self.together, devices.lanes(self.mesh)
        return plan(self.bucketed, order, batch, lanes, jax.random.fold_in(key, 1))

    def arrays(self) -> dict[str, Any]:
        """All arrays that a checkpoint holds: scratch tables are zeros between steps."""
        state = _map_scratch(lambda scratch: None, self.state)
        return {"state": devices.one_copy(state), "best": self.best}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the arrays of a checkpoint."""
        scratch = iter([w.scratch for w in self.state.weights])
        state = _map_scratch(lambda _: next(scratch), arrays["state"])
        self.state, self.best = devices.replicate(state, self.mesh), arrays["best"]


def together(program: step.Program, size: int, batch_size: int) -> int:
    """How many examples are visited together: a minibatch holds whole groups, two at least."""
    most = min(program.together, size, batch_size // 2)
    return max(number for number in range(1, max(1, most) + 1) if batch_size % number == 0)


def _map_scratch(function: Callable[[Any], Any], state: step.State) -> step.State:
    weights = [w._replace(scratch=function(w.scratch)) for w in state.weights]
    return state._replace(weights=type(state.weights)._make(weights))
