"""Training times of programs to given errors: settings are searched by validation ratings, errors are of the test."""

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
from benchmarks.measurement import limits
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

ROUNDS = timing.ROUNDS  # each of other seeds than the one before
SHIPPED = 2  # every so many rounds, programs are also trained as shipped, which for some takes long
MOST_PASSES = 10_000  # of a peer, to fill a window of time
MARGIN = 0.002  # stars by which validation must be below the error, so that the test, of other ratings, reaches it
TRAINING, PREPARED, WARM, COLD = TIMES = (
    "s of training", "s of preparation, compilation and training, cold cache", "s from process start, warm cache",
    "s from process start, cold cache",
)  # fmt: skip


class Problem(NamedTuple):
    """What all programs train on, and which errors they are to reach.

    Attributes:
        data: split ratings.
        about: description of the ratings.
        errors: the test errors to reach, in stars, of predictions clipped to the scale.
    """

    data: Dataset
    about: str
    errors: tuple[float, ...]


class Contender(NamedTuple):
    """A program, its ratings prepared, and what the search found."""

    program: Program
    start: Start
    found: Found
    chosen: dict[float, Tried]  # by the error to reach; without those that validation did not reach

    def options(self, passes: int, seed: int, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a training."""
        return options(self.program, passes, seed, setting)


def problem(errors: tuple[float, ...]) -> Problem:
    """Load MovieLens 1M; without it, draw as many ratings, with errors relative to that of the true model.

    All programs have the same split: a tenth for the test, a twentieth of the rest for validation.
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
    # 6 % and 3 % above the error of ridge regressions that are given half of the true parameters, which at this shape
    # is 1.5 % above that of the true model
    return Problem(drawn, about, tuple(round(share * known, 3) for share in (1.076, 1.046)))


def trainer(model: str, data: Dataset, setting: Mapping[str, Any]) -> Trainer:
    """Return a trainer of a model, before its first step, by its tuned recipe with these changes."""
    recipe, config = changed(*store.configured(model, "tuned"), setting.items())
    assert recipe is not None
    return store.trainer(model, data, recipe, config)


def options(program: Program, passes: int, seed: int, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a training of a program."""
    seeded = {program.seed: seed} if program.seed else {}
    return {program.passes: passes, **seeded, **setting}


def searched(program: Program, start: Start, problem: Problem) -> Contender:
    """Search a program's settings, and choose for each error the shortest training whose validation reached it.

    The training then has as few passes as still reach it. Test ratings are not read.
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
    """Trainings of one setting, one per round: with a warm cache, and with a cold one if the program compiles."""

    warm: list[Seconds]
    cold: list[Seconds]


class Rounds(NamedTuple):
    """What was trained in new processes, in turn: to errors, and as shipped; and the limits of the device meanwhile."""

    to_errors: dict[tuple[str, float], Timed]  # by contender and error
    shipped: dict[str, Timed]  # by contender
    limits: dict[str, list[float]]


def rounds(contenders: Mapping[str, Contender], model: str, data: Dataset, shipped: bool) -> Rounds:
    """Train what was chosen in new processes ROUNDS times.

    A program that compiles is trained twice in a round: with an empty cache, and with what that left. A setting that
    was chosen for several errors is trained once.

    Args:
        shipped: whether programs are trained as shipped, too.
    """
    wanted: dict[tuple[str, str], dict[str, Any]] = {}
    if shipped:
        wanted = {(name, ""): {} for name in contenders}  # without options
    keys = {}
    for name, contender in contenders.items():
        for error, best in contender.chosen.items():
            keys[name, error] = (name, in_words({**best.setting, search.PASS: best.passes}))
            wanted[keys[name, error]] = contender.options(best.passes, 0, best.setting)
    timed, measured = {key: Timed([], []) for key in wanted}, limits.measures()
    rates: dict[str, list[float]] = {name: [] for name in measured}
    with tempfile.TemporaryDirectory() as folder:
        ratings = Path(folder) / "ratings.npz"
        fresh_process.write(data, ratings)
        for number in range(ROUNDS):
            places: list[Any] = [*measured, *wanted]
            for place in timing.in_turn(range(len(places)), number):
                key = places[place]
                if key in measured:
                    rates[key].append(measured[key]())
                    continue
                (name, setting), seed = key, contenders[key[0]].program.seed
                if not setting and number % SHIPPED:
                    continue
                given = wanted[key] | ({seed: number + 2} if setting and seed else {})
                arguments = name, model, ratings, given, Path(folder) / f"cache {number} {place}"
                if name == NAME:
                    timed[key].cold.append(fresh_process.measure(*arguments))
                timed[key].warm.append(fresh_process.measure(*arguments))
    return Rounds(
        {place: timed[key] for place, key in keys.items()},
        {name: each for (name, setting), each in timed.items() if not setting},
        rates,
    )


def row(contender: Contender, error: float, timed: Timed | None) -> dict[str, Any]:
    """Return a contender's times to an error; a training that missed it counts as infinitely long."""
    best = contender.chosen.get(error) or contender.found.lowest()
    known = {
        "lowest validation RMSE of the search": _finite(contender.found.lowest().error),
        "setting": in_words({**best.setting, contender.program.passes: best.passes}),
        "near the edge of the search": ", ".join(contender.found.on_edge(best, error - MARGIN)),
    }
    if timed is None:
        return {**{column: quartiles([np.inf] * ROUNDS) for column in TIMES}, **known}
    missed = [np.inf if each.rmse > error else 0.0 for each in timed.warm]

    def column(seconds: Sequence[float]) -> dict[str, Any]:
        return quartiles(np.add(seconds, missed))

    cold = timed.cold or timed.warm
    return {
        TRAINING: column([each.training for each in timed.warm]),
        PREPARED: column([each.preparation + each.compilation + each.training for each in cold]),
        WARM: column([each.total for each in timed.warm]),
        COLD: column([each.total for each in cold]),
        "s of preparation": quartiles([each.preparation for each in timed.warm]),
        "test RMSE": quartiles([each.rmse for each in timed.warm]),
        **known,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def with_ratios(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add to every row of `row` its times divided by jaxcf's, round by round; None if both missed in a round."""
    for found in table.values():
        for column in TIMES:
            theirs, ours = (np.array(of[column]["samples"], float) for of in (found, table[NAME]))  # None is NaN
            both = np.isnan(theirs) & np.isnan(ours)
            with np.errstate(invalid="ignore"):
                ratios = np.where(np.isnan(theirs), np.inf, np.where(np.isnan(ours), 0.0, theirs / ours))
            found[f"{column}: this / {NAME}"] = None if both.any() else quartiles(ratios)
    return table


def phases(timed: Timed, error: float) -> dict[str, Any]:
    """Return what a process with a warm cache spends its time on, from its start to an error."""
    parts = ("start", "reading", "preparation", "compilation", "training", "total")
    words = {"start": "start and imports", "compilation": "tracing, lowering, reading the cache"}
    spent = {words.get(part, part): quartiles([getattr(each, part) for each in timed.warm]) for part in parts}
    return {**spent, "to a test RMSE of": error}


def curve(contender: Contender, data: Dataset) -> list[list[float]]:
    """Train for more and more passes with the setting chosen for the lowest error: seconds of training, test RMSE.

    A program that reached no error has the setting with its lowest one.
    """
    assert data.test is not None
    best = contender.chosen[min(contender.chosen)] if contender.chosen else contender.found.lowest()
    numbers = sorted({*(n for n in (1, 2, *search.PASSES) if n < best.passes), best.passes})
    made = (trial(contender.start, contender.options(n, 1, best.setting), data, data.test) for n in numbers)
    return [[each.training, each.rmse] for each in made if np.isfinite(each.rmse)]


def as_shipped(timed: Timed) -> dict[str, Any]:
    """Return the times of a program used as in its documentation."""
    of_all = {WARM: timed.warm, COLD: timed.cold or timed.warm}
    return {
        **{column: quartiles([each.total for each in found]) for column, found in of_all.items()},
        TRAINING: quartiles([each.training for each in timed.warm]),
        "test RMSE": quartiles([each.rmse for each in timed.warm]),
    }


def pass_rate(model: str, data: Dataset, setting: Mapping[str, Any]) -> Callable[[], float]:
    """Return a function that measures ratings per second of passes of ours, shuffling included, validation not."""
    training, numbers = trainer(model, data, setting), count()
    return lambda: training.events / float(np.mean(windowed(lambda: pass_seconds(training, next(numbers))[0])))


def peer_pass_rate(program: Program, start: Start, rank: int, data: Dataset) -> Callable[[], float]:
    """Return a function that measures ratings per second of a peer's passes.

    It is computed from how much longer a training of more passes takes than one of a single pass: of so many more that
    they take a window of time, so that other processes do not make the difference negative.
    """

    def seconds(passes: int) -> float:
        return trial(start, options(program, passes, 1, {program.rank: rank}), data, data.valid).training

    def longer(passes: int) -> float:
        return seconds(1 + passes) - seconds(1)

    seconds(1)  # the first training of a process may be slow
    passes = 1
    while (took := float(np.median([longer(passes) for _ in range(3)]))) < timing.WINDOW:
        if passes > MOST_PASSES:
            raise RuntimeError(f"{passes:,} passes take no longer than one")
        passes = math.ceil(passes * min(10.0, max(1.3, 1.3 * timing.WINDOW / max(took, 1e-9))))
    return lambda: passes * len(data.train.user) / longer(passes)


def in_words(setting: Mapping[str, Any]) -> str:
    """Put a setting into words."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())
