"""From a program and its data to a folder with a trained model: what training any model has in common.

The folder has `config.json`, the finished `parameters/`, the `manifest.json` of both, what training writes for itself
(`checkpoint-*`, `journal.jsonl`, `timing.jsonl`) and what else the model needs to be used, which its package writes.
At any moment the manifest either lists the files that are there, or is missing.
"""

import warnings
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.checks import check, check_size, check_validation
from jaxfit.devices import distributed as processes
from jaxfit.devices import sharding
from jaxfit.devices.platform import on_host
from jaxfit.errors import Diverged, Interrupted
from jaxfit.fit import fit
from jaxfit.process import signals
from jaxfit.program import Program
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, metadata
from jaxfit.run_dir.atomic import remove_leftovers
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.provenance import environment
from jaxfit.run_dir.run import AnyModel, Run, Trained
from jaxfit.trainer import why_epochs_are_fixed


def train(
    directory: Path,
    identity: dict[str, Any],
    program: Program,
    params: Any,
    data: Callable[[], tuple[Any, Any]],
    *,
    recipe: Recipe,
    key: jax.Array,
    run: Run,
    unit: str,
    files: Collection[str],
    before: Callable[[], None],
    model: Callable[[Any, dict[str, Any]], AnyModel],
) -> Trained[AnyModel]:
    """Train a model in its folder, from the start or from where an earlier run stopped.

    Args:
        directory: the model's folder.
        identity: what determines the result apart from the recipe, including "model", the model's name.
        program: the model as the engine takes it.
        params: initial parameters.
        data: returns training and validation data; not called where the training is found finished.
        recipe: how the model is trained.
        key: of all random draws of the training.
        run: devices, time limits, whether to resume.
        unit: of events, as in "words".
        files: names of the files that the models of the package write in addition to those of the engine.
        before: writes those that the model has.
        model: (params, info) -> the trained model; info: as `config.json` holds it.

    Raises:
        UserError: Another training is in the folder, or this one and `run.resume` is not set, or another process is
            training there now, or it is to go on for more epochs and no checkpoint is left.
        Interrupted: After Ctrl-C, SIGTERM or SIGHUP, with all saved.
    """
    mesh, fixed = sharding.make(run.devices, run.row_shards), why_epochs_are_fixed(program, recipe)
    check(program, recipe, mesh, run.stream)
    with locked(directory):
        info = {
            "format": metadata.FORMAT,
            **identity,
            "recipe": asdict(recipe),
            "finished": False,
            "environment": environment(),
        }
        # before anything is written
        processes.require_same({**identity, "recipe": asdict(recipe), **sharding.described(mesh)})
        earlier = metadata.earlier(directory, {**identity, "recipe": asdict(recipe)}, files, run.resume, fixed)
        found = earlier.info
        if earlier.warning is not None:
            warnings.warn(earlier.warning, stacklevel=2)

        def laid_out() -> tuple[Any, Any]:
            with on_host(run.stream):
                return data()

        begun = laid_out() if found is None else None
        if begun is not None:  # before anything is written
            check_size(program, recipe, params, program.size(begun[0]))
            check_validation(program, begun[1])
        if not earlier.whole:
            before()
            metadata.write_info(directory, found or info, files)
        if found is not None and found["finished"] and not metadata.more_epochs(directory, found, recipe):
            _tidy(directory, found, fixed)
            return Trained(model(checkpoint.load_model(directory / metadata.PARAMETERS, params), found), None, {})
        try:
            fitted = fit(
                program, params, *(begun or laid_out()), recipe=recipe, key=key, directory=directory, identity=identity,
                resume=run.resume, mesh=mesh, stream=run.stream, max_minutes=run.max_minutes,
                checkpoint_minutes=run.checkpoint_minutes, title=identity["model"], unit=unit, show=run.show,
                on_epoch=run.on_epoch,
            )  # fmt: skip
        except Diverged as error:
            if found is None or not found["finished"]:  # else the model of fewer epochs stays
                metadata.write_info(directory, info | {"diverged": error.what}, files)
            raise
        info |= {
            "finished": fitted.stopped == "done",
            f"validation {program.metric.name}": float(program.metric.read(fitted.score))
            if np.isfinite(fitted.score)
            else None,
            "epochs": fitted.epochs,
        }
        with signals.noticed() as received:  # what is trained is not lost to a Ctrl-C while it is written
            checkpoint.write(
                directory / metadata.PARAMETERS, fitted.params, {"score": fitted.score, "info": info},
                ready=lambda: metadata.begin_changes(directory),
            )  # fmt: skip
            metadata.write_info(directory, info, files)
            if info["finished"]:
                _tidy(directory, info, fixed)
        if stop := processes.highest(received()):
            raise Interrupted(stop)
        seconds = {"compile": fitted.compile_seconds, "train": fitted.train_seconds}
        with on_host(run.row_shards > 1):  # tables that were split are NumPy's, and may be too large for a device
            params = jax.tree.map(jnp.asarray, fitted.params)
        return Trained(model(params, info), fitted, seconds, fitted.stopped)


def _tidy(directory: Path, info: dict[str, Any], fixed: str | None) -> None:
    """Remove the checkpoints of a finished training that no more epochs can follow, and all but one of another.

    Also remove a half-written checkpoint of a killed run: only writing the same one again would have removed it.
    """
    ended_early = info["epochs"] < info["recipe"]["epochs"]
    (metadata.drop_checkpoints if fixed or ended_early else metadata.drop_old_checkpoints)(directory)
    remove_leftovers(directory, "checkpoint-*")
