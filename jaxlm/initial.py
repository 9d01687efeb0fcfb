"""Training that begins from the parameters of another model, as the temporal FRBM does from an FRBM (§3.4.1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir.metadata import read_info
from jaxlm.contract import BySGD, LanguageModel, Structure, structure_argument
from jaxlm.data.files import EOS
from jaxlm.data.vocabulary import UNK, Vocabulary
from jaxlm.model_files import load

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

DETERMINES = ("config", "recipe", "seed", "corpus", "tree")  # a trained model, in its `config.json`
ALSO = ("topics", "initial")  # where it has them


def fingerprint(directory: Path) -> str:
    """Return the digest of all that determined a trained model, from its `config.json`."""
    info = read_info(directory)
    made = {name: info.get(name) for name in DETERMINES} | {name: info[name] for name in ALSO if info.get(name)}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def beginning(directory: Path) -> str:
    """Return what determines a training that begins from a model: its kind, and its fingerprint.

    Kinds whose options are the same, such as vlbl and ivlbl, can have equal fingerprints.
    """
    return f"{read_info(directory)['model']} {fingerprint(directory)}"


def begin_from(
    directory: Path,
    params: Any,
    record: LanguageModel,
    overrides: Mapping[str, Any],
    structure: Any,
    vocabulary: Vocabulary,
    counts: np.ndarray,
) -> tuple[Any, int, list[str]]:
    """Return initial parameters, taken from the model in a folder where it has parameters of the same names.

    Words are matched by name; those that the other model lacks keep their values in `params`. Also returns the number
    of words that it knows, and the names of the parameters that are taken.

    Args:
        directory: the folder of a trained model.
        params: initial parameters of the model that is to be trained.
        record: of the model that is to be trained.
        overrides: overrides of its Config's defaults.
        structure: its structure, if any.
        vocabulary: its vocabulary.
        counts: of the training text, int64 [N_w].

    Raises:
        UserError: the folder has no such model, or one of another structure, of other classes or of another size, or
            one without vectors of words of the same name, or one that knows none of the words.
    """
    import jax  # here, as the command line needs `fingerprint` before it needs JAX
    import jax.numpy as jnp

    other = load(directory)
    theirs = named_arrays(other.params) if isinstance(other.record.fitting, BySGD) else {}
    mine = named_arrays(params)
    shared = [name for name in mine if name in theirs]
    if not shared:
        what = f"a {other.name} has none of the parameters of a {record.name}"
        raise UserError(what, directory, f"give a model with some of {', '.join(mine)}")
    _require_same(record.structure_of(overrides), structure, other, vocabulary, directory)
    same_words = other.vocabulary.words == vocabulary.words
    ends = getattr(record.configure(len(counts), structure, overrides, counts), "class_ends", ())
    of_other = getattr(other.config, "class_ends", ())
    if ends and of_other and not (same_words and ends == of_other):
        do = "train on that text, with the same classes, or by another --objective"
        raise UserError("its words are in other classes", directory, do)
    axes, their_axes = word_axes(record, overrides, counts), _axes_of(other)
    if not any(name in axes and np.ndim(mine[name]) > 1 for name in shared):
        what = f"{other.name} and {record.name} have only {', '.join(shared)} in common, no vectors of words"
        raise UserError(what, directory, "give a model whose vectors of words have the same name")
    ids = np.array([other.vocabulary.ids.get(word, -1) for word in vocabulary.words])
    if all(word in (EOS, UNK) or id < 0 for word, id in zip(vocabulary.words, ids, strict=True)):
        raise UserError("it knows none of the words", directory, "give a model of a similar text")
    for name in shared:
        wanted, axis = list(np.shape(mine[name])), axes.get(name)
        if axis is not None:
            wanted[axis] = len(other.vocabulary)
        if their_axes.get(name) != axis:  # such as of a tree's nodes, which may be as many
            what = f"its {name} has an entry for each word and that of the new model has not, or the reverse"
            do = f"give a model whose {name} has {'no' if axis is None else 'an'} entry for each word"
            raise UserError(what, directory, do)
        if np.shape(theirs[name]) != tuple(wanted):
            what = f"its {name} is of shape {np.shape(theirs[name])}, not {tuple(wanted)}"
            raise UserError(what, directory, "give the options of its size")
        if axis is not None and not same_words:
            theirs[name] = _by_word(theirs[name], mine[name], ids, axis)
    leaves, tree = jax.tree.flatten(params)
    begun = [jnp.asarray(theirs.get(name, x), x.dtype) for name, x in zip(mine, leaves, strict=True)]
    return jax.tree.unflatten(tree, begun), int(np.sum(ids >= 0)), shared


def word_axes(record: LanguageModel, overrides: Mapping[str, Any], counts: np.ndarray) -> dict[str, int]:
    """Return, for each parameter that has one, the axis along which it has an entry for each word.

    It is the axis that grows by one if the vocabulary does.
    """
    import jax

    fitting, kind = record.fitting, record.structure_of(overrides)
    assert isinstance(fitting, BySGD)

    def shapes(counts: np.ndarray) -> dict[str, tuple[int, ...]]:
        number = len(counts)
        built = None if kind is None else kind.stand_in(kind.choose(overrides, {}), number, counts)
        config = record.configure(number, built, overrides, counts)
        made = jax.eval_shape(
            lambda key: fitting.init(key, config, counts, *structure_argument(built)), jax.random.key(0)
        )
        return {name: array.shape for name, array in named_arrays(made).items()}

    before, after, pair = shapes(counts), shapes(np.append(counts, 1)), (len(counts), len(counts) + 1)
    sizes = {name: list(zip(shape, after[name], strict=True)) for name, shape in before.items()}
    return {name: of_axes.index(pair) for name, of_axes in sizes.items() if pair in of_axes}


def _axes_of(model: Model) -> dict[str, int]:
    """Return `word_axes` of a trained model."""
    record, given = model.record, fields(model.config)
    chosen = [f.name for f in given if f.name not in record.fields_from_data and not f.metadata.get("decided")]
    counts = np.ones(len(model.vocabulary), np.int64)
    return word_axes(record, {name: getattr(model.config, name) for name in chosen}, counts)


def _by_word(theirs: Any, mine: Any, ids: np.ndarray, axis: int) -> np.ndarray:
    """Return what belongs to each word along an axis: theirs[id], or mine where the id is -1.

    Args:
        ids: [N_w], -1 for words that `theirs` lacks.
    """
    found, given = np.moveaxis(np.array(mine), axis, 0), np.moveaxis(np.asarray(theirs), axis, 0)
    found[ids >= 0] = given[ids[ids >= 0]]
    return np.moveaxis(found, 0, axis)


def _require_same(kind: Structure | None, mine: Any, other: Model, vocabulary: Vocabulary, directory: Path) -> None:
    """Raise a UserError where two models have structures of one kind, but not the same one."""
    of_other = other.record.structure_of(other.info.get("config", {}))
    if kind is None or of_other is None or kind.name != of_other.name:
        return
    same_words = other.vocabulary.words == vocabulary.words  # else structures of equal digests are of other words
    if same_words and kind.sha256(mine) == kind.sha256(other.structure):
        return
    can_be_given = any(each.name == kind.name for each in fields(kind.options))
    do = "train both on the same text, with the same seed and options"
    do = f"add --{kind.name} {directory}" if can_be_given and same_words else do
    raise UserError(f"it is not over the same {kind.name}", directory, do)
