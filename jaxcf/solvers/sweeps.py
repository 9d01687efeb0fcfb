"""The driver of fits by sweeps: alternating exact solutions, or Gibbs sampling, of any model.

Sweep k is drawn from `fold_in(key, k)`, so that the same key gives the same parameters.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcf.contract import Sweeps
from jaxfit.errors import Diverged
from jaxfit.recipe import option


@dataclass(frozen=True)
class SweepRecipe:
    """How a model is fitted that is fitted only by sweeps."""

    epochs: int = option(help="sweeps at most", unit="sweeps", first=True)
    patience: int = option(help="sweeps without improvement of validation before the end", unit="sweeps")


class SweepsOutcome(NamedTuple):
    """The result of a fit by sweeps."""

    params: Any  # after the sweep of lowest validation error, or the mean of later sweeps' (`Sweeps.mean_after`)
    score: float  # their validation error (`Sweeps.error`), infinite where none was finite
    history: list[dict[str, Any]]  # one dict a sweep, as journaled


def fit(
    fitting: Sweeps,
    key: jax.Array,
    *,
    epochs: int,
    patience: int,
    journal: Callable[[dict[str, Any]], None] = lambda line: None,
) -> SweepsOutcome:
    """Make sweeps until validation has not improved for `patience` sweeps, at most `epochs`.

    Args:
        fitting: the fit.
        key: sweep k draws from `fold_in(key, k)`.
        epochs: maximum number of sweeps.
        patience: number of sweeps without improvement after which the fit ends.
        journal: called after each sweep with its number, the objective after it, and the validation error.

    Raises:
        Diverged: the objective is not finite.
    """
    params = mean = best = fitting.params
    name, read = fitting.measure
    score, lowest, waited, history = math.inf, math.inf, 0, []
    for number in range(epochs):
        params = fitting.sweep(params, fitting.data, jax.random.fold_in(key, number))
        objective = fitting.objective(params)
        if not math.isfinite(objective):
            raise Diverged(f"sweep {number + 1} is not finite", "training", fitting.remedy)
        averaged = int(max(1, number + 1 - fitting.mean_after))
        mean = params if averaged == 1 else _next_mean(mean, params, jnp.float32(averaged))
        line: dict[str, Any] = {"epoch": number, "objective": objective, "valid": fitting.error(mean)}
        line["shown"] = {f"validation {name}": read(line["valid"])}
        journal(line)
        history.append(line)
        waited += 1
        if line["valid"] < lowest:
            lowest, waited = line["valid"], 0
        if waited == 0 or number >= fitting.mean_after:
            best, score = mean, line["valid"]
        if waited >= patience:
            break
    return SweepsOutcome(best, score, history)


@jax.jit
def _next_mean(mean: Any, params: Any, count: jax.Array) -> Any:
    return jax.tree.map(lambda old, new: old + (new - old) / count, mean, params)
