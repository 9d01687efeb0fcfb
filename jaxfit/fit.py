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
from jaxfit import loop as step
from jaxfit import sharding as devices
from jaxfit.bucketing import LAYOUT, capacity, rung
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, journal
from jaxfit.trainer import Stand, Trainer

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


def scores(program: step.Program, params: Any, data: Any) -> np.ndarray:
    """Every example's score, float32[size(data)], in their order."""
    size = program.size(data)
    batch_size = min(1000, rung(size))
    visits = np.minimum(np.arange(-(-size // batch_size) * batch_size), size - 1)
    room = capacity(program.costs(data) if program.costs else None, visits, batch_size)
    run = step.make_scores(program, rung(size), batch_size, room)
    return np.asarray(run(params, data, jnp.int32(size)))[:size]


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
    known = {
        "recipe": asdict(recipe),
        "together": program.together,
        "epochs laid out": LAYOUT,
        **(identity or {}),
    }
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
    chunk = 1  # steps
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
                run = trainer.epoch_run()
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
    trainer.state = step.fold(trainer.state)
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
    best = stored["stand"]["best"]
    trainer.stand = Stand(**{**stored["stand"], "best": float("inf") if best is None else best})
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
