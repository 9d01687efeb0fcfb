"""Training from the first step to the best parameters: epochs, validation, rate drops, checkpoints, stop rules.

The compiled loop (`jaxfit.loop`) is called in chunks of about two seconds. All that concerns a person or a clock
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

from jaxfit import distributed as processes
from jaxfit import sharding, state, stopping
from jaxfit.bucketing import LAYOUT, capacity, capacity_step
from jaxfit.errors import UserError
from jaxfit.loop import make_scores
from jaxfit.program import Program
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, journal
from jaxfit.state import Progress
from jaxfit.trainer import Trainer, Validation, visits_in_order

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


def scores(program: Program, params: Any, data: Any) -> np.ndarray:
    """Every example's score, float32[size(data)], in their order; sequential ones as a single stream."""
    size = program.size(data)
    batch_size = 1 if program.sequential else min(1000, capacity_step(size))
    costs = program.ragged.costs(data) if program.ragged else None
    room = capacity(costs, visits_in_order(size, batch_size), batch_size)
    run = make_scores(program, capacity_step(size), batch_size, room)
    return np.asarray(run(params, data, jnp.int32(size)))[:size]


def fit(
    program: Program,
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
    known = {
        "recipe": asdict(recipe),
        "group_size": program.group_size,
        "epochs laid out": LAYOUT,
        **(identity or {}),
    }
    processes.require_same({**known, "number of devices": sharding.shards(mesh)})
    trainer = Trainer(program, params, data, recipe, key, mesh)
    validation = Validation(program, valid, mesh)
    log = journal.Journal(directory) if directory else None
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        _resume(trainer, directory, known, resume)
        journal.Journal(directory).cut(trainer.progress.journal)
    bar = journal.Bar(title, unit, recipe.epochs, show and processes.leads())
    began = saved = time.monotonic()
    train_seconds, events, stopped = 0.0, 0, "done"
    chunk = 1  # steps
    history = log.lines() if log else []

    def save() -> None:
        nonlocal saved
        if directory and log:
            trainer.progress = trainer.progress._replace(journal=log.size())
            checkpoint.save(
                directory, trainer.arrays(), {"progress": trainer.progress._asdict(), "identity": known}
            )
            saved = time.monotonic()

    def is_due() -> bool:
        return time.monotonic() - saved > 60 * checkpoint_minutes

    def out_of_time() -> bool:
        return processes.agreed(max_minutes is not None and time.monotonic() - began > 60 * max_minutes)

    with _interrupts() as interrupted:
        try:
            while not trainer.progress.done and not out_of_time():
                run = trainer.epoch_run()
                epoch_seconds, epoch_steps = 0.0, 0
                while trainer.progress.at < trainer.steps:
                    end = processes.agreed(min(trainer.steps, trainer.progress.at + chunk))
                    before = time.perf_counter()
                    run(trainer.progress.at, end)
                    seconds = time.perf_counter() - before
                    epoch_seconds, epoch_steps = (
                        epoch_seconds + seconds,
                        epoch_steps + end - trainer.progress.at,
                    )
                    chunk = max(
                        1, int((end - trainer.progress.at) * min(8.0, CHUNK_SECONDS / max(seconds, 1e-6)))
                    )
                    trainer.progress = trainer.progress._replace(at=end)
                    _check_finite(trainer, directory)
                    done = trainer.progress.epoch + end / trainer.steps
                    speed = trainer.events * epoch_steps / trainer.steps / epoch_seconds
                    bar.update(done, trainer.read_means(), speed)
                    if interrupted():
                        save()
                        raise Interrupted
                    if end < trainer.steps and is_due():
                        save()
                    if out_of_time():
                        break
                train_seconds += epoch_seconds
                events += round(trainer.events * epoch_steps / trainer.steps)
                if trainer.progress.at < trainer.steps:
                    break
                before = time.perf_counter()
                line = _end_epoch(trainer, validation, directory)
                history.append(line)
                bar.line(_described(line, program))
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
                progress, stop = trainer.progress, interrupted()
                if stop or progress.done or stopping.is_best(progress) or is_due():
                    save()
                if stop:
                    raise Interrupted
            if not trainer.progress.done:
                stopped = "max-minutes"
                save()
            best = trainer.best if trainer.progress.best_epoch >= 0 else state.current(trainer.one_copy())
        finally:
            bar.close()
    return Fitted(
        best, trainer.progress.best, history, stopped, trainer.compile_seconds, train_seconds, events
    )


def _end_epoch(trainer: Trainer, validation: Validation, directory: Path | None) -> dict[str, Any]:
    """Rescale, validate, keep the best parameters, decide about rates and the end; returns the journal's line."""
    progress, recipe, program = trainer.progress, trainer.recipe, trainer.program
    means = state.means(trainer.state)
    trainer.state = state.between_epochs(trainer.state)
    score = processes.agreed(validation.mean(state.current(trainer.state)))
    if not np.isfinite(score):  # what the last step did, no loss has seen yet
        _stop(f"the validation score is not finite after step {int(trainer.state.step) - 1}", directory)
    first, *others = (metric.name for metric in program.training_metrics)
    line = {
        "epoch": progress.epoch,
        "step": int(trainer.state.step),
        "train": means[first],
        **{f"train {name}": means[name] for name in others},
        "valid": score,
        "rate": (1.0, *recipe.drops)[progress.phase] * trainer.rate[0],
    }
    trainer.progress = stopping.after_epoch(progress, score, recipe)
    if stopping.is_best(trainer.progress):
        trainer.best = state.current(trainer.one_copy())
    return line


def _described(line: dict[str, Any], program: Program) -> str:
    """An epoch's line for people, each metric by its own name."""
    first, *others = program.training_metrics
    training = [(first, line["train"]), *((metric, line[f"train {metric.name}"]) for metric in others)]
    said = ", ".join(f"{metric.name} {metric.read(value):.2f}" for metric, value in training)
    metric = program.metric
    return (
        f"epoch {line['epoch'] + 1}, {said} on training, {metric.name} {metric.read(line['valid']):.2f} on "
        f"validation, rate {line['rate']:g}"
    )


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
    """Set state, progress and best from the newest intact checkpoint, which process 0 has saved."""
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
    best = stored["progress"]["best"]
    trainer.progress = Progress(**{**stored["progress"], "best": float("inf") if best is None else best})
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
