"""How fast the RBM over ratings trains by CD-1: to given validation errors, and over the ratings once."""

from typing import Any

from benchmarks.speed import time_to_error
from benchmarks.speed.time_to_error import Problem

ERRORS = (0.90, 0.88, 0.87)
HIDDEN = (100,)
GRID: dict[str, Any] = {  # higher rates than the tuned recipe, for fewer passes
    "rate": [{"*": 3e-3, "W": rate} for rate in (1.6e-2, 2.4e-2)],
    "batch_size": (50,),
}
PASSES = ("epochs", (1, 2, 3, 4, 6))


def measure(
    peers: bool = False,
    problem: Problem | None = None,
    hidden: tuple[int, ...] = HIDDEN,
    grid: Any = None,
    passes: tuple[str, Any] = PASSES,
) -> dict[str, Any]:
    """Measure seconds to validation errors with 100 hidden units, and ratings per second of a pass of CD-1.

    (`peers`: none; the programs that PMF is compared with have no such model for ratings.)
    """
    problem = time_to_error.problem(ERRORS) if problem is None else problem
    sizes = [("num_hidden", number) for number in hidden]
    return time_to_error.alone("rbm", problem, sizes, GRID if grid is None else grid, passes)
