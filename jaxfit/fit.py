"""Training from the first step to the best parameters: epochs, validation, rate drops, checkpoints, stop rules.

The compiled loop (`jaxfit.step`) is called in chunks of about two seconds. All that concerns a person or a clock
lives between chunks: progress, the finiteness check, Ctrl-C, checkpoints. All that decides the result (rates,
drops, the best parameters so far) depends on the epoch's losses and validation scores alone, so that a resumed
training equals an uninterrupted one bit for bit. Among several processes, the clock that counts is process 0's.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxfit import checkpoint, journal, processes, step
from jaxfit import mesh as devices
from jaxfit.capacity import Room, capacity, plan, rung
from jaxfit.errors import UserError
from jaxfit.order import permutation
from jaxfit.recipe import Recipe, per_parameter, transform

CHUNK_SECONDS = 2.0


class Fitted(NamedTuple):
    """The best parameters, their validation score (mean, in nats or squared stars), and how training went.

    history: one dict an epoch, as in `journal.jsonl`; stopped: "done" or "max-minutes"; compile_seconds,
    train_seconds (without validation) and events (words, ratings) of this run, for speeds.
    """

    params: Any
    score: float
    history: list[dict[str, Any]]
    stopped: str
    compile_seconds: float
    train_seconds: float
    events: int


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the state was saved."""


class Stand(NamedTuple):
    """Where training stands between chunks (all that is not an array)."""

    epoch: int = 0  # the epoch under way
    at: int = 0  # steps of it that are done
    phase: int = 0  # how many rate drops have been entered
    waited: int = 0  # epochs without improvement in this phase
    best: float = float("inf")
    best_epoch: int = -1
    journal: int = 0  # bytes
    done: bool = False


def scores(program: step.Program, params: Any, data: Any) -> np.ndarray:
    """Every example's score, float32[size(data)], in their order."""
    size = program.size(data)
    batch_size = min(1000, rung(size))
    visits = np.minimum(np.arange(-(-size // batch_size) * batch_size), size - 1)
    room = capacity(program.costs(data) if program.costs else None, visits, batch_size)
    run = step.make_scores(program, rung(size), batch_size, room)
    return np.asarray(run(params, data, jnp.int32(size)))[:size]


class Trainer:
    """One training: what is fixed (program, data, compiled loops) and what moves (state, stand, best)."""

    def __init__(
        self, program: step.Program, params: Any, data: Any, recipe: Recipe, key: jax.Array, mesh: Mesh | None
    ):
        if recipe.batch_size % devices.lanes(mesh):
            advice = f"make it a multiple of {devices.lanes(mesh)}"
            raise UserError(
                f"{recipe.batch_size} examples do not divide among the devices", "--batch-size", advice
            )
        self.program, self.recipe, self.mesh = program, recipe, mesh
        self.order_key, self.step_key = jax.random.split(key)
        self.data = devices.replicate(data, mesh)
        self.size = program.size(data)
        self.events = program.events(data) if program.events else self.size
        self.factor = 2.0 if program.halved else 1.0  # from losses to scores
        self.steps = -(-self.size // recipe.batch_size)
        self.transform = transform(recipe)
        self.names = type(params)._fields
        self.rate = per_parameter(self.names, recipe.rate, "--rate")
        self.decay = per_parameter(self.names, recipe.decay, "--decay")
        shrinking = 1.0 if program.decay == "every-step" else 0.0
        if shrinking * max(r * d for r, d in zip(self.rate, self.decay, strict=True)) > step.LARGEST_DECAY:
            advice = f"keep it under {step.LARGEST_DECAY} a step"
            raise UserError("the rate times the decay is too large", "--rate, --decay", advice)
        if program.visit and recipe.optimizer != "sgd":
            raise UserError(f"{recipe.optimizer} cannot train this model", "--optimizer", "use sgd")
        # visits need no room
        self.costs = program.costs(data) if program.costs and not program.visit else None
        self.params_type = type(params)
        self.state = devices.replicate(step.start(params, program, self.transform, data), mesh)
        self.best = params
        self.stand = Stand()
        self.runs: dict[Room, Callable[..., step.State]] = {}
        self.fold = jax.jit(step.fold, donate_argnums=0)
        self.compile_seconds = 0.0

    def rates(self) -> step.Rates:
        """This phase's traced rates."""
        factor = (1.0, *self.recipe.drops)[self.stand.phase]
        like = self.params_type._make
        return step.Rates(
            rate=like([jnp.float32(factor * r) for r in self.rate]),
            decay=like([jnp.float32(d) for d in self.decay]),
            anneal=jnp.bool_(self.recipe.anneal),
            total=jnp.float32(self.steps * self.recipe.epochs),
        )

    def epoch_run(self) -> Callable[[int, int], None]:
        """The compiled loop of the epoch under way, as a function of its first and last step."""
        key = jax.random.fold_in(self.order_key, self.stand.epoch)
        order, lanes = permutation(key, self.size), devices.lanes(self.mesh)
        laid = plan(self.costs, np.asarray(order), self.recipe.batch_size, lanes, jax.random.fold_in(key, 1))
        for _, _, room in laid.stretches:
            if room not in self.runs:
                self.runs[room] = step.make_run(
                    self.program, self.transform, self.recipe.batch_size, room,
                    self.recipe.reduction == "mean", self.mesh,
                )  # fmt: skip
        # in room for a few more: a program serves data sets of nearly the same size
        visits = np.zeros(rung(self.steps) * self.recipe.batch_size, np.int32)
        visits[: len(laid.visits)] = laid.visits
        fixed = devices.replicate(
            (jnp.asarray(visits), self.rates(), self.step_key, np.int32(self.size)), self.mesh
        )

        def run(begin: int, end: int) -> None:
            for first, last, room in laid.stretches:
                bounds = np.int32(max(begin, first)), np.int32(min(end, last))
                # an empty run of all steps compiles every program
                if bounds[0] < bounds[1] or begin == end:
                    self.state = self.runs[room](self.state, self.data, *fixed, *bounds)
            jax.block_until_ready(self.state.step)

        before = time.perf_counter()
        run(0, 0)  # compiles, or finds it compiled
        self.compile_seconds += time.perf_counter() - before
        return run

    def arrays(self) -> dict[str, Any]:
        """All arrays that a checkpoint holds: scratch tables are zeros between steps."""
        state = _map_scratch(lambda scratch: None, self.state)
        return {"state": devices.one_copy(state), "best": self.best}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the arrays of a checkpoint."""
        scratch = iter([w.scratch for w in self.state.weights])
        state = _map_scratch(lambda _: next(scratch), arrays["state"])
        self.state, self.best = devices.replicate(state, self.mesh), arrays["best"]


def _map_scratch(function: Callable[[Any], Any], state: step.State) -> step.State:
    weights = [w._replace(scratch=function(w.scratch)) for w in state.weights]
    return state._replace(weights=type(state.weights)._make(weights))


def fit(
    program: step.Program,
    params: Any,
    data: Any,
    valid: Any,
    *,
    recipe: Recipe,
    key: jax.Array,
    directory: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
    max_minutes: float | None = None,
    checkpoint_minutes: float = 5.0,
    title: str = "training",
    unit: str = "words",
    show: bool = False,
) -> Fitted:
    """Train from `params` on `data`, keeping the parameters that score best on `valid`.

    directory: where checkpoints and the journal go (None: nowhere); identity: what must be equal for a resume
    (configuration, recipe, data); resume: go on from the newest intact checkpoint, from the start if there is
    none. Rates drop, and training ends, when the validation score has not improved for `patience` epochs; with
    `anneal` training runs its epochs out.

    Of several processes, which must all call this with the same, only process 0 saves checkpoints; each has a
    directory of its own, as `processes.folder` gives it.

    Raises UserError for a checkpoint of another configuration, for a full disk, and for a loss that is not
    finite (with the step and the last good checkpoint); Interrupted after Ctrl-C, with the state saved.
    """
    known = {"recipe": asdict(recipe), **(identity or {})}
    processes.require_same({**known, "number of devices": devices.lanes(mesh)})
    trainer = Trainer(program, params, data, recipe, key, mesh)
    log = journal.Journal(directory) if directory else None
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        _resume(trainer, directory, known, resume)
        journal.Journal(directory).cut(trainer.stand.journal)
    bar = journal.Bar(title, unit, recipe.epochs, show and processes.leads())
    began = saved = time.monotonic()
    train_seconds, events, stopped = 0.0, 0, "done"
    history = log.lines() if log else []

    def save() -> None:
        nonlocal saved
        if directory and log:
            trainer.stand = trainer.stand._replace(journal=log.size())
            checkpoint.save(
                directory, trainer.arrays(), {"stand": trainer.stand._asdict(), "identity": known}
            )
            saved = time.monotonic()

    def out_of_time() -> bool:
        return processes.agreed(max_minutes is not None and time.monotonic() - began > 60 * max_minutes)

    with _interrupts() as interrupted:
        try:
            while not trainer.stand.done and not out_of_time():
                run, chunk = trainer.epoch_run(), 1
                epoch_seconds, epoch_steps = 0.0, 0
                while trainer.stand.at < trainer.steps:
                    end = processes.agreed(min(trainer.steps, trainer.stand.at + chunk))
                    before = time.perf_counter()
                    run(trainer.stand.at, end)
                    seconds = time.perf_counter() - before
                    epoch_seconds, epoch_steps = epoch_seconds + seconds, epoch_steps + end - trainer.stand.at
                    chunk = max(
                        1, int((end - trainer.stand.at) * min(8.0, CHUNK_SECONDS / max(seconds, 1e-6)))
                    )
                    trainer.stand = trainer.stand._replace(at=end)
                    _check_finite(trainer, directory)
                    done = trainer.stand.epoch + end / trainer.steps
                    seen = trainer.events * min(end / trainer.steps, 1.0)
                    speed = trainer.events * epoch_steps / trainer.steps / epoch_seconds
                    bar.update(done, trainer.factor * float(trainer.state.loss) / seen, speed)
                    if interrupted():
                        save()
                        raise Interrupted
                    if end < trainer.steps and time.monotonic() - saved > 60 * checkpoint_minutes:
                        save()
                    if out_of_time():
                        break
                train_seconds += epoch_seconds
                events += round(trainer.events * epoch_steps / trainer.steps)
                if trainer.stand.at < trainer.steps:
                    break
                before = time.perf_counter()
                line = _end_epoch(trainer, valid, directory)
                history.append(line)
                name, show_score = program.metric
                bar.line(
                    f"epoch {line['epoch'] + 1}, {name} {show_score(line['train']):.2f} on training, "
                    f"{show_score(line['valid']):.2f} on validation, rate {line['rate']:g}"
                )
                if log:
                    log.write(**line)
                    log.time(
                        epoch=line["epoch"],
                        steps=epoch_steps,  # of this run: fewer than the epoch's after a resume
                        train_seconds=epoch_seconds,
                        examples_per_second=trainer.events
                        * epoch_steps
                        / trainer.steps
                        / max(epoch_seconds, 1e-9),
                        pause_seconds=time.perf_counter() - before,
                        compile_seconds=trainer.compile_seconds,
                    )
                save()
                if interrupted():
                    raise Interrupted
            if not trainer.stand.done:
                stopped = "max-minutes"
                save()
            best = (
                trainer.best
                if trainer.stand.best_epoch >= 0
                else step.current(devices.one_copy(trainer.state))
            )
        finally:
            bar.close()
    return Fitted(best, trainer.stand.best, history, stopped, trainer.compile_seconds, train_seconds, events)


def _end_epoch(trainer: Trainer, valid: Any, directory: Path | None) -> dict[str, Any]:
    """Fold scales, validate, keep the best, decide about rates and the end; returns the journal's line."""
    stand, recipe = trainer.stand, trainer.recipe
    train = trainer.factor * float(trainer.state.loss) / trainer.events
    trainer.state = trainer.fold(trainer.state)
    params = step.current(devices.one_copy(trainer.state))
    values = scores(trainer.program, params, valid)
    events = trainer.program.events(valid) if trainer.program.events else len(values)
    score = processes.agreed(float(np.sum(values, dtype=np.float64) / events))
    if not np.isfinite(score):  # what the last step did, no loss has seen yet
        _stop(f"the validation score is not finite after step {int(trainer.state.step) - 1}", directory)
    rate = (1.0, *recipe.drops)[stand.phase] * trainer.rate[0]
    line = {
        "epoch": stand.epoch,
        "step": int(trainer.state.step),
        "train": train,
        "valid": score,
        "rate": rate,
    }

    improved = score < stand.best
    if improved:
        trainer.best = params
        stand = stand._replace(best=score, best_epoch=stand.epoch)
    waited = 0 if improved else stand.waited + 1
    stand = stand._replace(epoch=stand.epoch + 1, at=0, waited=waited)
    if not recipe.anneal and waited >= recipe.patience:
        if stand.phase < len(recipe.drops):
            stand = stand._replace(phase=stand.phase + 1, waited=0)
        else:
            stand = stand._replace(done=True)
    trainer.stand = stand._replace(done=stand.done or stand.epoch >= recipe.epochs)
    return line


def _check_finite(trainer: Trainer, directory: Path | None) -> None:
    bad = int(trainer.state.bad_step)
    if bad < 0:
        return
    _stop(f"the loss is not finite at step {bad}", directory)


def _stop(what: str, directory: Path | None) -> NoReturn:
    good = checkpoint.latest(directory) if directory else None
    last = f"the last good checkpoint is {good}" if good else "there is no checkpoint yet"
    raise UserError(f"{what}; {last}", "training", "train with a lower --rate")


def _resume(trainer: Trainer, directory: Path, identity: dict[str, Any], resume: bool) -> None:
    """Set state, stand and best from the newest intact checkpoint, which process 0 has saved."""
    processes.share(directory)
    found = checkpoint.latest(directory)
    if found is None:
        return
    if not resume:
        raise UserError(
            "a training is there already", directory, "add --resume to go on with it, or choose another --out"
        )
    stored = checkpoint.state(found)
    checkpoint.require_same(stored["identity"], identity, found)
    trainer.restore(checkpoint.arrays(found, trainer.arrays()))
    trainer.stand = Stand(**stored["stand"])
    checkpoint.drop_after(found)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C, on any process, into a flag that is read between chunks; a second one stops at once."""
    pressed = False

    def press(signum: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread: Ctrl-C is not ours to handle
        yield lambda: processes.anywhere(False)
        return
    try:
        yield lambda: processes.anywhere(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
