"""The files of a trained model's folder: what a recommender needs besides its parameters, and loading all of it."""

from pathlib import Path
from typing import Any

import numpy as np

from jaxcf.contract import KnownUsers, RatingModel
from jaxcf.data.ratings import Catalogue, Pairs, Ratings, RatingScale, Units
from jaxcf.models import get
from jaxcf.recommender import Model
from jaxfit.devices.precision import full_float32
from jaxfit.errors import UserError
from jaxfit.recipe import FLOAT32_MAX
from jaxfit.run_dir import checkpoint, manifest
from jaxfit.run_dir.arrays import read_npz
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.manifest import REPAIR
from jaxfit.run_dir.metadata import PARAMETERS, read_config, read_info, unfinished_training

FILES = CATALOGUE, KNOWN = "catalogue.npz", "known.npz"
ARRAYS = {  # by file: the names of its arrays, all of one dimension, and their kinds of dtype
    CATALOGUE: {"users": "iU", "items": "iU", "scale": "f"},
    KNOWN: {"user": "i", "item": "i", "stars": "f", "rated_user": "i", "rated_item": "i"},
}


def save_known(directory: Path, catalogue: Catalogue, users: KnownUsers) -> None:
    """Write what a model must remember of its users: ids, scale, training ratings, other rated pairs."""
    ids = [catalogue.users, catalogue.items, np.array(catalogue.scale, np.float64)]
    for name, arrays in ((CATALOGUE, ids), (KNOWN, [*users.ratings[:3], *users.rated])):
        named: dict[str, Any] = dict(zip(ARRAYS[name], arrays, strict=True))
        with replacing(directory / name) as aside, aside.open("wb") as file:
            np.savez(file, **named)


@full_float32()
def load(directory: str | Path, *, unfinished: bool = False, verify: bool = False) -> Model:
    """Read a model from the folder that `jaxcf train` wrote.

    Args:
        directory: the folder.
        unfinished: whether to read a model whose training has not finished, with its best parameters so far.
        verify: whether to compare all files with the manifest, also those that were found whole before.

    Raises:
        UserError: there is no model, it is of an unknown kind or damaged, its arrays do not fit its configuration, or
            its training has not finished.
    """
    directory = Path(directory)
    info = read_info(directory)
    record = get(info["model"], directory)
    there = (directory / PARAMETERS).is_dir()
    if not (info.get("finished") or (there and unfinished)):
        raise unfinished_training(directory, there, asked=unfinished)
    manifest.require_whole(directory, FILES, verify=verify)
    config = read_config(record.config, info, directory)
    users, items, scale = _arrays(directory / CATALOGUE)
    if not (
        len(scale) == 3 and (abs(scale) <= FLOAT32_MAX).all() and all(np.all(i[1:] > i[:-1]) for i in (users, items))
    ):
        what = "the catalogue's ids are not in order, or its scale is not of three numbers"
        raise UserError(what, directory / CATALOGUE, REPAIR)
    catalogue = Catalogue(users, items, RatingScale(*map(float, scale)))
    user, item, stars, *rated = _arrays(directory / KNOWN)
    known = KnownUsers(catalogue.num_users, Ratings(user, item, stars), Pairs(*rated))
    _check_sizes(record, config, catalogue, known, directory)
    params = checkpoint.load_model(directory / PARAMETERS, record.shapes(config))
    return Model(record, catalogue, info, params, config, known)


def _check_sizes(record: RatingModel, config: Any, catalogue: Catalogue, known: KnownUsers, directory: Path) -> None:
    """Raise UserError unless catalogue and known ratings are of the users, items and scale that the Config says."""
    units = Units(getattr(config, "mean", 0.0), getattr(config, "unit", 1.0))
    if record.configure(catalogue, units, vars(config)) != config:
        sizes = f"{catalogue.num_users} users, {catalogue.num_items} items, ratings of {catalogue.scale}"
        raise UserError(f"the catalogue ({sizes}) is not that of the configuration", directory / CATALOGUE, REPAIR)
    ratings, rated, scale = known.ratings, known.rated, catalogue.scale
    if not len(ratings.user) == len(ratings.item) == len(ratings.stars) or len(rated.user) != len(rated.item):
        raise UserError("known ratings have users, items and stars of different numbers", directory / KNOWN, REPAIR)
    for pairs in (ratings, rated):
        for index, number in ((pairs.user, catalogue.num_users), (pairs.item, catalogue.num_items)):
            if len(index) and not 0 <= index.min() <= index.max() < number:
                what = "known ratings are of users or items that the catalogue does not have"
                raise UserError(what, directory / KNOWN, REPAIR)
    if not ((scale.low <= ratings.stars) & (ratings.stars <= scale.high)).all():  # false for NaN
        raise UserError(f"known ratings are not {scale}", directory / KNOWN, REPAIR)
    for name, value in record.units(ratings.stars, scale, vars(config))._asdict().items():
        if not abs(value - getattr(config, name, value)) <= 1e-6 * (scale.high - scale.low):
            what = f"the {name} of the known ratings is {value:g}, by the configuration {getattr(config, name):g}"
            raise UserError(what, directory / KNOWN, REPAIR)


def _arrays(path: Path) -> list[np.ndarray]:
    what, do = "the model is damaged", REPAIR
    try:
        arrays = read_npz(path, what, do)
    except FileNotFoundError as error:
        raise UserError(f"{what}: {error.strerror}", path, do) from error
    for name, kinds in ARRAYS[path.name].items():
        if name not in arrays:
            raise UserError(f"{what}: it has no {name}", path, do)
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in kinds:
            raise UserError(f"{what}: {name} is {arrays[name].dtype}{list(arrays[name].shape)}", path, do)
    return [arrays[name] for name in ARRAYS[path.name]]
