"""How fast PMF, conditional PMF and the RBM train: to given test errors, and over the ratings once.

PMF is compared with other factorizers; of the others no peer has the like.
"""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import copy_bandwidth
from benchmarks.speed import own, search, time_to_error
from benchmarks.speed.own import NAME
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.programs import Program
from benchmarks.speed.time_to_error import MARGIN, ROUNDS, Problem
from jaxfit.devices.precision import full_precision


class Case(NamedTuple):
    """What is measured of a model."""

    errors: tuple[float, ...]  # of the test, to reach
    sizes: tuple[int, ...]  # features or hidden units
    peers: Mapping[str, Program] = MappingProxyType({})  # other programs that train such a model
    bytes_per_rating: Callable[[int], int] | None = None  # of a size: what a step moves at least


def _bytes_of_pmf(rank: int) -> int:
    """Count the rating, and two rows with biases there and back."""
    return 12 + 2 * 2 * 4 * (rank + 1)


CASES = {
    "pmf": Case((0.860, 0.850, 0.845), (10, 50), PEERS, _bytes_of_pmf),
    "cpmf": Case((0.860, 0.850), (10, 50)),
    "rbm": Case((0.90, 0.88, 0.87), (100,)),
}
BUDGET = (
    f"for each program and size {search.BATCHES * search.BATCH} settings at random, each trained anew for "
    f"{', '.join(map(str, search.PASSES))} passes while that lowers its error and takes up to {search.LONGEST:g} s; "
    f"after {search.BATCH}, the space is widened where what would be chosen lies near its edge; for each error the "
    f"shortest training whose validation RMSE is {MARGIN:g} below it, with as few passes as still reach that"
)
TIMES = (
    f"{ROUNDS} rounds of new processes, in turn, of other seeds; a training whose test RMSE misses the error took for "
    "ever; training includes validation after each pass where a program has it (jaxcf's)"
)


@full_precision()
def measure(
    model: str, peers: bool = False, case: Case | None = None, problem: Problem | None = None
) -> dict[str, Any]:
    """Measure seconds to test errors, in settings found by the same search for all, and ratings per second of a pass.

    Programs that cannot be loaded are left out and listed.

    Returns:
        "setting": what was measured, by label; "tables": by title, contender and column; "curves": by title, with
        "x", "y" and "lines", the points of each contender.
    """
    case = case or CASES[model]
    problem = problem or time_to_error.problem(case.errors)
    data, known = problem.data, case.peers if peers else {}
    out = {name: why for name, peer in known.items() if (why := missing(peer.package))}
    programs = {NAME: own.program(model)} | {name: peer for name, peer in known.items() if name not in out}
    starts = {name: program.prepare(data) for name, program in programs.items()}
    bandwidth = copy_bandwidth()
    setting: dict[str, Any] = {
        "ratings": problem.about, "cores": os.cpu_count(), "threads": "all cores, in every program that has threads",
        "matrix precision of jaxcf": "highest", "budget": BUDGET, "times": TIMES,
        "copied bytes per second": bandwidth, **{f"left out: {name}": why for name, why in out.items()},
    }  # fmt: skip
    tables: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    for size in case.sizes:
        title = f"{programs[NAME].rank} {size}"
        contenders = {
            name: time_to_error.searched(program, starts[name], size, problem) for name, program in programs.items()
        }
        setting |= {f"{title}, searched of {name}": c.found.in_words() for name, c in contenders.items()}
        timed = time_to_error.rounds(contenders, model, data)
        for error in problem.errors:
            times = {n: time_to_error.row(c, error, timed.get((n, error))) for n, c in contenders.items()}
            tables[f"{title}, to a test RMSE of {error:.3f}"] = time_to_error.compare(times)
        if spent := {n: time_to_error.where_time_goes(timed[n, min(c.chosen)])
                     for n, c in contenders.items() if c.chosen}:  # fmt: skip
            tables[f"{title}, where the seconds from process start to the lowest error go"] = spent
        tables[f"{title}, a pass over the ratings"] = {
            name: _pass(name, model, contender, data, case, bandwidth)
            for name, contender in contenders.items() if contender.program.by_gradients
        }  # fmt: skip
        lines = {name: time_to_error.curve(c, data) for name, c in contenders.items() if c.chosen}
        curves[title] = {"x": "seconds of training, without compilation", "y": "test RMSE", "lines": lines}
    tables["as shipped: each program's documented defaults"] = time_to_error.as_shipped(list(programs), model, data)
    return {"setting": setting, "tables": tables, "curves": curves}


def _pass(
    name: str, model: str, contender: time_to_error.Contender, data: Any, case: Case, bandwidth: float
) -> dict[str, Any]:
    """Return the ratings per second of a program's passes, and their share of what copying memory allows."""
    program, _, rank = contender.program, contender.start, contender.rank
    if name == NAME:
        batch = next(iter(contender.chosen.values())).setting["batch_size"] if contender.chosen else None
        sized = {} if batch is None else {"batch_size": batch}
        rates = time_to_error.pass_rates(model, data, **{program.rank: rank}, **sized)
    else:
        rates = time_to_error.peer_pass_rates(program, contender.start, rank, data)
    if not rates:
        return {"ratings per second": None}
    shares = [rate * case.bytes_per_rating(rank) / bandwidth for rate in rates] if case.bytes_per_rating else []
    return {"ratings per second": quartiles(rates), **({"of copy bandwidth": quartiles(shares)} if shares else {})}
