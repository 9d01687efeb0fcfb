"""Trained language models that tables share: what determines each, and how it is trained."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.core.changes import changed
from benchmarks.core.store import Outcome, Store, size_field
from benchmarks.core.verdict import Scores
from benchmarks.data import content, sets
from benchmarks.language import parts as parts_of_text
from benchmarks.language.scales import MANY_WORDS, SCALES, LanguageScale, speed_text, text
from benchmarks.measurement import rounding
from jaxfit.recipe import Recipe
from jaxfit.run_dir.training import Run
from jaxfit.trainer import Trainer
from jaxlm import models as registry
from jaxlm.capabilities import PredictsWords
from jaxlm.contract import ByCounting, BySGD, LanguageModel, structure_argument
from jaxlm.data import contexts
from jaxlm.data.corpus import Corpus
from jaxlm.data.documents.collection import DocumentCorpus
from jaxlm.tasks import mixture
from jaxlm.training import train
from jaxlm.trees import build as trees
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree, levels

TreeSpec = tuple[str, float, int]  # kind, ε, copies
RANDOM: TreeSpec = ("random", 0.0, 1)


@dataclass(frozen=True)
class Spec:
    """A language model that a table asks for."""

    model: str
    seed: int = 1
    # of models that are counted, all of it; of others, what differs from the scale's own
    config: tuple[tuple[str, Any], ...] = ()
    tree: TreeSpec | None = None  # for models that have one
    tree_of: "Spec | None" = None  # with the tree of this model …
    part: int | None = None  # … or with four replicas of one of its four subtrees
    features: "Spec | None" = None  # the model that the tree is built from; None: over a random tree, of the usual size
    tree_options: tuple[tuple[str, Any], ...] = ()  # options of its construction that differ from the defaults
    initial: "Spec | None" = None  # begun from the parameters of this model
    left_out: tuple[int, int] | None = None  # (i, n): trained without the i-th of n parts of the text
    recipe: tuple[tuple[str, Any], ...] = ()  # what differs from the scale's own, as `changed` takes it
    of_many_words: tuple[tuple[str, Any], ...] = ()  # by "tuned", with a larger vocabulary than MANY_WORDS
    products: str = ""  # of matrices: "float32" or "bfloat16" in the programs of an accelerator; "": as usual

    def with_seed(self, seed: int) -> "Spec":
        """Return the model with another seed, also for the models that it is made from; counted models have none."""
        names = "tree_of", "features", "initial"
        others = {name: other.with_seed(seed) for name in names if (other := getattr(self, name)) is not None}
        return self if self.counted else replace(self, seed=seed, **others)

    @property
    def counted(self) -> bool:
        """Whether it is estimated by counting, without random numbers."""
        return isinstance(registry.get(self.model).fitting, ByCounting)

    def label(self) -> str:
        """Return a short name for people, part of the folder's name."""
        config = dict(self.config)
        without = "" if self.left_out is None else f"-without{self.left_out[0] + 1}"
        if "order" in config:
            back_off = "" if config.get("interpolated", True) else "back-off-"
            return f"{back_off}{self.model}{config['order']}{without}"
        name = self.model
        if self.tree is not None:
            kind, epsilon, copies = self.tree
            name += f"-{kind}{epsilon or ''}{f'-x{copies}' if copies > 1 else ''}"
            name += "" if self.part is None else f"-part{self.part + 1}-x4"
            name += "".join(f"-{key.partition('_')[0]}{value}" for key, value in self.tree_options)
            name += "" if self.features is None else f"-of-{self.features.model}"
        name += "".join(f"-{key.removeprefix('num_').partition('_')[0]}{value}" for key, value in self.config)
        of_parameters = [(key.partition(".")[2], value) for key, value in self.recipe if "." in key]
        for parameter, value in of_parameters:  # a folder's name may have neither "*" (all parameters) nor "/" (paths)
            name += f"-{'all' if parameter == '*' else parameter.replace('/', '.')}{value:g}"
        seed = "" if self.counted else f"-seed{self.seed}"
        return f"{name}{without}{self.products and f'-{self.products}'}{seed}"

    def bootstrap(self) -> "Spec | None":
        """Return the model of the same seed from whose features the tree is built; None if the tree needs none."""
        if self.tree is None or self.tree_of is not None or self.tree[0] == "random":
            return None
        return self.features or Spec(self.model, seed=self.seed, tree=RANDOM)


def predicts_words(spec: Spec) -> bool:
    """Return whether a model has probabilities of a text; word vectors have none."""
    return registry.get(spec.model).capability(PredictsWords) is not None


class LanguageStore(Store):
    """Language models; their predictions are log-probabilities (nats) of the events of a text, float64 [events]."""

    registered = registry.REGISTRY
    chapters = "chapters 3, 4"
    scales = SCALES
    data_sets = (*sets.BUILT_IN, *sets.TEXTS)
    thesis_data = "AP News, 14 million words"
    unit = "words"
    resampled = parts_of_text.described()
    substitutes = "learned trees are replaced by random ones with the code lengths of Table 4.3; "
    parts: tuple[str, ...] = ("valid", "test")
    sources = ("jaxlm.train_by_sgd",)
    load = staticmethod(text)
    digest_of_data = staticmethod(content.of_text)
    speed_data = staticmethod(speed_text)

    def __init__(self, corpus: Corpus, scale: LanguageScale, recipe: str, work: Path, show: bool = False):
        super().__init__(corpus, scale, recipe, work, show)
        self.corpus, self.name, self.num_valid = corpus, corpus.name, len(corpus.valid)
        self.quotable = corpus.name not in sets.TEXTS or sets.TEXTS[corpus.name].quotable
        if self.resampled == LanguageStore.resampled:  # not of tasks
            self.resampled = parts_of_text.described(self.name)
        self._proportions: dict[tuple[Spec, ...], np.ndarray] = {}

    @staticmethod
    def by_engine(model: LanguageModel) -> bool:
        """Return whether a model is trained step by step."""
        return isinstance(model.fitting, BySGD)

    @staticmethod
    def example(model: str, scale: LanguageScale) -> Spec:
        """Return a model in the size that is usual at a scale, over a random tree where it has a tree."""
        return Spec(model, tree=RANDOM if registry.get(model).structure_of({}) else None)

    def event(self, model: str) -> str:
        """Return what a model's training speed counts per second: words or documents."""
        fitting = registry.get(model).fitting
        return fitting.unit if isinstance(fitting, BySGD) else self.unit

    def describe(self, specs: Iterable[Spec] = ()) -> dict[str, Any]:
        """Describe the data as a record does."""
        corpus = self.corpus
        return {
            "name": corpus.name, "sha256": corpus.sha256, "note": corpus.note, "words": len(corpus.vocabulary),
            "events": {"train": len(corpus.train), "valid": len(corpus.valid), "test": len(corpus.test)},
        }  # fmt: skip

    def size(self, specs: Iterable[Spec] = ()) -> str:
        """Say how much data there is."""
        return (
            f"{len(self.corpus.train):,} events for training, {len(self.corpus.test):,} for the test, "
            f"{len(self.corpus.vocabulary):,} words"
        )

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
        known |= {"seed": spec.seed, "recipe": asdict(recipe), "config": config} | rounding.identity(spec.products)
        if spec.initial is not None:
            known["initial"] = self.identifier(spec.initial)
        if spec.tree_of is not None:
            return known | {"tree": {"of": self.identifier(spec.tree_of), "part": spec.part}}
        if spec.tree is not None:
            known["tree"] = dict(zip(("kind", "epsilon", "copies"), spec.tree, strict=True))
            known["tree"] |= dict(spec.tree_options)
            if (below := spec.bootstrap()) is not None:
                known["tree"]["bootstrap"] = self.identifier(below)
        return known

    def _recipe(self, spec: Spec) -> tuple[Recipe, dict[str, Any]]:
        """Return the recipe of a model that the engine fits, and its configuration."""
        record = registry.get(spec.model)
        recipe, config = record.recipes[self.recipe]
        field = size_field(record.config)
        sized = {field: self.scale.num_features} if field else {}
        recipe = self.scale.adapt(spec.model, self.recipe, recipe)
        many_words = self.recipe == "tuned" and len(self.corpus.vocabulary) > MANY_WORDS
        changes = spec.recipe + spec.of_many_words * many_words
        known, config = changed(recipe, {**config, **sized, **dict(spec.config)}, changes)
        assert known is not None
        return known, config

    def fit(self, spec: Spec, directory: Path) -> Outcome:
        """Train a model, or go on with its training where a run was interrupted."""
        corpus = self.corpus
        if spec.left_out is not None:
            rest = contexts.leave_out(corpus.train, corpus.vocabulary.eos, *spec.left_out)
            corpus = corpus._replace(train=rest)
        if self.stepwise(spec):
            recipe, config = self._recipe(spec)
            initial = None if spec.initial is None else self.get(spec.initial).directory
            structure = self._structure(spec, directory)
            with rounding.accelerated(spec.products):
                trained = train(
                    spec.model, corpus, directory, recipe=recipe, config=config, seed=spec.seed, structure=structure,
                    initial=initial, run=Run(resume=True, show=self.show),
                )  # fmt: skip
        else:
            trained = train(spec.model, corpus, directory, config=dict(spec.config))
        assert trained.model is not None
        parts = {"valid": corpus.valid, "test": corpus.test} if predicts_words(spec) else {}
        return Outcome(trained.seconds, {part: trained.model.event_log_probs(ids) for part, ids in parts.items()})

    def perplexity(self, spec: Spec, part: str) -> Scores:
        """Return a model's nats in each block of lines of a part, "valid" or "test"; their figure is the perplexity."""
        return self.by_blocks(-self.get(spec).predictions(part), part, self.stepwise(spec))

    def by_blocks(
        self,
        nats: np.ndarray,
        part: str,
        seeded: bool,
        finish: Callable[[Any], Any] = np.exp,
        inside: np.ndarray | None = None,
    ) -> Scores:
        """Add up the nats of events of a part, over parts of consecutive lines.

        Args:
            nats: float64 [events].
            part: "valid" or "test".
            seeded: whether the nats depend on a seed.
            finish: function from their mean to the figure; by default, to the perplexity.
            inside: bool [events], the events that count; None: all.
        """
        ends = getattr(self.corpus, part) == self.corpus.vocabulary.eos
        block = parts_of_text.blocks(ends)
        counted = np.ones(len(nats), np.bool_) if inside is None else inside
        total = np.bincount(block, np.where(counted, nats, 0.0))
        return parts_of_text.grouped(Scores(total, np.bincount(block, counted), finish, seeded), self.name)

    def grouped(self, scores: Scores) -> Scores:
        """Return kept scores, added up to parts of the text."""
        return parts_of_text.grouped(scores, self.name)

    def proportion(self, first: Spec, second: Spec) -> float:
        """Return the proportion of the first model that fits validation best in a mixture of two."""
        return float(self.proportions(first, second)[0])

    def proportions(self, *specs: Spec) -> np.ndarray:
        """Return the proportions of models that fit validation best in a mixture of all of them."""
        if specs not in self._proportions:
            on_validation = [self.get(spec).predictions("valid") for spec in specs]
            if len(specs) == 2:  # to the last bit
                share = mixture.fit_weight(*on_validation)
                self._proportions[specs] = np.array([share, 1 - share])
            else:
                self._proportions[specs] = mixture.fit_weights(on_validation)
        return self._proportions[specs]

    def _structure(self, spec: Spec, directory: Path) -> Any:
        """Return the options of the structure that a model is trained with; None for models without one."""
        if spec.tree_of is None:
            below = spec.bootstrap()
            return self._options(spec, **({} if below is None else {"bootstrap": str(self.get(below).directory)}))
        path = self.get(spec.tree_of).directory
        if spec.part is not None:
            path = directory.with_name(f"{directory.name}.tree.npz")
            tree = trees.join([subtrees(self.tree(spec.tree_of))[spec.part]] * 4)
            tree_file.save(tree, path, self.corpus.vocabulary.words)
        return self._options(replace(spec, tree=None), tree=str(path))

    def _options(self, spec: Spec, **more: Any) -> Any:
        """Return the options of a model's structure: of the recipe, the spec and `more`, else their defaults."""
        structures, config = registry.get(spec.model).structures, self._recipe(spec)[1]
        if not structures or (spec.tree is None and not more):
            return None
        tree = {} if spec.tree is None else dict(zip(("tree", "epsilon", "copies"), spec.tree, strict=True))
        known = {f.name for f in fields(structures[0].options)}
        tree = {name: value for name, value in tree.items() if name in known}
        return structures[0].choose(config, {**tree, **dict(spec.tree_options), **more})

    def tree(self, spec: Spec) -> Tree:
        """Return the tree of a trained model."""
        structure = self._made_by(spec)
        assert structure is not None
        return structure.load(self.get(spec).directory, len(self.corpus.vocabulary))

    def below(self, spec: Spec) -> list[Spec]:
        """Return models that this one is made from."""
        return [other for other in (spec.tree_of, spec.bootstrap(), spec.initial) if other is not None]

    def shape(self, spec: Spec) -> tuple[Any, ...]:
        """Return what decides how long training takes."""
        return spec.model, spec.config, spec.recipe, spec.of_many_words, spec.tree and spec.tree[1:], spec.products

    def has_structure(self, spec: Spec) -> bool:
        """Return whether the model has one, a tree for instance."""
        return self._made_by(spec) is not None

    def _made_by(self, spec: Spec) -> Any:
        """Return what makes the model's structure, or None."""
        return registry.get(spec.model).structure_of(self._recipe(spec)[1])

    def trainer(self, spec: Spec) -> Trainer:
        """Return a trainer of a model of this shape, before its first step; a missing structure is made up."""
        recipe, config = self._recipe(spec)
        record, made = registry.get(spec.model), None
        structure, read = record.structure_of(config), record.of_text(self.corpus)
        if structure is not None and self.is_there(spec):
            made = structure.load(self.get(spec).directory, len(read.vocabulary))
        elif structure is not None:
            options = self._options(spec) or structure.choose(config, {})
            made = structure.stand_in(options, len(read.vocabulary), read.word_counts())
        return trainer(spec.model, self.corpus, recipe, config, made)


def trainer(
    model: str,
    corpus: Corpus | DocumentCorpus,
    recipe: Recipe,
    config: Mapping[str, Any],
    structure: Any = None,
    seed: int = 0,
) -> Trainer:
    """Return a trainer of a model before its first step, outside of any folder.

    Args:
        structure: structure of a model that has one.
    """
    record, more = registry.get(model), structure_argument(structure)
    assert isinstance(record.fitting, BySGD)
    read, key = record.of_text(corpus), jax.random.key(seed)
    full = record.configure(len(read.vocabulary), structure, config, read.word_counts())
    params = record.fitting.init(key, full, read.word_counts(), *more)
    data = record.fitting.texts(full, read.vocabulary.eos, *more)(read.train)
    return Trainer(record.fitting.program(full), params, data, recipe, key, None)


def subtrees(tree: Tree) -> list[Tree]:
    """Return the four trees that were joined into a four times overcomplete one (Table 4.6: S1 to S4)."""
    roots = [grandchild for child in tree.children[0] for grandchild in tree.children[child]]
    parts = []
    for root in roots:
        kept = np.sort(np.concatenate(levels(tree, root)))  # ids grow from parent to child
        children = tree.children[kept]
        numbered = np.where(children >= 0, np.searchsorted(kept, children), children)
        parts.append(Tree(numbered.astype(np.int32), tree.num_words))
    return parts
