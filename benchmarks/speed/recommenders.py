"""How fast PMF, conditional PMF and the RBM train: to given validation errors, and over the ratings once.

PMF is compared with other factorizers; of the others no peer has the like.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.core.store import size_field
from benchmarks.core.timing import copy_bandwidth
from benchmarks.speed import time_to_error
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.factorizers import PEERS, Peer
from benchmarks.speed.time_to_error import Contender, Problem
from jaxcf import models

MANY = 11  # passes that are timed against one, of peers


class Case(NamedTuple):
    """What is measured of a model."""

    errors: tuple[float, ...]  # of validation, to reach
    sizes: tuple[int, ...]  # features or hidden units
    grid: Mapping[str, Sequence[Any]]  # settings that are tried
    epochs: tuple[int, ...]  # likewise
    peers: Mapping[str, Peer] = MappingProxyType({})  # other programs that train such a model
    bytes_per_rating: Callable[[int], int] | None = None  # of a size: what a step moves at least


def _bytes_of_pmf(rank: int) -> int:
    """Count the rating, and two rows with biases there and back."""
    return 12 + 2 * 2 * 4 * (rank + 1)


CASES = {
    # Chosen on validation ratings of MovieLens 1M, for few passes: rates that fall to nothing in the end, for users the
    # highest, as a minibatch has fewer ratings of any user than of some movies; small initial vectors.
    "pmf": Case(
        (0.860, 0.850, 0.845), (10, 50),
        {
            "rate": [{"U": 0.21, "V": 0.13, "b": 0.03, "c": 0.05}, {"U": 0.13, "V": 0.11, "b": 0.03, "c": 0.08}],
            "decay": [{"*": decay, "b": 0.02, "c": 0.01} for decay in (0.02, 0.03)],
            "init_scale": (0.02, 0.04),
            "batch_size": (3200, 6400),
        },
        (2, 3, 4, 5, 6), PEERS, _bytes_of_pmf,
    ),
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


def measure(
    model: str, peers: bool = False, case: Case | None = None, problem: Problem | None = None
) -> dict[str, Any]:
    """Measure seconds to validation errors, of the best of a grid, and ratings per second of a pass.

    Each peer has its own grid; those that cannot be loaded are left out and listed.
    """
    case = case or CASES[model]
    problem = problem or time_to_error.problem(case.errors)
    known = case.peers if peers else {}
    out = {name: why for name, peer in known.items() if (why := missing(peer.package))}
    chosen = {name: peer for name, peer in known.items() if name not in out}
    passes, bandwidth = ("epochs", case.epochs), copy_bandwidth()
    figures: dict[str, Any] = {
        "ratings": problem.about,
        "cores": os.cpu_count(),
        "copied_bytes_per_second": bandwidth,
        **({"left out": out} if out else {}),
        "grid of jaxcf": time_to_error.in_words(case.grid, passes),
        **{f"grid of {name}": time_to_error.in_words(peer.grid, peer.passes) for name, peer in chosen.items()},
    }
    for size in case.sizes:
        sized = {str(size_field(models.get(model).config)): size}
        contenders = {"jaxcf": Contender(time_to_error.ours(model, problem.data, **sized), case.grid, passes)}
        for name, peer in chosen.items():
            contenders[name] = Contender(peer.prepare(problem.data, size), peer.grid, peer.passes)
        found = time_to_error.times(contenders, problem)
        for name, contender in contenders.items():
            first = {key: values[0] for key, values in contender.grid.items()}
            if name == "jaxcf":
                rate: float | None = time_to_error.pass_rate(model, problem.data, **sized, **first)
            elif chosen[name].by_gradients:
                rate = time_to_error.peer_pass_rate(contender.train, problem.data, first, contender.passes[0], MANY)
            else:
                continue
            if rate is not None:
                found[name]["ratings_per_second"] = rate
                if case.bytes_per_rating is not None:
                    found[name]["of_copy_bandwidth"] = rate * case.bytes_per_rating(size) / bandwidth
        _compare(found)
        figures[f"size {size}"] = found
    return figures


def _compare(found: dict[str, Any]) -> None:
    """Add to every peer's time how much of it ours is."""
    for name, figures in found.items():
        for error, figure in figures.items():
            mine = found["jaxcf"].get(error)
            if name != "jaxcf" and isinstance(figure, dict) and isinstance(mine, dict):
                figure["jaxcf's time over this"] = mine["seconds"] / figure["seconds"]
