"""`jaxcf.train`: what the command `jaxcf train` does, in one call, with ratings of files or in memory."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

import jax

from jaxcf import card, training
from jaxcf.contract import FROM_DATA, NO_PAIRS, BySGD, ClosedForm, UsesRatedItems
from jaxcf.data import given, reading, splits, synthetic
from jaxcf.data.reading import Reading
from jaxcf.model_files import FILES
from jaxcf.models import REGISTRY, require
from jaxcf.recommender import Model
from jaxfit.call import folder, of_call, require_on_epoch, warn_stopped
from jaxfit.devices.precision import full_float32
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import stored_in
from jaxfit.plan import fields_of, require_consistent
from jaxfit.python_numbers import as_python
from jaxfit.recipe import Recipe, require_number
from jaxfit.run_dir.run import Run


@full_float32()
def train(
    model: str,
    ratings: given.Table | None = None,
    *,
    valid: given.Table | None = None,
    rated: given.Table | None = None,
    out: str | PathLike[str] | None = None,
    recipe: str = "tuned",
    solver: str | None = None,
    levels: int | None = None,
    seed: int = 1,
    progress: bool = True,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    **options: Any,
) -> Model:
    """Train a recommender and return it.

        model = jaxcf.train("pmf", "ratings.csv", out="runs/pmf", num_features=20)
        model = jaxcf.train("bias", [("anna", "Solaris", 5), ("bert", "Solaris", 3), …])

    Args:
        model: the name of a registered model, as in `jaxcf train MODEL`.
        ratings: a file (its name, or a path) or several; a pandas DataFrame or another table, whose columns are found
            by their names; columns by name; or rows, of (user, item, stars[, time]) or by name. For models of implicit
            data: counts in place of stars, or only pairs. None: ratings drawn from a synthetic model.
        valid: validation ratings, given likewise; None: 5 % of the training ratings, if the model needs any.
        rated: further pairs of user and item, without ratings, for models that use rated items: for example the pairs
            of a test set, as `--condition test` of the command gives.
        out: folder for the model: new or empty, or that of the same training with `resume=True`; None: the model stays
            in memory.
        recipe: "tuned" or "thesis".
        solver: the way of fitting, for models that have several.
        levels: number of levels of the scale to which ratings are rounded, for RBMs.
        seed: of all random draws.
        progress: whether to print notes, and a line for each epoch (on a terminal a bar, in a notebook one line), on
            standard error.
        on_epoch: called after each epoch with its line of `journal.jsonl`, a dict: "epoch", from 0; "valid", the
            validation score, of which lower is better; "shown", what is printed, such as "validation RMSE".
        **options: those of `jaxcf train MODEL --help-all`, with _ for -: of the model (`num_features`), its recipe
            (`epochs`, `rate=0.01` or by parameter `rate={"*": 0.01, "b": 0.1}`), how ratings are read (`columns`,
            `scale`, `duplicates`), and, for models trained by SGD, how they are trained (`resume`, `devices`,
            `max_minutes`).

    Raises:
        UserError: there is no such model or option, or the model cannot be trained with these ratings or options.
            Subclasses: `FolderTaken`, if `out` holds a model already; `Diverged`, if a loss is not finite.
        Interrupted: Ctrl-C was pressed; with `out`, everything is saved.

    Warns:
        UserWarning: the training stopped after `max_minutes`; the model is the best one so far.
    """
    record = REGISTRY.get(model)
    fitting = record.solver(solver)
    options, levels, seed = as_python(options), as_python(levels), as_python(seed)
    options, plan = of_call(
        record, recipe, options, arguments=signature(train).parameters, classes=[Reading],
        skip=(*FROM_DATA, *record.fixed), parameters=partial(training.parameters, record, recipe),
        trained=any(isinstance(each, BySGD) for each in record.fitting), seed=seed, out=out, progress=progress,
    )  # fmt: skip
    used = [name for cls in (Recipe, Run) for name in fields_of(options, cls)]
    training.require_used(record, fitting, plan.recipe, used)
    require_on_epoch(on_epoch, model, not isinstance(fitting, ClosedForm))
    require_consistent(plan.config, record.config)
    config = dict(plan.config)
    if levels is not None:
        if not record.needs_levels:
            raise UserError(f"{model} has no levels", "levels", "leave it out")
        require_number(levels, "levels", int, low=2)
        config["num_values"] = levels
    if rated is not None:
        require(record, UsesRatedItems, "rated=…")
    resumable = isinstance(fitting, BySGD)
    with (
        folder(out, model, plan.run, files=FILES, resumable=resumable) as directory,
        stored_in(None if out is None else directory, reading.LARGE),
        ExitStack() as stack,
    ):

        def files(table: given.Table | None, name: str) -> list[str]:
            return [] if table is None else stack.enter_context(given.as_files(table, name))

        known, pairs, how = files(ratings, "ratings"), NO_PAIRS, fields_of(options, Reading)
        if known:
            counts = record.takes_counts(config.get("positive"))
            data, listed, notes = reading.read_dataset(
                known, files(valid, "valid"), (), files(rated, "rated"), Reading.of(how, counts), counts
            )
            pairs = listed or NO_PAIRS
        elif valid is not None or rated is not None or how:
            raise UserError("the default data has its own validation ratings", "valid, rated, …", "give ratings")
        else:
            data = synthetic.planted(jax.random.key(0))
            notes = [data.note]
        if not isinstance(fitting, ClosedForm) and not len(data.valid.user):
            data = splits.carve(jax.random.fold_in(jax.random.key(seed), training.VALID), data)
            notes = [*notes, "5 % of the training ratings are set aside for validation"]
        for note in notes if progress else ():
            print(f"{model}: {given.hide_temporary_paths(note)}", file=sys.stderr)
        trained = training.train(
            model, data, directory, recipe=plan.recipe, config=config, rated=pairs, seed=seed,
            run=replace(plan.run, on_epoch=on_epoch), solver=solver,
        )  # fmt: skip
        if out is not None:
            card.write(trained, directory, Path(out))
    warn_stopped(trained)
    return trained.model
