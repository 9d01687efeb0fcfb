"""How fast conditional PMF trains: to given validation errors, and over the ratings once."""

from typing import Any

from benchmarks.speed import ratings as rating_speed
from benchmarks.speed.ratings import Ground

ERRORS = (0.860, 0.850)
RANKS = (10, 50)
GRID: dict[str, Any] = {  # around the tuned recipe, for fewer passes
    "rate": [{"*": rate, "W": 5.0, "b": 0.03, "c": 0.03} for rate in (0.05, 0.08)],
    "init_scale": (0.04,),
}
PASSES = ("epochs", (2, 3, 4, 5, 8))


def measure(
    peers: bool = False,
    ground: Ground | None = None,
    ranks: tuple[int, ...] = RANKS,
    grid: Any = None,
    passes: tuple[str, Any] = PASSES,
) -> dict[str, Any]:
    """Seconds to validation errors, of the best of a grid of settings, and ratings per second of a pass.

    (`peers`: none; the programs beside PMF have no such model.)
    """
    ground = rating_speed.ground(ERRORS) if ground is None else ground
    sizes = [("num_features", rank) for rank in ranks]
    return rating_speed.alone("cpmf", ground, sizes, GRID if grid is None else grid, passes)
