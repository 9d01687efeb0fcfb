"""Trained language models that tables share: what determines each, and how it is trained."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core.store import Fitted, Store
from benchmarks.language import adapter
from benchmarks.language.scales import Scale
from jaxfit.recipe import Recipe
from jaxfit.run_dir.training import Run
from jaxfit.trainer import Trainer
from jaxlm.data import contexts
from jaxlm.data.corpus import Corpus
from jaxlm.models.hlbl.tree import FILE
from jaxlm.trees import build as trees
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree

TreeSpec = tuple[str, float, int]  # kind, ε, copies
RANDOM: TreeSpec = ("random", 0.0, 1)


@dataclass(frozen=True)
class Spec:
    """A language model that a table asks for."""

    model: str
    seed: int = 1
    # n-grams: all of it; others: what differs from the scale's own
    config: tuple[tuple[str, Any], ...] = ()
    tree: TreeSpec | None = None  # for models that have one
    tree_of: "Spec | None" = None  # with the tree of this model …
    part: int | None = None  # … or with four replicas of one of its four subtrees
    left_out: tuple[int, int] | None = None  # (i, n): trained without the i-th of n parts of the text

    def label(self) -> str:
        """Return a short name for people, part of the folder's name."""
        config = dict(self.config)
        if "order" in config:  # n-grams have no seed
            name = f"{'' if config.get('interpolated', True) else 'back-off-'}{self.model}{config['order']}"
            return name + self._without()
        name = self.model
        if self.tree is not None:
            kind, epsilon, copies = self.tree
            name += f"-{kind}{epsilon or ''}{f'-x{copies}' if copies > 1 else ''}"
            name += "" if self.part is None else f"-part{self.part + 1}-x4"
        name += "".join(f"-{key.removeprefix('num_').partition('_')[0]}{value}" for key, value in self.config)
        return f"{name}{self._without()}-seed{self.seed}"

    def _without(self) -> str:
        return "" if self.left_out is None else f"-without{self.left_out[0] + 1}"


def bootstrap(spec: Spec) -> Spec | None:
    """Return the random-tree model of the same seed from whose features a tree is built; None: needs none."""
    if spec.tree is None or spec.tree_of is not None or spec.tree[0] == "random":
        return None
    return Spec(spec.model, seed=spec.seed, tree=RANDOM)


class LanguageStore(Store[Spec]):
    """Language models; their predictions are log-probabilities (nats) of the events of a text, float64 [events]."""

    thesis_data = "AP News, 14 million words"
    unit = "words"
    substitutes = "learned trees are replaced by random ones with the code lengths of Table 4.3; "
    sources = adapter.SOURCES
    models = staticmethod(adapter.models)
    scale: Scale

    def __init__(self, corpus: Corpus, scale: Scale, recipe: str, work: Path, show: bool = False):
        super().__init__(scale, recipe, work, show)
        self.corpus, self.name = corpus, corpus.name

    def describe(self) -> dict[str, Any]:
        """Describe the data as a record does."""
        corpus = self.corpus
        return {
            "name": corpus.name, "sha256": corpus.sha256, "note": corpus.note, "words": len(corpus.vocabulary),
            "events": {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)},
        }  # fmt: skip

    def size(self) -> str:
        """Say how much data there is."""
        corpus = self.corpus
        return (
            f"{len(corpus.train):,} events for training, {len(corpus.test):,} for the test, "
            f"{len(corpus.vocabulary):,} words"
        )

    def scores(self, history: list[dict[str, Any]]) -> dict[str, list[float]]:
        """Return a model's validation, epoch by epoch, under the name that a record has for it."""
        return {"validation_perplexity": [round(float(np.exp(line["valid"])), 3) for line in history]}

    @staticmethod
    def example(model: str, scale: Scale) -> Spec:
        """A model of this name in the size that is usual at a scale, over a random tree where it has one."""
        return Spec(model, tree=RANDOM if adapter.structure_options(model) is not None else None)

    def identity(self, spec: Spec) -> dict[str, Any]:
        """Return all that determines the trained model, apart from the source code."""
        known: dict[str, Any] = {
            "kind": spec.model,
            "data": {"name": self.corpus.name, "sha256": self.corpus.sha256},
            "left_out": spec.left_out,
        }
        if self.scale.events is not None:  # the beginning of the data only
            known["events"] = self.scale.events
        if not self.stepwise(spec):
            return known | dict(spec.config)
        recipe, config = self._recipe(spec)
        known |= {"seed": spec.seed, "recipe": asdict(recipe), "config": config}
        if spec.tree is None:
            return known
        if spec.tree_of is not None:
            tree: dict[str, Any] = {"of": self.identifier(spec.tree_of), "part": spec.part}
        else:
            tree = dict(zip(("kind", "epsilon", "copies"), spec.tree, strict=True))
            below = bootstrap(spec)
            tree |= {} if below is None else {"bootstrap": self.identifier(below)}
        return known | {"tree": tree}

    def _recipe(self, spec: Spec) -> tuple[Recipe, dict[str, Any]]:
        """Return the recipe of a model that the engine fits, and its configuration."""
        recipe, config = adapter.recipe(spec.model, self.recipe, self.scale.num_features)
        return self.scale.adapt(spec.model, self.recipe, recipe), config | dict(spec.config)

    def fit(self, spec: Spec, directory: Path) -> Fitted:
        """Train a model, or go on with its training where a run was interrupted."""
        corpus = self.corpus
        if spec.left_out is not None:
            rest = contexts.leave_out(corpus.train, corpus.vocabulary.eos, *spec.left_out)
            corpus = corpus._replace(train=rest)
        options: dict[str, Any] = {"config": dict(spec.config)}
        if self.stepwise(spec):
            recipe, config = self._recipe(spec)
            run = Run(resume=True, show=self.show)
            options = {"config": config, "recipe": recipe, "seed": spec.seed, "run": run}
        if spec.tree is not None:
            below, (kind, epsilon, copies) = bootstrap(spec), spec.tree
            folder = None if below is None else str(self.get(below).directory)
            options["structure"] = adapter.structure_options(
                spec.model, tree=kind, epsilon=epsilon, copies=copies, bootstrap=folder
            )
        if spec.tree_of is not None:
            given = str(self._given_tree(spec.tree_of, spec.part, directory))
            options["structure"] = adapter.structure_options(spec.model, tree=given)
        trained = adapter.train(spec.model, corpus, directory, **options)
        assert trained.model is not None
        valid, test = (trained.model.event_log_probs(ids) for ids in (corpus.valid, corpus.test))
        return Fitted(trained.seconds, len(corpus.train), {"valid": valid, "test": test})

    def _given_tree(self, whole: Spec, part: int | None, directory: Path) -> Path:
        """Return the file of a model's tree, or of four replicas of one of its four subtrees."""
        if part is None:
            return self.get(whole).directory / FILE
        path = directory.with_name(f"{directory.name}.tree.npz")
        tree_file.save(trees.join([subtrees(self.tree(whole))[part]] * 4), path)
        return path

    def tree(self, spec: Spec) -> Tree:
        """The tree of a trained model."""
        return tree_file.load(self.get(spec).directory / FILE)

    def below(self, spec: Spec) -> list[Spec]:
        """Return models that this one's tree is made from."""
        return [other for other in (spec.tree_of, bootstrap(spec)) if other is not None]

    def shape(self, spec: Spec) -> tuple[Any, ...]:
        """Return what decides how long training takes."""
        return spec.model, spec.config, spec.tree and spec.tree[1:]

    def trainer(self, spec: Spec) -> Trainer:
        """Return the training of a model of this shape, at its first step; a tree that is not there is replaced."""
        recipe, config = self._recipe(spec)
        structure = None
        if spec.tree is not None and self.is_there(spec):
            structure = adapter.load_structure(spec.model, self.corpus, self.get(spec).directory)
        elif spec.tree is not None:
            kind, epsilon, copies = spec.tree
            options = adapter.structure_options(spec.model, tree=kind, epsilon=epsilon, copies=copies)
            structure = adapter.stand_in(spec.model, self.corpus, options)
        return adapter.trainer(spec.model, self.corpus, recipe, config, structure)

    def validation(self) -> int:
        """Return how many words are scored after each epoch."""
        return len(self.corpus.valid)


def subtrees(tree: Tree) -> list[Tree]:
    """Return the four trees that were joined to a four times overcomplete one (Table 4.6: S1 to S4)."""
    roots = [grandchild for child in tree.children[0] for grandchild in tree.children[child]]
    parts = []
    for root in roots:
        inside = np.zeros(len(tree.children), bool)
        inside[root] = True
        for node in range(root, len(tree.children)):  # ids grow from parent to child
            if inside[node]:
                below = tree.children[node]
                inside[below[below >= 0]] = True
        number = np.cumsum(inside, dtype=np.int32) - 1
        children = tree.children[inside]
        parts.append(
            Tree(
                np.where(children >= 0, number[np.maximum(children, 0)], children).astype(np.int32),
                tree.num_words,
            )
        )
    return parts
