"""How fast the RBM over ratings trains by CD-1: to given validation errors, and over the ratings once."""

from typing import Any

from benchmarks.speed import ratings as rating_speed
from benchmarks.speed.ratings import Ground

ERRORS = (0.90, 0.88, 0.87)
HIDDEN = (100,)
GRID: dict[str, Any] = {  # higher rates than the tuned recipe, for fewer passes
    "rate": [{"*": 3e-3, "W": rate} for rate in (1.6e-2, 2.4e-2)],
    "batch_size": (50,),
}
PASSES = ("epochs", (1, 2, 3, 4, 6))


def measure(
    peers: bool = False,
    ground: Ground | None = None,
    hidden: tuple[int, ...] = HIDDEN,
    grid: Any = None,
    passes: tuple[str, Any] = PASSES,
) -> dict[str, Any]:
    """Seconds to validation errors with 100 hidden units, and ratings per second of a pass of CD-1.

    (`peers`: none; the programs beside PMF have no such model for ratings.)
    """
    ground = rating_speed.ground(ERRORS) if ground is None else ground
    sizes = [("num_hidden", number) for number in hidden]
    return rating_speed.alone("rbm", ground, sizes, GRID if grid is None else grid, passes)
