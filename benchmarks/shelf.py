"""Trained models that tables share: each is trained once, found again by all that determines it."""

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks import record, scales
from benchmarks.scales import Scale
from jaxfit.atomic import replacing
from jaxfit.errors import UserError
from jaxfit.journal import Journal
from jaxlm import examples, model, train, tree_file, trees
from jaxlm.default_data import Corpus
from jaxlm.tree_paths import Tree

DONE = "benchmark.json"


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
class Trained:
    """A model on the shelf. Log-probabilities (nats) of the validation and test events are kept with it."""

    directory: Path
    info: dict[str, Any] = field(repr=False)  # what benchmark.json holds: identity, times, commit, history

    def events(self, part: Literal["valid", "test"]) -> np.ndarray:
        """Log-probability of every event of a part of the data, float64 [events]."""
        return np.load(self.directory / f"events-{part}.npy")

    def tree(self) -> Tree:
        """The tree of a hierarchical model."""
        return tree_file.load(self.directory / model.TREE)


class Shelf:
    """Models of one data set, scale and recipe under a work folder."""

    def __init__(self, corpus: Corpus, scale: Scale, recipe: str, work: Path, show: bool = False):
        self.corpus, self.scale, self.recipe, self.work, self.show = corpus, scale, recipe, work, show
        self._found: dict[Spec, Trained] = {}
        self.trained = 0  # how many models this process had to train

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
        identity = json.dumps(self.identity(spec), sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
        return self.work / "models" / f"{self.corpus.name}-{spec.label()}-{digest}"

    def is_there(self, spec: Spec) -> bool:
        """Whether the model need not be trained any more."""
        return (self.directory(spec) / DONE).is_file()

    def get(self, spec: Spec) -> Trained:
        """The trained model: found, gone on with where a run was interrupted, or trained from the start."""
        if spec not in self._found:
            directory = self.directory(spec)
            with _locked(directory):
                if not self.is_there(spec):
                    self._train(spec, directory)
            self._found[spec] = Trained(directory, json.loads((directory / DONE).read_text()))
        return self._found[spec]

    def _train(self, spec: Spec, directory: Path) -> None:
        corpus = self.corpus
        if spec.left_out is not None:
            rest = examples.leave_out(corpus.train, corpus.vocabulary.eos, *spec.left_out)
            corpus = corpus._replace(train=rest)
        identity = self.identity(spec)
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            trained = self._fit(spec, corpus, directory, identity)
        said = [str(warning.message) for warning in caught]
        self.trained += 1
        for part, ids in (("valid", corpus.valid), ("test", corpus.test)):
            with replacing(directory / f"events-{part}.npy") as path, path.open("wb") as file:
                np.save(file, trained.model.event_log_probs(ids))
        seconds = time.perf_counter() - started
        info = {
            "label": spec.label(),
            "identity": identity,
            "seconds": trained.seconds | {"all": seconds},
            "history": Journal(directory).lines(),
            "timing": timing(Journal(directory).times(), len(corpus.train)),
            "warnings": said,
            "environment": record.environment(),
        }
        with replacing(directory / DONE) as path:
            path.write_text(json.dumps(info, indent=1))
        for line in said:
            print(f"  {spec.label()}: {line}", file=sys.stderr)
        print(f"  trained {spec.label()} in {seconds:.1f} s", file=sys.stderr, flush=True)

    def _fit(self, spec: Spec, corpus: Corpus, directory: Path, identity: dict[str, Any]) -> train.Trained:
        if spec.kind == "kn":
            return train.ngram(corpus, directory, kind="kn", order=spec.order, interpolated=spec.interpolated)
        options: dict[str, Any] = {
            "recipe": scales.recipe(spec.kind, self.recipe, self.scale)[0],
            "config": identity["config"],
            "seed": spec.seed,
            "run": train.Run(resume=True, show=self.show),
        }
        if spec.kind == "lbl":
            return train.lbl(corpus, directory, **options)
        if spec.tree_of is not None:
            tree: Any = self._tree(spec, directory)
            return train.hlbl(corpus, directory, tree=tree, **options)
        below = bootstrap(spec)
        kind, epsilon, copies = spec.tree
        return train.hlbl(
            corpus, directory,
            tree=train.TreeOptions(kind=kind, epsilon=epsilon, copies=copies),  # type: ignore[arg-type]
            bootstrap=None if below is None else self.get(below).directory, **options,
        )  # fmt: skip

    def _tree(self, spec: Spec, directory: Path) -> Path:
        assert spec.tree_of is not None
        whole = self.get(spec.tree_of)
        if spec.part is None:
            return whole.directory / model.TREE
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


def timing(lines: list[dict[str, Any]], examples: int) -> dict[str, float]:
    """Speed from the lines of `timing.jsonl`, and from it the time of a whole epoch of so many examples.

    A median, so that no pause counts; of speeds, as the line of an epoch that was resumed is of its rest only.
    """
    speeds = [line["examples_per_second"] for line in lines if line.get("steps", 1) > 0]
    if not speeds:
        return {}
    speed = float(np.median(speeds))
    return {
        "seconds_per_epoch": examples / speed,
        "examples_per_second": speed,
        "compile_seconds": max(line["compile_seconds"] for line in lines),
    }


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One process at a time trains a model; another that wants it waits, then finds it."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: do not train one model in two processes there
        yield
        return
    path = directory.with_name(f"{directory.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise UserError(f"cannot write there: {error.strerror}", path, "choose another --work") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
