"""How fast PMF trains: to given validation errors, and over the ratings once, compared with other factorizers."""

import os
from typing import Any

from benchmarks.core.timing import copy_bandwidth
from benchmarks.speed import time_to_error
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.time_to_error import Contender, Problem

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
    peers: bool = False, problem: Problem | None = None, ranks: tuple[int, ...] = RANKS, grid: Any = None
) -> dict[str, Any]:
    """Measure seconds to validation errors, of the best of a grid, and ratings per second of a pass.

    Peers are those of `peers.factorizers`, each with its own grid; those that cannot be loaded are left out and listed.
    """
    problem = time_to_error.problem(ERRORS) if problem is None else problem
    grid = GRID if grid is None else grid
    bandwidth = copy_bandwidth()
    out = {name: why for name, peer in PEERS.items() if (why := missing(peer.package))} if peers else {}
    chosen = {name: peer for name, peer in PEERS.items() if name not in out} if peers else {}
    figures: dict[str, Any] = {
        "ratings": problem.about,
        "cores": os.cpu_count(),
        "copied_bytes_per_second": bandwidth,
        **({"left out": out} if out else {}),
        "grid of jaxcf": time_to_error.in_words(grid, PASSES),
        **{f"grid of {name}": time_to_error.in_words(peer.grid, peer.passes) for name, peer in chosen.items()},
    }
    for rank in ranks:
        train = time_to_error.ours("pmf", problem.data, num_features=rank)
        contenders = {"jaxcf": Contender(train, grid, PASSES)}
        for name, peer in chosen.items():
            contenders[name] = Contender(peer.prepare(problem.data, rank), peer.grid, peer.passes)
        found = time_to_error.times(contenders, problem)
        for name in contenders:
            rate = _pass_rate(name, contenders[name], problem, rank)
            if rate is not None:
                # of a rating at least itself, and two rows with biases there and back
                moved = rate * (12 + 2 * 2 * 4 * (rank + 1))
                found[name] |= {"ratings_per_second": rate, "of_copy_bandwidth": moved / bandwidth}
        _compare(found)
        figures[f"rank {rank}"] = found
    return figures


def _pass_rate(name: str, contender: Contender, problem: Problem, rank: int) -> float | None:
    setting = {key: values[0] for key, values in contender.grid.items()}
    if name == "jaxcf":
        return time_to_error.pass_rate("pmf", problem.data, num_features=rank, **setting)
    if not PEERS[name].by_gradients:
        return None
    return time_to_error.peer_pass_rate(contender.train, problem.data, setting, contender.passes[0], MANY)


def _compare(found: dict[str, Any]) -> None:
    """Add to every peer's time how much of it ours is."""
    for name, figures in found.items():
        for error, figure in figures.items():
            mine = found["jaxcf"].get(error)
            if name != "jaxcf" and isinstance(figure, dict) and isinstance(mine, dict):
                figure["jaxcf's time over this"] = mine["seconds"] / figure["seconds"]
