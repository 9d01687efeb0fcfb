"""Training speed of PMF, conditional PMF and the RBM: to given test errors, and of a pass over the ratings.

PMF is compared with other factorizers; no other program that we know of trains the other two models.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved
from benchmarks.measurement import limits, machine
from benchmarks.measurement.limits import LIMITS
from benchmarks.speed import own, search, time_to_error
from benchmarks.speed.own import NAME
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.factorizers import PEERS
from benchmarks.speed.programs import Program
from benchmarks.speed.time_to_error import MARGIN, ROUNDS, Contender, Problem
from jaxfit.devices.cores import cores
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
    "lies near its edge; after the last, the setting of the lowest error gets more passes where it misses an error; "
    f"for each error the shortest training whose validation RMSE is {MARGIN:g} below it, with as few passes as still "
    "reach that; jaxcf's space lies around its tuned recipe, whose other settings were chosen by validation ratings of "
    "this very split of MovieLens 1M, the spaces of other programs lie around general defaults"
)
TIMES = (
    f"{ROUNDS} rounds of new processes, in turn, of other seeds (LIBMF and cornac MF draw their own); a training whose "
    "test RMSE misses the error counts as infinitely long; training includes validation after each pass where a "
    "program has it (jaxcf's), and the result is then the best pass, not the last; what a program does with the "
    "ratings within its call that trains counts as training, what is done before it as preparation"
)
SHIPPED = (
    "the call of each program's documentation, with its defaults, on ratings in memory; jaxcf's default recipe was "
    "chosen on MovieLens 1M, those of the others in general"
)
ERRORS, PASSES = f"{LIMITS} in the rounds of times to errors", f"{LIMITS} in the rounds of passes"


@full_precision()
def measure(
    model: str, peers: bool = False, case: Case | None = None, problem: Problem | None = None
) -> dict[str, Any]:
    """Measure seconds to test errors, in settings found by the same search for all, and ratings per second of a pass.

    Programs that cannot be loaded are left out and listed.

    Returns:
        "setting": what was measured, by label; "tables": by title, contender and column; "limits": the title of the
        table of limits that belongs to a table; "curves": by title, with "x", "y" and "lines", the points of each
        contender; "search": of each contender, what was searched, in words, and all trainings of the search.
    """
    case = case or CASES[model]
    problem = problem or time_to_error.problem(case.errors)
    data, known = problem.data, case.peers if peers else {}
    out = {name: why for name, peer in known.items() if (why := missing(peer.package))}
    programs = {NAME: own.program(model)} | {name: peer for name, peer in known.items() if name not in out}
    starts = {name: program.prepare(data) for name, program in programs.items()}
    contenders = {name: time_to_error.searched(program, starts[name], problem) for name, program in programs.items()}
    timed = time_to_error.rounds(contenders, model, data, shipped=bool(case.peers))
    setting: dict[str, Any] = {
        "ratings": problem.about, "cores": cores(), "threads": machine.threads(NAME),
        "matrix precision of jaxcf": machine.environment(peers)["matmul_precision"], "budget": BUDGET, "times": TIMES,
        **({"as shipped": SHIPPED} if case.peers else {}), **{f"left out: {name}": why for name, why in out.items()},
    }  # fmt: skip
    tables: dict[str, Any] = {}
    for error in problem.errors:
        times = {n: time_to_error.row(c, error, timed.to_errors.get((n, error))) for n, c in contenders.items()}
        tables[f"to a test RMSE of {error:.3f}"] = time_to_error.with_ratios(times)
    reached = {name: min(contender.chosen) for name, contender in contenders.items() if contender.chosen}
    if reached:
        tables["time from process start, by phase, to the lowest error that each reached, seconds"] = {
            name: time_to_error.phases(timed.to_errors[name, error], error) for name, error in reached.items()
        }
    if timed.shipped:
        tables["as shipped: each program's documented defaults"] = {
            name: time_to_error.as_shipped(each) for name, each in timed.shipped.items()
        }
    limits_of = dict.fromkeys(tables, ERRORS)
    passes, rates = _passes(model, contenders, case.sizes, problem)
    limits_of |= dict.fromkeys(passes, PASSES)
    curve = {
        "x": "seconds of training, without compilation", "y": "test RMSE", "log": True,
        "lines": {name: time_to_error.curve(contender, data) for name, contender in contenders.items()},
    }  # fmt: skip
    return {
        "setting": setting,
        "tables": {**tables, **passes, ERRORS: limits.table(timed.limits), PASSES: limits.table(rates)},
        "limits": limits_of,
        "curves": {"RMSE by time": curve},
        "search": {name: contender.found.record() for name, contender in contenders.items()},
    }


def _passes(
    model: str, contenders: Mapping[str, Contender], sizes: Sequence[int], problem: Problem
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Measure ratings per second of the programs' passes, in alternating rounds: tables, and rates of the limits."""
    measures: dict[Any, Callable[[], float]] = {**limits.measures()}
    for size in sizes:
        for name, contender in contenders.items():
            program, data = contender.program, problem.data
            if name == NAME:
                chosen = next(iter(contender.chosen.values())).setting if contender.chosen else {}
                batch = {field: chosen[field] for field in ("batch_size",) if field in chosen}
                measures[size, name] = time_to_error.pass_rate(model, data, {program.rank: size, **batch})
            elif program.by_gradients:
                measures[size, name] = time_to_error.peer_pass_rate(program, contender.start, size, data)
    rates = interleaved(measures)
    tables: dict[str, Any] = {}
    for size in sizes:
        title = f"a pass over the ratings, {contenders[NAME].program.rank} {size}"
        found = {name: rates[size, name] for name in contenders if (size, name) in rates}
        tables[title] = {name: {"ratings/s": quartiles(samples)} for name, samples in found.items()}
    return tables, {name: rates[name] for name in limits.ABOUT}
