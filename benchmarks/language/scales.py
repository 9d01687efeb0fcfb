"""How large a benchmark is: the same tables, from seconds on a test's data to days on the thesis'."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.data import sets as data
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxlm.data.default_text import Corpus
from jaxlm.data.synthetic import planted
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl


@dataclass(frozen=True)
class Scale:
    """What shrinks from the thesis' setting: data, model, training, repetitions; rows only for the tests."""

    name: str
    about: str
    data: str  # the data set unless --data names one
    dimensions: tuple[int, int, int, int]  # features, for the thesis' 25, 50, 75 and 100
    seeds: int = 3  # Table 4.4
    random_trees: int = 4  # Table 4.1
    contexts: tuple[int, ...] = (1, 2, 3, 5, 10, 20)  # Table 4.7
    subtrees: int = 4  # Table 4.6: how many of S1-S4 are replicated
    subsets: int = 8  # Tables 4.8 and 4.9
    # fields of the tuned recipes of "lbl" and "hlbl" that fit this size
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)
    epochs: int | None = None  # of every recipe
    events: int | None = None  # of the training text; the others are cut as well

    @property
    def num_features(self) -> int:
        """Features of a model where nothing else is said."""
        return self.dimensions[-1]


_QUICK = {"batch_size": 100, "rate": {"*": 0.03}}
_SMALL = {"batch_size": 500, "rate": {"*": 0.02}, "decay": {"*": 0.2, "b": 0.0}, "epochs": 6}
_THESIS = (25, 50, 75, 100)
SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "tiny", "a planted language, for the tests: seconds", "planted", (2, 4, 6, 8),
            seeds=1, random_trees=2, contexts=(1, 2, 5), subtrees=1, subsets=2, events=3000, epochs=2,
            tuned={"lbl": _QUICK, "hlbl": _QUICK},
        ),
        Scale(
            "smoke", "65,000 words of CPython's own prose: minutes on two cores", "prose", (10, 20, 30, 40),
            random_trees=2, tuned={"lbl": _SMALL, "hlbl": _SMALL},
        ),
        Scale("cpu", "the Penn Treebank, models of the thesis' size: hours on two cores", "ptb", _THESIS),
        Scale("full", "14 million words, as in the thesis: for a GPU", "holmes", _THESIS),
    )
}  # fmt: skip
RECIPES = ("tuned", "thesis")


def recipe(kind: str, name: str, scale: Scale) -> tuple[Recipe, dict[str, Any]]:
    """The recipe of a model, and the configuration that belongs to it, at this scale."""
    chosen, config = {"lbl": lbl.RECIPES, "hlbl": hlbl.RECIPES}[kind][name]
    changes = dict(scale.tuned.get(kind, {})) if name == "tuned" else {}
    changes |= {} if scale.epochs is None else {"epochs": scale.epochs}
    return replace(chosen, **changes), dict(config)


def corpus(name: str, scale: Scale, data_dir: Path | None = None) -> Corpus:
    """A data set at this scale: whole, or the beginning of each of its parts, cut at a line end."""
    if scale.events is None:
        return data.load(name, data_dir)
    wanted = (scale.events, scale.events // 5, scale.events // 5)
    if name == "planted":  # of few words, so that little text tells something
        return planted(jax.random.key(0), wanted, num_words=60, num_features=4)[0]
    whole, parts = data.load(name, data_dir), []
    for ids, events in zip((whole.train, whole.valid, whole.test), wanted, strict=True):
        ends = np.flatnonzero(ids[:events] == whole.vocabulary.eos)
        if len(ends) == 0:
            raise UserError(f"no line ends within {events} events", name, "choose a larger --scale")
        parts.append(ids[: ends[-1] + 1])
    return whole._replace(train=parts[0], valid=parts[1], test=parts[2])
