"""Trained language models that tables share, and how each is trained."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from benchmarks.core import store as kept
from benchmarks.language import scales
from benchmarks.language.scales import Scale
from jaxfit.program import Program
from jaxfit.run_dir.run import Run
from jaxfit.trainer import Trainer
from jaxlm import train
from jaxlm.data import contexts as examples
from jaxlm.data.default_text import Corpus
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl
from jaxlm.models.hlbl.tree import FILE as TREE
from jaxlm.models.hlbl.tree import TreeOptions
from jaxlm.trained_model import Trained
from jaxlm.trees import build as trees
from jaxlm.trees import file as tree_file
from jaxlm.trees.order import by_visits
from jaxlm.trees.paths import Tree, node_biases

# A learned tree is not there before its bootstrap model is trained. For a projection random trees of so many copies
# stand in: as many as make the mean code length of Table 4.3.
STAND_INS = {(0.0, 1): 1, (0.25, 1): 2, (0.4, 1): 2, (0.4, 2): 5, (0.4, 4): 10}


@dataclass(frozen=True)
class Spec:
    """A model that a table asks for. With data, scale and recipe it determines the trained model."""

    kind: Literal["kn", "lbl", "hlbl"]
    seed: int = 1
    order: int = 0  # kn
    interpolated: bool = True  # kn
    config: tuple[tuple[str, int], ...] = ()  # lbl, hlbl: what differs from the scale's own
    tree: tuple[str, float, int] = ("random", 0.0, 1)  # hlbl: kind, ε, copies
    tree_of: "Spec | None" = None  # hlbl: with the tree of this model …
    part: int | None = None  # … or with four replicas of one of its four subtrees
    left_out: tuple[int, int] | None = None  # (i, n): trained without the i-th of n parts of the text

    def label(self) -> str:
        """A short name for people, part of the folder's name."""
        if self.kind == "kn":
            name = f"{'kn' if self.interpolated else 'back-off-kn'}{self.order}"
        elif self.kind == "lbl":
            name = "lbl"
        else:
            kind, epsilon, copies = self.tree
            name = f"hlbl-{kind}{epsilon or ''}{f'-x{copies}' if copies > 1 else ''}"
            name += "" if self.part is None else f"-part{self.part + 1}-x4"
        name += "".join(f"-{key.removeprefix('num_').partition('_')[0]}{value}" for key, value in self.config)
        name += "" if self.left_out is None else f"-without{self.left_out[0] + 1}"
        return name if self.kind == "kn" else f"{name}-seed{self.seed}"


def bootstrap(spec: Spec) -> Spec | None:
    """The random-tree model (T1 of the same seed) whose features a tree is built from; None: needs none."""
    if spec.kind != "hlbl" or spec.tree_of is not None or spec.tree[0] == "random":
        return None
    return Spec("hlbl", seed=spec.seed)


@dataclass
class StoredModel:
    """A model on the shelf. Log-probabilities (nats) of the validation and test events are kept with it."""

    directory: Path
    info: dict[str, Any] = field(repr=False)  # what benchmark.json holds: identity, times, commit, history

    def events(self, part: Literal["valid", "test"]) -> np.ndarray:
        """Log-probability of every event of a part of the data, float64 [events]."""
        return np.load(self.directory / f"events-{part}.npy")

    def tree(self) -> Tree:
        """The tree of a hierarchical model."""
        return tree_file.load(self.directory / TREE)


class Shelf:
    """Language models of one data set, scale and recipe under a work folder."""

    thesis = "AP News, 14 million words"  # what the thesis' figures are of
    unit = "words"
    stand_in = "learned trees are stood in for by random ones with the code lengths of Table 4.3; "

    def __init__(self, corpus: Corpus, scale: Scale, recipe: str, work: Path, show: bool = False):
        self.corpus, self.scale, self.recipe, self.work, self.show = corpus, scale, recipe, work, show
        self.name = corpus.name
        self._found: dict[Spec, StoredModel] = {}

    def describe(self) -> dict[str, Any]:
        """The data as a record names it."""
        corpus = self.corpus
        return {
            "name": corpus.name, "sha256": corpus.sha256, "note": corpus.note, "words": len(corpus.vocabulary),
            "events": {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)},
        }  # fmt: skip

    def size(self) -> str:
        """How much data there is, in words."""
        corpus = self.corpus
        return (
            f"{len(corpus.train):,} events for training, {len(corpus.test):,} for the test, "
            f"{len(corpus.vocabulary):,} words"
        )

    def scores(self, history: list[dict[str, Any]]) -> dict[str, list[float]]:
        """A model's validation, epoch by epoch, as a record names it."""
        return {"validation_perplexity": [round(float(np.exp(line["valid"])), 3) for line in history]}

    def identity(self, spec: Spec) -> dict[str, Any]:
        """All that determines the trained model."""
        known: dict[str, Any] = {
            "kind": spec.kind,
            "data": {"name": self.corpus.name, "sha256": self.corpus.sha256},
            "left_out": spec.left_out,
        }
        if self.scale.events is not None:  # the beginning of the data only
            known["events"] = self.scale.events
        if spec.kind == "kn":
            return known | {"order": spec.order, "interpolated": spec.interpolated}
        recipe, config = scales.recipe(spec.kind, self.recipe, self.scale)
        config |= {"num_features": self.scale.num_features} | dict(spec.config)
        known |= {"seed": spec.seed, "recipe": asdict(recipe), "config": config}
        if spec.kind == "lbl":
            return known
        if spec.tree_of is not None:
            tree: dict[str, Any] = {"of": self.directory(spec.tree_of).name, "part": spec.part}
        else:
            below = bootstrap(spec)
            kind, epsilon, copies = spec.tree
            tree = {"kind": kind, "epsilon": epsilon, "copies": copies}
            tree |= {} if below is None else {"bootstrap": self.directory(below).name}
        return known | {"tree": tree}

    def directory(self, spec: Spec) -> Path:
        """Where the model is or will be."""
        return kept.folder(self.work, self.name, spec.label(), self.identity(spec))

    def is_there(self, spec: Spec) -> bool:
        """Whether the model need not be trained any more."""
        return kept.is_there(self.directory(spec))

    def get(self, spec: Spec) -> StoredModel:
        """The trained model: found, gone on with where a run was interrupted, or trained from the start."""
        if spec not in self._found:
            directory, identity = self.directory(spec), self.identity(spec)
            info = kept.keep(
                directory, spec.label(), identity, lambda: self._train(spec, directory, identity)
            )
            self._found[spec] = StoredModel(directory, info)
        return self._found[spec]

    def _train(self, spec: Spec, directory: Path, identity: dict[str, Any]) -> kept.Made:
        corpus = self.corpus
        if spec.left_out is not None:
            rest = examples.leave_out(corpus.train, corpus.vocabulary.eos, *spec.left_out)
            corpus = corpus._replace(train=rest)
        trained = self._fit(spec, corpus, directory, identity)
        for part, ids in (("valid", corpus.valid), ("test", corpus.test)):
            assert trained.model is not None
            kept.save(directory, f"events-{part}", trained.model.event_log_probs(ids))
        return kept.Made(trained.seconds, len(corpus.train))

    def below(self, spec: Spec) -> list[Spec]:
        """Models that this one's tree is made from."""
        return [other for other in (spec.tree_of, bootstrap(spec)) if other is not None]

    def shape(self, spec: Spec) -> tuple[Any, ...] | None:
        """What decides how long training takes; None for n-grams."""
        if spec.kind == "kn":
            return None
        return spec.kind, spec.config, spec.tree[1:] if spec.kind == "hlbl" else ()

    def validation(self) -> int:
        """How many words are scored after each epoch."""
        return len(self.corpus.valid)

    def trainer(self, spec: Spec) -> tuple[Trainer, str]:
        """The training of a model of this shape, at its first step, and the model's name.

        With the model's own tree if it is on the shelf, else with one that stands in for it.
        """
        vocabulary, ids = self.corpus.vocabulary, self.corpus.train
        recipe, config = scales.recipe(spec.kind, self.recipe, self.scale)
        config |= {"num_features": self.scale.num_features} | dict(spec.config)
        key, counts = jax.random.key(0), np.bincount(ids, minlength=len(vocabulary))
        program: Program
        params: Any
        data: Any
        if spec.kind == "lbl":
            flat = lbl.Config(num_words=len(vocabulary), **config)
            program, params = lbl.program(flat), lbl.init(key, flat, counts)
            data = examples.pad(ids, flat.context_size, vocabulary.eos)
        else:
            if self.is_there(spec):
                tree = self.get(spec).tree()
            else:
                copies = spec.tree[2] if spec.tree[0] == "random" else STAND_INS[spec.tree[1:]]
                tree = trees.build("random", key, num_words=len(vocabulary), copies=copies)
            deep = hlbl.Config(num_words=len(vocabulary), num_nodes=len(tree.children), **config)
            tree = by_visits(tree, counts, deep.num_hot)
            program = hlbl.program(deep)
            params = hlbl.init(key, deep, node_biases(tree, counts))
            data = hlbl.make_data(ids, tree, deep, vocabulary.eos)
        trainer = Trainer(program, params, data, recipe, key, None)
        return trainer, spec.label().replace(f"-seed{spec.seed}", "")

    def _fit(self, spec: Spec, corpus: Corpus, directory: Path, identity: dict[str, Any]) -> Trained:
        if spec.kind == "kn":
            config = {"order": spec.order, "interpolated": spec.interpolated}
            return train.train("kn", corpus, directory, config=config)
        structure = None
        if spec.kind == "hlbl" and spec.tree_of is not None:
            structure = TreeOptions(str(self._tree(spec, directory)))
        elif spec.kind == "hlbl":
            below = bootstrap(spec)
            bootstrap_folder = None if below is None else str(self.get(below).directory)
            structure = TreeOptions(*spec.tree, bootstrap=bootstrap_folder)
        return train.train(
            spec.kind, corpus, directory, recipe=scales.recipe(spec.kind, self.recipe, self.scale)[0],
            config=identity["config"], structure=structure, seed=spec.seed,
            run=Run(resume=True, show=self.show),
        )  # fmt: skip

    def _tree(self, spec: Spec, directory: Path) -> Path:
        assert spec.tree_of is not None
        whole = self.get(spec.tree_of)
        if spec.part is None:
            return whole.directory / TREE
        path = directory.with_name(f"{directory.name}.tree.npz")
        tree_file.save(trees.join([subtrees(whole.tree())[spec.part]] * 4), path)
        return path


def subtrees(tree: Tree) -> list[Tree]:
    """The four trees that were joined to a four times overcomplete one (Table 4.6: S1 to S4)."""
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
