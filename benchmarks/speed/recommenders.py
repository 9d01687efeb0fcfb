"""How fast models that no peer has train, conditional PMF and the RBM: to given errors, and over the ratings once."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.core.models import size_field
from benchmarks.core.timing import copy_bandwidth
from benchmarks.speed import time_to_error
from benchmarks.speed.time_to_error import Contender, Problem
from jaxcf import models


class Case(NamedTuple):
    """What is measured of a model: validation errors to reach, its sizes, the settings and epochs that are tried."""

    errors: tuple[float, ...]
    sizes: tuple[int, ...]
    grid: Mapping[str, Sequence[Any]]
    epochs: tuple[int, ...]


CASES = {
    "cpmf": Case(
        (0.860, 0.850), (10, 50),
        {  # around the tuned recipe, for fewer passes
            "rate": [{"*": rate, "W": 5.0, "b": 0.03, "c": 0.03} for rate in (0.05, 0.08)], "init_scale": (0.04,),
        },
        (2, 3, 4, 5, 8),
    ),
    "rbm": Case(
        (0.90, 0.88, 0.87), (100,),
        {  # higher rates than the tuned recipe, for fewer passes
            "rate": [{"*": 3e-3, "W": rate} for rate in (1.6e-2, 2.4e-2)], "batch_size": (50,),
        },
        (1, 2, 3, 4, 6),
    ),
}  # fmt: skip


def measure(model: str, problem: Problem | None = None, case: Case | None = None) -> dict[str, Any]:
    """Measure seconds to validation errors, of the best of a grid, and ratings per second of a pass."""
    case = case or CASES[model]
    problem = problem or time_to_error.problem(case.errors)
    passes = "epochs", case.epochs
    figures: dict[str, Any] = {
        "ratings": problem.about,
        "cores": os.cpu_count(),
        "copied_bytes_per_second": copy_bandwidth(),
        "grid": time_to_error.in_words(case.grid, passes),
    }
    first = {name: values[0] for name, values in case.grid.items()}
    field = str(size_field(models.get(model).config))
    for number in case.sizes:
        train = time_to_error.ours(model, problem.data, **{field: number})
        found = time_to_error.times({model: Contender(train, case.grid, passes)}, problem, rounds=0)[model]
        rate = time_to_error.pass_rate(model, problem.data, **{field: number}, **first)
        figures[f"{field} {number}"] = found | {"ratings_per_second": rate}
    return figures
