"""How long programs train to given errors: settings searched by validation ratings, times taken on test ratings."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.core import timing
from benchmarks.core.changes import changed
from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import pass_seconds, windowed
from benchmarks.ratings import store
from benchmarks.ratings.scales import MOVIELENS_1M, speed_ratings
from benchmarks.speed import fresh_process, search
from benchmarks.speed.fresh_process import Seconds
from benchmarks.speed.own import NAME
from benchmarks.speed.programs import Program, Start, trial
from benchmarks.speed.search import Found, Tried
from jaxcf.data.ratings import Dataset
from jaxcf.data.synthetic import Planted, true_model
from jaxcf.metrics import evaluate
from jaxfit.trainer import Trainer

# Of all that is measured in turn, each with a seed of its own. The exact Mann-Whitney test of eight against eight
# samples comes down to p = 1.6e-4, which remains significant after the correction for 300 comparisons.
ROUNDS = 8
MOST_PASSES = 10_000  # of a peer, to fill a window of time
MARGIN = 0.002  # stars below an error that validation must come, for the test, whose ratings are others, to reach it
TRAINING, COMPILED, STARTED = (
    "s of training", "s with compilation, cold cache", "s from process start, warm cache",
)  # fmt: skip


class Problem(NamedTuple):
    """What all programs train on: split ratings, what they are, and the test errors to reach, in stars.

    errors: of predictions clipped to the scale.
    """

    data: Dataset
    about: str
    errors: tuple[float, ...]


class Contender(NamedTuple):
    """A program, its ratings prepared, and what the search found."""

    program: Program
    start: Start
    found: Found
    chosen: dict[float, Tried]  # by the error to reach; none that validation did not come to

    def options(self, passes: int, seed: int, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a training."""
        return options(self.program, passes, seed, setting)


def problem(errors: tuple[float, ...]) -> Problem:
    """Load MovieLens 1M; where it is not, draw as many ratings, with errors relative to what is known of them.

    The same split for all: a tenth for the test, a twentieth of the rest for validation.
    """
    found = speed_ratings().data
    if found.name == "planted":
        return planted_problem(found, MOVIELENS_1M)
    return Problem(found, f"MovieLens 1M, {len(found.train.user):,} training ratings", errors)


def planted_problem(drawn: Dataset, shape: Planted) -> Problem:
    """Take planted ratings of this shape; the errors to reach are 7.6 % and 4.6 % above that of the true model."""
    valid, truth = drawn.valid, true_model(jax.random.key(0), shape)
    known = evaluate(truth.predict(valid.user, valid.item), valid.stars, drawn.catalogue.scale).rmse
    about = f"{drawn.note}, {len(drawn.train.user):,} training ratings"
    # 6 % and 3 % above what ridge regressions reach that are given half of the true parameters: at this shape, 1.5 %
    # above the true model
    return Problem(drawn, about, tuple(round(share * known, 3) for share in (1.076, 1.046)))


def trainer(model: str, data: Dataset, setting: Mapping[str, Any]) -> Trainer:
    """Return the training of a model by its tuned recipe with this changed, at its first step."""
    recipe, config = changed(*store.configured(model, "tuned"), setting.items())
    assert recipe is not None
    return store.trainer(model, data, recipe, config)


def options(program: Program, passes: int, seed: int, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a training of a program."""
    seeded = {program.seed: seed} if program.seed else {}
    return {program.passes: passes, **seeded, **setting}


def searched(program: Program, start: Start, problem: Problem) -> Contender:
    """Search a program's settings, and choose for each error the shortest training whose validation came to it.

    With that setting, as few passes as still do. Test ratings are not read.
    """

    def attempt(setting: dict[str, Any], passes: int) -> Tried:
        made = trial(start, options(program, passes, search.SEED, setting), problem.data, problem.data.valid)
        return Tried(setting, passes, made.training, made.rmse)

    errors = [error - MARGIN for error in problem.errors]
    found, chosen = search.search(attempt, program.space, errors), {}
    for error, wanted in zip(problem.errors, errors, strict=True):
        if best := search.shortest(found.tried, wanted):
            chosen[error] = search.fewest_passes(attempt, best, found.tried, wanted)
    return Contender(program, start, found, chosen)


class Timed(NamedTuple):
    """Trainings of one setting, one a round: from a warm cache, and the seconds of compilation from a cold one."""

    warm: list[Seconds]
    cold: list[float]


def rounds(contenders: Mapping[str, Contender], model: str, data: Dataset) -> dict[tuple[str, float], Timed]:
    """Train what was chosen in new processes, all in turn, ROUNDS times; by contender and error.

    What compiles is trained twice in a round: with an empty cache, and with what that left. A setting that was chosen
    for several errors is trained once.
    """
    timed: dict[tuple[str, str], Timed] = {}
    with tempfile.TemporaryDirectory() as folder:
        ratings = Path(folder) / "ratings.npz"
        fresh_process.write(data, ratings)
        for number in range(ROUNDS):
            done = set()
            for name, contender in contenders.items():
                for best in contender.chosen.values():
                    if (name, str(best)) in done:
                        continue
                    done.add((name, str(best)))
                    of = timed.setdefault((name, str(best)), Timed([], []))
                    arguments = (
                        name, model, ratings, contender.options(best.passes, number + 2, best.setting),
                        Path(folder) / f"cache {number} {name} {len(done)}",
                    )  # fmt: skip
                    if name == NAME:
                        of.cold.append(fresh_process.measure(*arguments).compilation)
                    of.warm.append(fresh_process.measure(*arguments))
    return {(n, error): timed[n, str(best)] for n, c in contenders.items() for error, best in c.chosen.items()}


def row(contender: Contender, error: float, timed: Timed | None) -> dict[str, Any]:
    """Return a contender's times to an error; a training that missed it counts as infinitely long."""
    error_found = min(each.error for each in contender.found.tried)
    lowest = {"lowest validation RMSE of the search": error_found if math.isfinite(error_found) else None}
    if timed is None:
        return {TRAINING: "missed", **lowest, "setting": "none of the search"}
    best = contender.chosen[error]
    edge = contender.found.on_edge(best.setting)
    missed = [np.inf if each.rmse > error else 0.0 for each in timed.warm]

    def column(seconds: Sequence[float]) -> dict[str, Any]:
        return quartiles([took + never for took, never in zip(seconds, missed, strict=True)])

    training = [each.training for each in timed.warm]
    compiled = [took + more for took, more in zip(training, timed.cold or [0.0] * len(training), strict=True)]
    return {
        TRAINING: column(training),
        COMPILED: column(compiled),
        STARTED: column([each.total for each in timed.warm]),
        "s of preparation": quartiles([each.preparation for each in timed.warm]),
        "test RMSE": quartiles([each.rmse for each in timed.warm]),
        **lowest,
        "setting": in_words({**best.setting, contender.program.passes: best.passes})
        + (f" (near the edge of the space: {', '.join(edge)})" if edge else ""),
    }


def compare(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add to every row of `row` how often jaxcf's median times its own are; nothing where either missed."""
    for found in table.values():
        for column in (TRAINING, COMPILED, STARTED):
            ours, theirs = (_median(of.get(column)) for of in (table[NAME], found))
            found[f"{column} / {NAME}'s"] = theirs / ours if ours and theirs else None
    return table


def _median(value: Any) -> float | None:
    return value["median"] if isinstance(value, dict) else None


def where_time_goes(timed: Timed, error: float) -> dict[str, Any]:
    """Return what a process with a warm cache spends its time on, from its start to an error."""
    parts = ("start", "reading", "preparation", "compilation", "training", "total")
    words = {"start": "start and imports", "compilation": "tracing, lowering, reading the cache"}
    spent = {words.get(part, part): quartiles([getattr(each, part) for each in timed.warm]) for part in parts}
    return {**spent, "to a test RMSE of": error}


def curve(contender: Contender, data: Dataset) -> list[list[float]]:
    """Train for more and more passes in what was chosen for the lowest error: seconds of training, test RMSE."""
    assert data.test is not None
    best = contender.chosen[min(contender.chosen)]
    numbers = sorted({*(n for n in (1, 2, *search.PASSES) if n < best.passes), best.passes})
    made = (trial(contender.start, contender.options(n, 1, best.setting), data, data.test) for n in numbers)
    return [[each.training, each.rmse] for each in made if np.isfinite(each.rmse)]


def as_shipped(names: Sequence[str], model: str, data: Dataset) -> dict[str, dict[str, Any]]:
    """Train each program as its documentation has it, in a new process; a second time, where the first compiles."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        ratings = Path(folder) / "ratings.npz"
        fresh_process.write(data, ratings)
        for name in names:
            for _ in range(2 if name == NAME else 1):
                found = fresh_process.measure(name, model, ratings, {}, Path(folder) / "cache")
            rows[name] = {STARTED: found.total, TRAINING: found.training, "test RMSE": found.rmse}
    return rows


def pass_rate(model: str, data: Dataset, setting: Mapping[str, Any]) -> Callable[[], float]:
    """Return a function that measures ratings per second of passes of ours, shuffling included, validation not."""
    training, numbers = trainer(model, data, setting), count()
    return lambda: training.events / float(np.mean(windowed(lambda: pass_seconds(training, next(numbers)))))


def peer_pass_rate(program: Program, start: Start, rank: int, data: Dataset) -> Callable[[], float]:
    """Return a function that measures ratings per second of a peer's passes.

    It is by how much longer a training of more passes takes than of one: as many more as take a window of time, so that
    no other process' moments turn the difference negative.
    """

    def seconds(passes: int) -> float:
        return trial(start, options(program, passes, 1, {program.rank: rank}), data, data.valid).training

    def longer(passes: int) -> float:
        return seconds(1 + passes) - seconds(1)

    seconds(1)  # the first training of a process may be slow
    passes = 1
    while (took := float(np.median([longer(passes) for _ in range(3)]))) < timing.WINDOW / 2:
        if passes > MOST_PASSES:
            raise RuntimeError(f"{passes:,} passes take no longer than one")
        passes = math.ceil(passes * min(10.0, max(2.0, timing.WINDOW / max(took, 1e-9))))
    return lambda: passes * len(data.train.user) / longer(passes)


def in_words(setting: Mapping[str, Any]) -> str:
    """Put a setting into words."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())
