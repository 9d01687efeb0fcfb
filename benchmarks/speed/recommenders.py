"""How fast PMF, conditional PMF and the RBM train: to given test errors, and over the ratings once.

PMF is compared with other factorizers; of the others no peer has the like.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved
from benchmarks.speed import own, search, time_to_error
from benchmarks.speed.own import NAME
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.programs import Program
from benchmarks.speed.time_to_error import MARGIN, ROUNDS, Contender, Problem
from jaxfit.devices.precision import full_precision


class Case(NamedTuple):
    """What is measured of a model."""

    errors: tuple[float, ...]  # of the test, to reach
    sizes: tuple[int, ...]  # features or hidden units, of passes over the ratings
    peers: Mapping[str, Program] = MappingProxyType({})  # other programs that train such a model


CASES = {
    "pmf": Case((0.860, 0.850), (10, 50), PEERS),
    "cpmf": Case((0.850,), (10, 50)),
    "rbm": Case((0.87,), (100,)),
}
BUDGET = (
    f"for each program {search.BATCHES * search.BATCH} settings drawn at random, vector size included, in batches of "
    f"{search.BATCH}: all are trained for {search.PASSES[0]} passes, the better half anew for {search.PASSES[1]}, and "
    f"so on to {search.PASSES[-1]}, but for those that reached the lowest error, and those that would take more than "
    f"{search.LONGEST:g} s by what they took before; after a batch, the space is widened where what would be chosen "
    f"lies near its edge; for each error the shortest training whose validation RMSE is {MARGIN:g} below it, with as "
    "few passes as still reach that"
)
TIMES = (
    f"{ROUNDS} rounds of new processes, in turn, of other seeds (LIBMF and cornac MF draw their own); a training whose "
    "test RMSE misses the error counts as infinitely long; training includes validation after each pass where a "
    "program has it (jaxcf's), and the result is then the best pass, not the last"
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
    contenders = {name: time_to_error.searched(program, starts[name], problem) for name, program in programs.items()}
    timed = time_to_error.rounds(contenders, model, data)
    setting: dict[str, Any] = {
        "ratings": problem.about, "cores": os.cpu_count(), "threads": "all cores, in every program that has threads",
        "matrix precision of jaxcf": "highest", "budget": BUDGET, "times": TIMES,
        **{f"left out: {name}": why for name, why in out.items()},
        **{f"searched of {name}": contender.found.in_words() for name, contender in contenders.items()},
    }  # fmt: skip
    tables: dict[str, Any] = {}
    for error in problem.errors:
        times = {n: time_to_error.row(c, error, timed.get((n, error))) for n, c in contenders.items()}
        tables[f"to a test RMSE of {error:.3f}"] = time_to_error.compare(times)
    reached = {name: contender for name, contender in contenders.items() if contender.chosen}
    if reached:
        tables["where the seconds from process start go, to the lowest error that each reached"] = {
            name: time_to_error.where_time_goes(timed[name, min(c.chosen)], min(c.chosen))
            for name, c in reached.items()
        }
    for size in case.sizes:
        title = f"a pass over the ratings, {programs[NAME].rank} {size}"
        tables[title] = _passes(model, contenders, size, problem)
    tables["as shipped: each program's documented defaults"] = time_to_error.as_shipped(list(programs), model, data)
    curve = {
        "x": "seconds of training, without compilation", "y": "test RMSE",
        "lines": {name: time_to_error.curve(contender, data) for name, contender in reached.items()},
    }  # fmt: skip
    return {"setting": setting, "tables": tables, "curves": {"RMSE by time": curve} if reached else {}}


def _passes(model: str, contenders: Mapping[str, Contender], size: int, problem: Problem) -> dict[str, Any]:
    """Measure ratings per second of the programs' passes, in alternating rounds."""
    measures = {}
    for name, contender in contenders.items():
        program, data = contender.program, problem.data
        if name == NAME:
            chosen = next(iter(contender.chosen.values())).setting if contender.chosen else {}
            batch = {field: chosen[field] for field in ("batch_size",) if field in chosen}
            measures[name] = time_to_error.pass_rate(model, data, {program.rank: size, **batch})
        elif program.by_gradients:
            measures[name] = time_to_error.peer_pass_rate(program, contender.start, size, data)
    return {name: {"ratings/s": quartiles(found)} for name, found in interleaved(measures).items()}
