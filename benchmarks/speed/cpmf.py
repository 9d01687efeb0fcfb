"""How fast conditional PMF trains: to given validation errors, and over the ratings once."""

from typing import Any

from benchmarks.speed import time_to_error
from benchmarks.speed.time_to_error import Problem

ERRORS = (0.860, 0.850)
RANKS = (10, 50)
GRID: dict[str, Any] = {  # around the tuned recipe, for fewer passes
    "rate": [{"*": rate, "W": 5.0, "b": 0.03, "c": 0.03} for rate in (0.05, 0.08)],
    "init_scale": (0.04,),
}
PASSES = ("epochs", (2, 3, 4, 5, 8))


def measure(
    peers: bool = False,
    problem: Problem | None = None,
    ranks: tuple[int, ...] = RANKS,
    grid: Any = None,
    passes: tuple[str, Any] = PASSES,
) -> dict[str, Any]:
    """Measure seconds to validation errors, of the best of a grid, and ratings per second of a pass.

    (`peers`: none; the programs that PMF is compared with have no such model.)
    """
    problem = time_to_error.problem(ERRORS) if problem is None else problem
    sizes = [("num_features", rank) for rank in ranks]
    return time_to_error.alone("cpmf", problem, sizes, GRID if grid is None else grid, passes)
