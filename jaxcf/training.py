"""From a data set to a folder that holds a trained model: what `jaxcf train` and the benchmarks do.

A model's folder has `config.json`, `parameters/`, `catalogue.npz` (ids and scale), `known.npz` (the training ratings
and rated pairs, which predictions start from) and what training writes. Everything is derived from one seed:
`fold_in(key(seed), …)` with 0 for the initial parameters, 1 for training, 2 for validation ratings that are set aside.
"""

import hashlib
import time
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxcf import model_files
from jaxcf.contract import NO_PAIRS, BySGD, BySweeps, ClosedForm, Fitting, KnownUsers, RatingModel, Sweeps
from jaxcf.data.positives import of_dataset
from jaxcf.data.ratings import Catalogue, Dataset, Pairs, RatingScale, Units
from jaxcf.models import get
from jaxcf.recommender import Model
from jaxcf.solvers import sweeps
from jaxfit.devices import memory
from jaxfit.devices.platform import on_host
from jaxfit.devices.precision import full_float32
from jaxfit.errors import UserError
from jaxfit.plan import fields_of, require_stops
from jaxfit.process import compiled, signals
from jaxfit.recipe import SEED, Recipe, named_arrays, require_number
from jaxfit.run_dir import checkpoint, training
from jaxfit.run_dir import metadata as folder
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.provenance import environment
from jaxfit.run_dir.run import Run, Trained

INIT, TRAIN, VALID = 0, 1, 2  # for `fold_in` of the seed's key; VALID: of what is set aside for validation


@full_float32()
def train(
    name: str,
    data: Dataset,
    directory: Path | str,
    *,
    recipe: Any = "tuned",
    config: Mapping[str, Any] | None = None,
    rated: Pairs = NO_PAIRS,
    seed: int = 1,
    run: Run = Run(),
    solver: str | None = None,
) -> Trained[Model]:
    """Train a model in its folder. Matrix products are of full precision.

    Args:
        name: of a model in the registry.
        data: training and validation ratings, or counts; closed forms need no validation. A model of implicit data
            takes its positives, as `positive` of its Config says.
        directory: the model's folder.
        recipe: the name of one of the model's recipes, whose overrides of Config then apply; or an instance of the
            class of its recipes, such as `Recipe`; None for a closed form.
        config: fields of the model's Config that differ from its defaults.
        rated: for models that use rated items, which items users rated, in addition to the training ratings.
        seed: of all random draws.
        run: how training by the engine is run.
        solver: the way of fitting, by default the model's first.

    Returns:
        The model, as `jaxcf.load` would read it.

    Raises:
        UserError: another training is in the folder or runs there now, or the model cannot be trained on the data.
    """
    record, place = get(name), Path(directory)
    if isinstance(recipe, str):
        recipe, overrides = record.recipe(recipe)
        config = {**overrides, **(config or {})}
    fitting = record.solver(solver)
    if record.implicit:
        data = of_dataset(data, (config or {}).get("positive"))
    _check_data(record, data, "num_values" in (config or {}), validated=not isinstance(fitting, ClosedForm))
    units = record.units(data.train.stars, data.catalogue.scale, config or {})
    full = record.configure(data.catalogue, units, config or {})
    require_number(seed, "--seed", int, **SEED)
    optimizer = recipe.optimizer if isinstance(recipe, Recipe) else None
    row_shards = run.row_shards if isinstance(fitting, BySGD) else 1
    memory.require(record.shapes(full), optimizer, "--num-features, --num-hidden, …", row_shards)
    # data first: where they differ, so may what the configuration takes from them
    identity = {"model": name, "data": describe(data, rated), "config": asdict(full), "seed": seed}
    users = KnownUsers(data.catalogue.num_users, data.train, rated)
    key = jax.random.key(seed)
    init, draws = jax.random.fold_in(key, INIT), jax.random.fold_in(key, TRAIN)

    def write_known() -> None:
        model_files.save_known(place, data.catalogue, users)

    def model(params: Any, info: dict[str, Any]) -> Model:
        return Model(record, data.catalogue, info, params, full, users)

    with locked(place):
        if isinstance(fitting, BySGD):
            with on_host(run.row_shards > 1 or run.stream):
                setup = fitting.prepare(init, data, rated, full)
            return training.train(
                place, identity, setup.program, setup.params, lambda: (setup.train, setup.valid), recipe=recipe,
                key=draws, run=run, unit="ratings", files=model_files.FILES, before=write_known,
                model=model,
            )  # fmt: skip
        folder.require_free(place, name, resume=False, resumable=False)
        compiled.bound_programs((fitting.name, full), data.train)
        began = time.perf_counter()
        more: dict[str, Any] = {}
        if isinstance(fitting, ClosedForm):
            params = fitting.solve(data.train, full)
        else:
            prepared = fitting.prepare(init, data, rated, full, recipe)
            params, more = _swept(fitting, prepared, recipe, draws, place, run)
        seconds = {"solve": time.perf_counter() - began}
        info = {"format": folder.FORMAT, **identity, **more, "finished": True, "environment": environment()}
        with signals.deferred():  # the whole model or nothing
            folder.begin_changes(place)
            write_known()
            checkpoint.write(place / folder.PARAMETERS, params, {})
            folder.write_info(place, info, model_files.FILES)
        return Trained(model(params, info), None, seconds)


def _swept(
    fitting: BySweeps, prepared: Sweeps, recipe: Any, key: jax.Array, directory: Path, run: Run
) -> tuple[Any, dict[str, Any]]:
    """Fit by sweeps, which are journaled; return the parameters, and what `config.json` says of the sweeps."""
    directory.mkdir(parents=True, exist_ok=True)
    journal = Journal(directory)
    journal.cut(0)  # what a run that was killed wrote

    def after_sweep(line: dict[str, Any]) -> None:
        journal.write(**line)
        if run.on_epoch is not None:
            run.on_epoch(deepcopy(line))

    fitted = sweeps.fit(prepared, key, epochs=recipe.epochs, patience=recipe.patience, journal=after_sweep)
    measure, read = prepared.measure
    return fitted.params, {
        "solver": fitting.name,
        "recipe": {name: getattr(recipe, name) for name in fitting.uses},
        f"validation {measure}": read(fitted.score) if np.isfinite(fitted.score) else None,
        "epochs": len(fitted.history),
    }


def _check_data(record: RatingModel, data: Dataset, rounded: bool, validated: bool) -> None:
    """Raise UserError where a model cannot be trained on some data.

    Args:
        rounded: whether ratings are rounded to levels that were chosen.
        validated: whether the model needs validation ratings.
    """
    if len(data.train.user) == 0:
        raise UserError("there are no training ratings", data.name, "give more ratings")
    scale = data.catalogue.scale
    if record.needs_levels and (scale.low == scale.high or not rounded):
        if scale.levels < 2:
            what, do = f"{record.name} needs a scale of a few fixed ratings", "give --scale LOW,HIGH,STEP with a step"
            if scale.low == scale.high:
                raise UserError(f"{what}, and all are {scale.low:g}", data.name, do)
            raise UserError(what, data.name, f"{do}, or --levels 10 to round them")
        if not all(scale.contains(part.stars).all() for part in (data.train, data.valid)):
            what = f"{record.name} needs ratings on the scale, {scale}; some are between"
            raise UserError(
                what, data.name, "choose --duplicates last or first, --levels N to round them, or another model"
            )
    if validated and len(data.valid.user) == 0:
        if record.implicit:  # of the validation ratings that there are
            raise UserError("there are no positives for validation", data.name, "give some by --valid")
        raise UserError("there are no validation ratings", data.name, "give more ratings, or --valid")


def describe(data: Dataset, rated: Pairs) -> dict[str, Any]:
    """Describe a data set: for records, and so that a resumed training can check that it is the same."""
    pairs = hashlib.sha256(np.ascontiguousarray(np.stack(rated), "<i4").data).hexdigest()
    return {
        "name": data.name,
        "sha256": data.sha256,
        "users": data.catalogue.num_users,
        "items": data.catalogue.num_items,
        "scale": list(data.catalogue.scale),
        "training ratings": len(data.train.user),
        "validation ratings": len(data.valid.user),
        "rated pairs beside": len(rated.user),
        "sha256 of these": pairs,
    }


def parameters(record: RatingModel, recipe: str, given: Mapping[str, Any]) -> Collection[str]:
    """Return the names of a model's parameters, which do not depend on the data.

    Args:
        recipe: name of the recipe, whose overrides of Config apply.
        given: options by name; only those of the Config are read.
    """
    overrides = record.recipes[recipe][1] if recipe in record.recipes else {}
    two = np.arange(2)
    config = record.configure(
        Catalogue(two, two, RatingScale(1, 5, 1)), Units(), {**overrides, **fields_of(given, record.config)}
    )
    return named_arrays(record.shapes(config))


def require_used(record: RatingModel, fitting: Fitting, recipe: Any, given: Collection[str]) -> None:
    """Raise UserError for a given option that has no effect on a fit by SGD or by sweeps."""
    if isinstance(fitting, BySGD):
        require_stops(recipe, given)
    unused = [name for name in given if isinstance(fitting, BySweeps) and name not in fitting.uses]
    if unused and any(isinstance(each, BySGD) for each in record.fitting):
        option = f"--{unused[0].replace('_', '-')}"
        raise UserError(f"{option} applies to SGD only", f"--solver {fitting.name}", "leave it out")
