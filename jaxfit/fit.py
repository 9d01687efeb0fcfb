"""Training from the first step to the best parameters: epochs, validation, rate drops, checkpoints, stop rules.

The compiled loop (`jaxfit.loop`) is called in chunks of about two seconds. Between chunks, progress is shown, the loss
is checked to be finite, Ctrl-C, SIGTERM and SIGHUP are obeyed and checkpoints are saved; signals are obeyed during
validation, too. What determines the result (rates, drops, the best parameters so far) depends on losses and validation
scores alone, never on a clock, so that a resumed training equals an uninterrupted one, on a CPU bit for bit. Of several
processes, process 0's clock decides.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from jax.sharding import Mesh

from jaxfit import state
from jaxfit.devices import distributed as processes
from jaxfit.devices import sharding, split_tables
from jaxfit.devices.precision import full_precision
from jaxfit.errors import Diverged, Interrupted, UserError
from jaxfit.minibatches.bucketing import LAYOUT, ORDER, capacity_step
from jaxfit.process import compiled, signals
from jaxfit.program import Program
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, journal, manifest, metadata
from jaxfit.scoring import make_scores
from jaxfit.stopping import Progress, after_epoch, go_on, is_best
from jaxfit.trainer import Trainer, why_epochs_are_fixed
from jaxfit.validation import Validation, next_chunk, scored_at_once

CHUNK_SECONDS = 2.0
SAVING_SHARE = 0.05  # of the time, at most, goes into saving the best epochs and the last


class Fitted(NamedTuple):
    """The result of a training and how it went.

    Attributes:
        params: of the best epoch by validation, or of the last, as `Program.result` says.
        score: their validation score, the mean of `Program.score` over events.
        history: one dict for each epoch, as in `journal.jsonl`, which may have lost some.
        epochs: that were trained, from the first step on.
        stopped: "done" or "max-minutes".
        compile_seconds, train_seconds, events: of this run, without validation; events as `Program.events` counts.
    """

    params: Any
    score: float
    history: list[dict[str, Any]]
    epochs: int
    stopped: str
    compile_seconds: float
    train_seconds: float
    events: int


@full_precision()
def scores(program: Program, params: Any, data: Any) -> np.ndarray:
    """Score every example: float32[size(data)]; a sequential program's as a single stream."""
    size = program.size(data)
    if not size:
        return np.zeros(0, np.float32)
    batch_size, entries = scored_at_once(program, data, streams=1)
    run = make_scores(program, capacity_step(size), batch_size, entries)
    return np.asarray(run(params, data, np.int32(size)))[:size]


@full_precision()
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
    stream: bool = False,
    max_minutes: float | None = None,
    checkpoint_minutes: float = 5.0,
    title: str = "training",
    unit: str = "examples",
    show: bool = False,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Fitted:
    """Train from `params` on `data`, and return the parameters that score best on `valid`, or the last ones.

    Several processes must all call this with the same arguments, except that each has a directory of its own
    (`processes.folder`); only process 0 saves checkpoints.

    Args:
        program: the model; its `result` says which parameters are returned.
        params: initial parameters.
        data: training data.
        valid: validation data.
        recipe: how the model is trained; `stopping.after_epoch` says when rates drop and training ends.
        key: of all random draws.
        directory: where checkpoints and the journal are written; None: nowhere.
        identity: what must be equal for a resume, in addition to the recipe (configuration, data).
        resume: continue from the newest intact checkpoint, or start if there is none.
        mesh: devices; None for one.
        stream: whether data stay in the host's memory (`jaxfit.minibatches.streaming`).
        max_minutes: stop after this time; None: never.
        checkpoint_minutes: time between checkpoints. There are more at best epochs and at the end, unless they would
            take more than a twentieth of the time.
        title: name of the training, in progress messages.
        unit: of events, in progress messages.
        show: whether progress is shown on standard error.
        on_epoch: called after each epoch of this run, once it is saved if it is, with the journal's line.

    Raises:
        UserError: the checkpoint is of another configuration, or the disk is full.
        Diverged: the loss, its mean over an epoch, the validation score or a parameter is not finite.
        Interrupted: after Ctrl-C, SIGTERM or SIGHUP, with the state saved.
    """
    known: dict[str, Any] = {"recipe": asdict(recipe), "group_size": program.group_size}
    known |= {"sections": program.sections} if program.sections > 1 else {}
    known |= {"epochs laid out": LAYOUT if program.ragged else ORDER, **(identity or {})}
    where = {"data in the host's memory (--stream)": stream, **sharding.described(mesh)}
    processes.require_same({**known, **where, **split_tables.described(params, mesh)})
    compiled.bound_programs(
        (program, recipe.optimizer, recipe.batch_size, recipe.reduction, mesh), (params, data, valid)
    )
    trainer = Trainer(program, params, data, recipe, key, mesh, stream)
    validation = Validation(program, valid, mesh, trainer.layout, stream)
    log = journal.Journal(directory) if directory else None
    if directory and log:
        directory.mkdir(parents=True, exist_ok=True)
        listed = _resume(trainer, directory, known, resume)
        log.go_on(trainer.progress.journal, listed)
    bar = journal.Bar(title, unit, recipe.epochs, show and processes.leads())
    began = saved = time.monotonic()
    saving = 0.5  # seconds for the last checkpoint; before the first, what a small one takes
    start = warm = time.perf_counter()
    first = trainer.progress.epoch
    train_seconds, events, stopped = 0.0, 0, "done"
    chunk = 1  # steps
    history = log.lines() if log else []

    def save() -> None:
        nonlocal saved, saving
        if directory and log:
            before = time.monotonic()
            trainer.progress = trainer.progress._replace(journal=log.size())
            progress = trainer.progress._asdict()
            stored = {"progress": progress, "identity": known, "journal": manifest.of_journal(directory)}
            checkpoint.save(directory, trainer.arrays(), stored)
            saved = time.monotonic()
            saving = saved - before

    def is_due() -> bool:
        return time.monotonic() - saved > 60 * checkpoint_minutes

    def is_cheap() -> bool:
        return time.monotonic() - saved > saving / SAVING_SHARE

    def out_of_time() -> bool:
        return processes.agreed(max_minutes is not None and time.monotonic() - began > 60 * max_minutes)

    with signals.noticed() as received, closing(bar), trainer.planner:
        while not trainer.progress.done and not out_of_time():
            run = trainer.epoch_run()
            trainer.plan_ahead()
            epoch_seconds, epoch_steps, epoch_events = 0.0, 0, 0.0
            while trainer.progress.at < trainer.steps:
                end = processes.agreed(min(trainer.steps, trainer.progress.at + chunk))
                steps, before = end - trainer.progress.at, time.perf_counter()
                run(trainer.progress.at, end)
                seconds = time.perf_counter() - before
                epoch_seconds, epoch_steps = epoch_seconds + seconds, epoch_steps + steps
                chunk = next_chunk(chunk, steps, seconds, CHUNK_SECONDS)
                trainer.progress = trainer.progress._replace(at=end)
                _check_finite(trainer, directory)
                done = trainer.progress.epoch + end / trainer.steps
                epoch_events = trainer.events * epoch_steps / trainer.steps
                bar.update(done, trainer.read_means(), epoch_events / epoch_seconds)
                if stop := processes.highest(received()):
                    save()
                    raise Interrupted(stop)
                if end < trainer.steps and processes.agreed(is_due()):
                    save()
                if out_of_time():
                    break
            train_seconds += epoch_seconds
            events += round(epoch_events)
            if trainer.progress.at < trainer.steps:
                break
            before = time.perf_counter()
            line = _end_epoch(trainer, validation, directory, lambda: processes.highest(received()))
            if line is None:
                save()
                raise Interrupted(processes.highest(received()))
            history.append(line)
            now, epochs = time.perf_counter(), trainer.progress.epoch - first
            warm = now if epochs == 1 else warm  # validation, too, is compiled in the first epoch
            of_one = (now - warm) / (epochs - 1) if epochs > 1 else now - start - trainer.compile_seconds
            elapsed, left = now - start, of_one * (recipe.epochs - trainer.progress.epoch)
            bar.line(_described(line, program, recipe), elapsed, left, at_most=not recipe.anneal)
            if log:
                log.write(**line)
                log.time(
                    epoch=line["epoch"],
                    steps=epoch_steps,  # of this run: after a resume, fewer than the epoch has
                    train_seconds=epoch_seconds,
                    examples_per_second=epoch_events / max(epoch_seconds, 1e-9),
                    pause_seconds=time.perf_counter() - before,
                    compile_seconds=trainer.compile_seconds,
                )
            progress, stop = trainer.progress, processes.highest(received())
            # a checkpoint of the last epoch serves training with more epochs; one of an early end is removed
            extensible = progress.epoch == recipe.epochs and why_epochs_are_fixed(program, recipe) is None
            worth = is_due() or extensible or ((progress.done or is_best(progress)) and is_cheap())
            if written := processes.agreed(bool(stop or worth)):  # it gathers what is split
                save()
            if on_epoch is not None:
                on_epoch(deepcopy(line))
            if stop := stop or processes.highest(received()):  # also while it was saved
                if not written:
                    save()
                raise Interrupted(stop)
        if not trainer.progress.done:
            stopped = "max-minutes"
            save()
            if stop := processes.highest(received()):
                raise Interrupted(stop)
        best = trainer.best if trainer.progress.best_epoch >= 0 else trainer.whole(state.current(trainer.state))
    times = trainer.compile_seconds, train_seconds
    return Fitted(best, trainer.progress.best, history, trainer.progress.epoch, stopped, *times, events)


def _end_epoch(
    trainer: Trainer, validation: Validation, directory: Path | None, stopped: Callable[[], int]
) -> dict[str, Any] | None:
    """Rescale, validate, update the best parameters and the progress; return the journal's line.

    None if a signal stopped validation: the state is then that after the epoch's last step, and a resumed training
    validates again.
    """
    progress, recipe, program = trainer.progress, trainer.recipe, trainer.program
    metrics = jax.device_get(trainer.state.metrics)
    means = state.means(metrics)
    trainer.state, params = state.between_epochs(trainer.state)
    score = processes.agreed(validation.mean(params, stopped))
    if score is None:
        trainer.state = trainer.state._replace(metrics=sharding.replicate(metrics, trainer.mesh))
        return None
    after = f"not finite after step {int(trainer.state.step) - 1}"
    # no loss has been computed since the last step; of a finite score, a perplexity can overflow
    if not np.isfinite([score, shown := float(program.metric.read(score))]).all():
        _stop(f"the validation score is {after}", directory)
    if not np.isfinite(list(means.values())).all():  # of finite losses, the sum can overflow
        _stop(f"the mean of the training loss is {after}", directory)
    first, *others = (metric.name for metric in program.loss_metrics)
    line: dict[str, Any] = {
        "epoch": progress.epoch,
        "step": int(trainer.state.step),
        "train": means[first],
        **{f"train {name}": means[name] for name in others},
        "valid": score,
        "rate": trainer.last_rate(),
        "shown": {},
    }
    for metric in program.loss_metrics:
        name = f"train {metric.name}" if metric.name in others else "train"
        line["shown"][f"training {metric.name}"] = float(metric.read(line[name]))
    line["shown"][f"validation {program.metric.name}"] = shown
    trainer.progress = after_epoch(progress, score, recipe, program.result)
    if is_best(trainer.progress):
        trainer.best = trainer.whole(params)
        if not all(_finite(array) for array in jax.tree.leaves(trainer.best)):  # validation need not see every row
            _stop(f"some parameters are {after}", directory)
    return line


def _described(line: dict[str, Any], program: Program, recipe: Recipe) -> str:
    """Return the line that is printed after an epoch."""
    first, *others = program.loss_metrics
    training = [first.show(line["train"]), *(metric.show(line[f"train {metric.name}"]) for metric in others)]
    return (
        f"epoch {line['epoch'] + 1} of {recipe.epochs}, {', '.join(training)} on training, "
        f"{program.metric.show(line['valid'])} on validation, rate {line['rate']:.3g}"
    )


def _finite(array: jax.Array) -> bool:
    """Return whether all numbers of an array are finite: its minimum and maximum are NaN if any of them is."""
    values = np.asarray(array)
    return values.size == 0 or bool(np.isfinite([values.min(), values.max()]).all())


def _check_finite(trainer: Trainer, directory: Path | None) -> None:
    bad = int(trainer.state.bad_step)
    if bad >= 0:
        _stop(f"the loss is not finite at step {bad}", directory)


def _stop(what: str, directory: Path | None) -> NoReturn:
    good = checkpoint.latest(directory) if directory else None
    last = f"the last good checkpoint is {good}" if good else "there is no checkpoint yet"
    raise Diverged(f"{what}; {last}", "training", "begin anew with a lower --rate")


def _resume(trainer: Trainer, directory: Path, identity: dict[str, Any], resume: bool) -> dict[str, Any] | None:
    """Restore a training from the newest intact checkpoint, which process 0 has saved; return `of_journal` there."""
    processes.share(directory)
    if checkpoint.every(directory) and not resume:
        advice = "add --resume to go on with it, or choose another --out"
        raise UserError("a training is there already", directory, advice)
    found = checkpoint.latest(directory)
    if found is None:
        if checkpoint.every(directory):
            warnings.warn(f"no checkpoint in {directory} is whole: training begins anew", stacklevel=2)
        return None
    stored = checkpoint.state(found)
    best = stored["progress"]["best"]
    progress = Progress(**{**stored["progress"], "best": float("inf") if best is None else best})
    before = stored["identity"]
    fixed = why_epochs_are_fixed(trainer.program, trainer.recipe)
    checkpoint.require_same(before, metadata.with_epochs_of(before, identity, progress.epoch, fixed, directory), found)
    trainer.restore(checkpoint.arrays(found, trainer.like()))
    trainer.progress = go_on(progress, trainer.recipe)
    checkpoint.drop_after(found)
    return stored.get("journal")
