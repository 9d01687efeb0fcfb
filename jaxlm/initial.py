"""Training that begins from the parameters of another model, as the temporal FRBM does from an FRBM (§3.4.1)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir.metadata import read_info
from jaxlm.contract import BySGD, LanguageModel, Structure
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import load

DETERMINES = ("config", "recipe", "seed", "corpus", "tree")  # a trained model, in its `config.json`
ALSO = ("topics", "initial")  # where it has them


def fingerprint(directory: Path) -> str:
    """Return the digest of all that determined a trained model, from its `config.json`."""
    info = read_info(directory)
    made = {name: info.get(name) for name in DETERMINES} | {name: info[name] for name in ALSO if info.get(name)}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def begin_from(
    directory: Path,
    params: Any,
    record: LanguageModel,
    config: Mapping[str, Any],
    structure: Any,
    vocabulary: Vocabulary,
) -> Any:
    """Return parameters before training: of those that the model in a folder has under the same names, its own.

    Args:
        directory: the folder of a trained model.
        params: the initial parameters of the model that is to be trained.
        record: of that model.
        config: of that model, as a mapping or overrides.
        structure: of that model, if it has one.
        vocabulary: of that model.

    Raises:
        UserError: the folder has no such model, or one of another vocabulary, structure or size.
    """
    other = load(directory)
    if other.vocabulary.words != vocabulary.words:
        if set(other.vocabulary.words) == set(vocabulary.words):
            what = "its words are in another order, that of their counts in the text that it was trained on"
            raise UserError(what, directory, "train on that text")
        raise UserError("its vocabulary is another", directory, "give its vocabulary.txt to --vocab")
    kind, same = record.structure_of(config), other.record.structure_of(other.info.get("config", {}))
    if kind is not None and same is not None and kind.name == same.name:
        _require_same(kind, structure, other.structure, directory)
    theirs = named_arrays(other.params) if isinstance(other.record.fitting, BySGD) else {}
    mine = named_arrays(params)
    shared = [name for name in mine if name in theirs]
    if not shared:
        what = f"a {other.name} has none of the parameters of a {record.name}"
        raise UserError(what, directory, f"give a model with some of {', '.join(mine)}")
    for name in shared:
        if np.shape(theirs[name]) != np.shape(mine[name]):
            what = f"its {name} is of shape {np.shape(theirs[name])}, not {np.shape(mine[name])}"
            raise UserError(what, directory, "give the options of its size")
    import jax  # here, as the command line needs `fingerprint` before it needs JAX
    import jax.numpy as jnp

    leaves, tree = jax.tree.flatten(params)
    begun = [jnp.asarray(theirs.get(name, x), x.dtype) for name, x in zip(mine, leaves, strict=True)]
    return jax.tree.unflatten(tree, begun)


def _require_same(kind: Structure, mine: Any, theirs: Any, directory: Path) -> None:
    """Raise a UserError where two models are not over the same structure."""
    if kind.sha256(mine) != kind.sha256(theirs):
        can_be_given = any(each.name == kind.name for each in fields(kind.options))
        do = f"add --{kind.name} {directory}" if can_be_given else "train both on the same text, with the same seed"
        raise UserError(f"it is not over the same {kind.name}", directory, do)
