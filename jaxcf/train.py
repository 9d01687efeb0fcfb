"""From a data set to a folder that holds a trained model: what `jaxcf train` and the benchmarks do.

A model's folder has `config.json`, `parameters/`, `catalogue.npz` (ids and scale), `known.npz` (the training ratings
and rated pairs, which predictions start from) and what training writes. Everything is derived from one seed:
`fold_in(key(seed), …)` with 0 for the initial parameters, 1 for training.
"""

import hashlib
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxcf import recommender as model
from jaxcf.data.ratings import Dataset, Pairs
from jaxcf.kinds import KINDS, Audience, sizes
from jaxcf.models import bias
from jaxcf.recommender import NO_PAIRS, Model
from jaxfit.errors import UserError
from jaxfit.fit import Fitted
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, training
from jaxfit.run_dir import metadata as folder
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.provenance import environment
from jaxfit.run_dir.training import Run

INIT, TRAIN = 0, 1  # what is folded into the seed's key


class Trained(NamedTuple):
    """A trained model, how its training went (None for closed forms, and if found finished), its times."""

    model: Model
    fitted: Fitted | None
    seconds: dict[str, float]


def train(
    kind: str,
    data: Dataset,
    directory: Path,
    *,
    recipe: Recipe | None,
    config: Mapping[str, Any] | None = None,
    rated: Pairs = NO_PAIRS,
    seed: int = 1,
    run: Run = Run(),
    solver: Literal["sgd", "als"] = "sgd",
) -> Trained:
    """Train a model of a kind of `KINDS` in its folder.

    recipe: None for bias models, which are solved exactly; config: overrides of the kind's Config; rated: for
    conditional models, who rated what beside the training ratings; solver: als, for kinds that have it, takes sweeps of
    exact solutions for epochs, and of the recipe only these, the decay and the patience; it is run at once.

    Raises UserError where another training is in the folder or runs there now, and for data that the kind cannot be
    trained on.
    """
    described = KINDS[kind]
    if len(data.train.user) == 0:
        raise UserError("there are no training ratings", data.name, "give more ratings")
    if "num_values" in described.config.__dataclass_fields__:
        scale = data.catalogue.scale
        if scale.levels < 2:
            advice = "give --scale LOW,HIGH,STEP with a step"
            raise UserError(f"{kind} needs a scale of some ratings", data.name, advice)
        if not scale.contains(np.concatenate([data.train.stars, data.valid.stars])).all():
            advice = "choose --duplicates last or first, or another kind of model"
            raise UserError(
                f"{kind} needs ratings on the scale, {scale}; some are between", data.name, advice
            )
    mean = float(np.mean(data.train.stars, dtype=np.float64))
    fixed = {**described.fixed, **sizes(described, data.catalogue, mean)}
    full = described.config(**{**(config or {}), **fixed})
    known = Audience(data.catalogue.num_users, data.train, rated)
    identity = {"model": kind, "config": asdict(full), "seed": seed, "data": describe(data, rated)}

    def write() -> None:
        model.save_known(directory, data.catalogue, data.train, rated)

    def keep(params: Any, more: dict[str, Any], began: float) -> Trained:
        info = {"format": folder.FORMAT, **identity, **more, "finished": True, "environment": environment()}
        made = model.of(kind, data.catalogue, info, params, full, known)
        seconds = {"solve": time.perf_counter() - began}
        write()
        _write(directory, made)
        return Trained(made, None, seconds)

    solved = described.setting is None or solver == "als"
    with locked(directory):
        if solved and (directory / folder.CONFIG).exists():
            raise UserError("another model is there", directory, "choose another --out")
        began = time.perf_counter()
        if described.setting is None:
            return keep(bias.solve(data.train, full), {}, began)
        assert recipe is not None
        if len(data.valid.user) == 0:
            raise UserError("there are no validation ratings", data.name, "give --valid FILE")
        key = jax.random.key(seed)
        setting = described.setting(jax.random.fold_in(key, INIT), data, rated, full)
        if solver == "als":
            assert described.alternating is not None
            params = setting.params
            del setting  # the ratings on the device
            directory.mkdir(parents=True, exist_ok=True)
            journal = Journal(directory)
            journal.cut(0)  # what a run that was killed wrote
            fitted = described.alternating(
                params, data.train, data.valid, full, recipe.decay, sweeps=recipe.epochs,
                patience=recipe.patience, said=lambda line: journal.write(**line),
            )  # fmt: skip
            used = {"decay": recipe.decay, "epochs": recipe.epochs, "patience": recipe.patience}
            shown = {"validation RMSE": float(np.sqrt(fitted.score)), "epochs": len(fitted.history)}
            return keep(fitted.params, {"solver": "als", "recipe": used, **shown}, began)
        trained = training.train(
            directory, identity, setting.program, setting.params, lambda: (setting.train, setting.valid), recipe=recipe,
            key=jax.random.fold_in(key, TRAIN), run=run, unit="ratings", before=write,
        )  # fmt: skip
    if trained.fitted is None:
        return Trained(model.load(directory), None, {})
    made = model.of(kind, data.catalogue, trained.info, trained.fitted.params, full, known)
    return Trained(made, trained.fitted, trained.seconds)


def _write(directory: Path, made: Model) -> None:
    """Write a model that was solved for at once."""
    parameters = directory / folder.PARAMETERS
    if parameters.exists():  # of a run that was killed before it wrote its configuration
        shutil.rmtree(parameters)
    checkpoint.write(parameters, made.params, {})
    folder.write_info(directory, made.info)


def describe(data: Dataset, rated: Pairs) -> dict[str, Any]:
    """What of a data set a record holds, and a resumed training must find again."""
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
