"""How fast PMF trains: to given validation errors, and over the ratings once, beside other factorizers."""

import os
from typing import Any

from benchmarks.speed import ratings as rating_speed
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.ratings import Contender, Ground

ERRORS = (0.860, 0.850, 0.845)
RANKS = (10, 50)
# Chosen on validation ratings of MovieLens 1M, for few passes: rates that fall to nothing in the end, for users the
# highest, as a minibatch has fewer ratings of any user than of some movies; small initial vectors.
GRID: dict[str, Any] = {
    "rate": [{"U": 0.21, "V": 0.13, "b": 0.03, "c": 0.05}, {"U": 0.13, "V": 0.11, "b": 0.03, "c": 0.08}],
    "decay": [{"*": decay, "b": 0.02, "c": 0.01} for decay in (0.02, 0.03)],
    "init_scale": (0.02, 0.04),
    "batch_size": (3200, 6400),
}
PASSES = ("epochs", (2, 3, 4, 5, 6))
MANY = 11  # passes that are timed against one, of peers


def measure(
    peers: bool = False, ground: Ground | None = None, ranks: tuple[int, ...] = RANKS, grid: Any = None
) -> dict[str, Any]:
    """Seconds to validation errors, of the best of a grid of settings; and ratings per second of a pass.

    Peers are those of `peers.factorizers`, each with its own grid; who cannot be loaded is left out, and said.
    """
    ground = rating_speed.ground(ERRORS) if ground is None else ground
    grid = GRID if grid is None else grid
    bandwidth = rating_speed.copy_bandwidth()
    out = {name: why for name, peer in PEERS.items() if (why := missing(peer.package))} if peers else {}
    chosen = {name: peer for name, peer in PEERS.items() if name not in out} if peers else {}
    figures: dict[str, Any] = {
        "ratings": ground.about,
        "cores": os.cpu_count(),
        "copied_bytes_per_second": bandwidth,
        **({"left out": out} if out else {}),
        "grid of jaxcf": rating_speed.said(grid, PASSES),
        **{f"grid of {name}": rating_speed.said(peer.grid, peer.passes) for name, peer in chosen.items()},
    }
    for rank in ranks:
        train = rating_speed.ours("pmf", ground.data, num_features=rank)
        contenders = {"jaxcf": Contender(train, grid, PASSES)}
        for name, peer in chosen.items():
            contenders[name] = Contender(peer.prepare(ground.data, rank), peer.grid, peer.passes)
        found = rating_speed.times(contenders, ground)
        for name in contenders:
            rate = _pass_rate(name, contenders[name], ground, rank)
            if rate is not None:
                moved = rate * rating_speed.bytes_of_rating(rank)
                found[name] |= {"ratings_per_second": rate, "of_copy_bandwidth": moved / bandwidth}
        _compare(found)
        figures[f"rank {rank}"] = found
    return figures


def _pass_rate(name: str, contender: Contender, ground: Ground, rank: int) -> float | None:
    setting = {key: values[0] for key, values in contender.grid.items()}
    if name == "jaxcf":
        return rating_speed.pass_rate("pmf", ground.data, num_features=rank, **setting)
    if not PEERS[name].by_gradients:
        return None
    return rating_speed.peer_pass_rate(contender.train, ground.data, setting, contender.passes[0], MANY)


def _compare(found: dict[str, Any]) -> None:
    """Add to every peer's time how much of it ours is."""
    for name, figures in found.items():
        for error, figure in figures.items():
            mine = found["jaxcf"].get(error)
            if name != "jaxcf" and isinstance(figure, dict) and isinstance(mine, dict):
                figure["jaxcf's time over this"] = mine["seconds"] / figure["seconds"]
