"""How fast the RBM over ratings trains by CD-1: to given validation errors, and over the ratings once."""

from typing import Any

from benchmarks import rating_speed
from benchmarks.rating_speed import Ground

ERRORS = (0.90, 0.88)
HIDDEN = (100,)
GRID: dict[str, Any] = {"batch_size": (20,)}  # the tuned recipe
PASSES = ("epochs", (4, 6, 8, 12, 16))


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
