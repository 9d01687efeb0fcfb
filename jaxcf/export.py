"""Models as other programs read them: safetensors, factors as NumPy's files, a folder for hubs of models."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxcf import card
from jaxcf.contract import HasFactors
from jaxcf.data.ratings import Units
from jaxcf.model_files import FILES
from jaxcf.models import require
from jaxcf.recommender import Model
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import hub as for_hubs
from jaxfit.run_dir.arrays import to_safetensors, write_npy
from jaxfit.run_dir.atomic import replacing

SUFFIX = ".safetensors"
# of a Config: what predictions are made with, besides the parameters
CONSTANTS = (*Units._fields, "num_values", "low", "step", "center")


def safetensors(model: Model, out: Path) -> dict[str, NDArray[Any]]:
    """Write the parameters as safetensors, and the ids of their rows as text files beside them; return the arrays.

    Metadata are the name of the model and those of CONSTANTS that it has: for models with factors `mean` and `unit`;
    for RBMs `num_values`, `low`, `step` and `center`, whose predictions are low + step Σ_k k P(k), for k = 0, …,
    num_values - 1, where P(k) is Eq. 5.11 with p - center in place of p.
    """
    if out.suffix not in ("", SUFFIX):
        do = f"name a {SUFFIX} file: --out {out.with_suffix(SUFFIX)}"
        raise UserError(f"the factors are written as safetensors, not as {out.suffix}", out, do)
    arrays = {name: np.ascontiguousarray(array) for name, array in named_arrays(model.params).items()}
    constants = {name: repr(value) for name, value in vars(model.config).items() if name in CONSTANTS}
    files = {out: to_safetensors(arrays, {"model": model.name, **constants})}
    for name, ids in _ids(model).items():
        files[out.with_suffix(f".{name}.txt")] = _lines(ids)
    with ExitStack() as all_written:  # before the first takes its place
        for path, content in files.items():
            all_written.enter_context(replacing(path)).write_bytes(content)
    return arrays


def factors(model: Model, out: Path) -> dict[str, NDArray[np.float32]]:
    """Write a new folder with the factors of users and items, whose inner products predict; return them.

    Its files are `users.npy` and `items.npy`, float32 [users, D] and [items, D] in the order of rows, which can be
    mapped to memory, and `users.txt` and `items.txt`, the ids of their rows, one a line.

    Raises:
        Unsupported: the model's predictions are no inner products.
        UserError: the folder has files.
    """
    capability = require(model.record, HasFactors, "numpy", out)
    for_hubs.require_empty(out)
    found = capability.factors(model.params, model.config, model.known)
    arrays = {name: np.ascontiguousarray(rows, np.float32) for name, rows in zip(_ids(model), found, strict=True)}
    with replacing(out) as aside:
        aside.mkdir()
        for name, ids in _ids(model).items():
            with open(aside / f"{name}.npy", "wb") as file:
                write_npy(file, arrays[name])
            (aside / f"{name}.txt").write_bytes(_lines(ids))
    return arrays


def hub(model: Model, directory: Path, out: Path) -> None:
    """Write a folder that hubs of models accept, and `jaxcf.load` reads: safetensors, JSON, a card.

    Args:
        model: the model.
        directory: its folder.
        out: the folder to write, new or empty.
    """

    def card_of(info: Mapping[str, Any], scores: for_hubs.Scores) -> str:
        return card.text(model, info, *for_hubs.download(out), scores)

    for_hubs.export(directory, out, FILES, model.params, card_of)


FORMATS: dict[str, Callable[[Model, Path], dict[str, NDArray[Any]]]] = {"safetensors": safetensors, "numpy": factors}


def _ids(model: Model) -> dict[str, NDArray[Any]]:
    return {"users": model.catalogue.users, "items": model.catalogue.items}


def _lines(ids: Iterable[Any]) -> bytes:
    return "".join(f"{i}\n" for i in np.asarray(ids).tolist()).encode()
