"""From a corpus to a folder that holds a trained model: what `jaxlm train` and the benchmarks do.

A model's folder has `config.json`, `vocabulary.txt`, its parameters (`parameters/`, `ngram.npz`), for an hlbl
its `tree.npz`, and what training writes (`checkpoint-*`, `journal.jsonl`, `timing.jsonl`). Everything is
derived from one seed: `fold_in(key(seed), …)` with 0 for the initial weights, 1 for training, 2 for the tree.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np

from jaxfit.errors import UserError
from jaxfit.fit import Fitted
from jaxfit.program import Program
from jaxfit.recipe import Recipe
from jaxfit.run_dir import metadata as folder
from jaxfit.run_dir import training
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.metadata import CONFIG, FORMAT, read_info
from jaxfit.run_dir.training import Run
from jaxlm import identity
from jaxlm.data.contexts import pad
from jaxlm.data.default_text import Corpus
from jaxlm.data.files import CHUNK
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.models import lbl as lbl_model
from jaxlm.models.hlbl import model as hlbl_model
from jaxlm.ngram import good_turing, kneser_ney, unigram
from jaxlm.ngram import model as ngram_model
from jaxlm.trained_model import TREE, VOCABULARY, Model, load, of_hlbl, of_lbl, of_ngram
from jaxlm.trees import build as trees
from jaxlm.trees import file as tree_file
from jaxlm.trees.clustering import average_features
from jaxlm.trees.order import by_visits
from jaxlm.trees.paths import Tree, node_biases

INIT, TRAIN, TREES = 0, 1, 2  # what is folded into the seed's key
BOOTSTRAP = "bootstrap"
KINDS = get_args(trees.Kind)


class Trained(NamedTuple):
    """A trained model, how its training went (None for n-grams, and for a model found finished), its times."""

    model: Model
    fitted: Fitted | None
    seconds: dict[str, float]


@dataclass(frozen=True)
class TreeOptions:
    """Which tree an hlbl uses."""

    kind: trees.Kind = field(default="adaptive", metadata={"help": "how words are split (§4.4)"})
    epsilon: float = field(
        default=0.0,
        metadata={"help": "a word whose responsibilities are this close to 0.5 goes both ways", "high": 0.5},
    )
    copies: int = field(default=1, metadata={"help": "subtrees under new roots, x2, x4", "unit": "trees"})
    replicate: bool = field(default=False, metadata={"help": "make the copies alike (Table 4.6)"})


def ngram(
    corpus: Corpus,
    directory: Path,
    *,
    kind: Literal["unigram", "gt", "kn"] = "kn",
    order: int = 5,
    interpolated: bool = True,
) -> Trained:
    """Estimate an n-gram model from the training text (chapters 3 and 4: back-off and interpolated).

    Raises UserError for an order outside 1 … 9.
    """
    if folder.begun(directory):
        raise UserError("another model is there", directory, "choose another --out")
    began = time.perf_counter()
    ids, vocabulary = corpus.train, corpus.vocabulary
    if kind == "unigram":
        params, config = unigram.train(ids, len(vocabulary), vocabulary.eos), {}
    elif kind == "gt":
        params = good_turing.train(ids, len(vocabulary), vocabulary.eos, order)
        config = {"order": order}
    else:
        params = kneser_ney.train(ids, len(vocabulary), vocabulary.eos, order, interpolated)
        config = {"order": order, "interpolated": interpolated}
    seconds = {"estimate": time.perf_counter() - began}
    info = {"format": FORMAT, "model": kind, "config": config, "corpus": identity.describe(corpus)}
    _write_vocabulary(directory, vocabulary)
    ngram_model.save(params, directory)
    folder.write_info(directory, info)
    return Trained(of_ngram(kind, vocabulary, params, info), None, seconds)


def lbl(
    corpus: Corpus,
    directory: Path,
    *,
    recipe: Recipe,
    config: Mapping[str, Any] | None = None,
    seed: int = 1,
    run: Run = Run(),
) -> Trained:
    """Train a log-bilinear model (§3.3). config: overrides of `lbl.Config`."""
    vocabulary = corpus.vocabulary
    full = lbl_model.Config(num_words=len(vocabulary), **(config or {}))
    make = partial(pad, context_size=full.context_size, eos=vocabulary.eos)
    key = jax.random.key(seed)
    params = lbl_model.init(jax.random.fold_in(key, INIT), full, word_counts(corpus))
    return _train(
        "lbl", corpus, directory, full, lbl_model.program(full), params, make, recipe, seed, run,
        partial(of_lbl, vocabulary, full), {},
    )  # fmt: skip


def hlbl(
    corpus: Corpus,
    directory: Path,
    *,
    recipe: Recipe,
    config: Mapping[str, Any] | None = None,
    tree: TreeOptions | Path = TreeOptions(),
    bootstrap: Path | None = None,
    seed: int = 1,
    run: Run = Run(),
) -> Trained:
    """Train a hierarchical log-bilinear model (§4.3) over a tree built for it or read from a file.

    A tree of clusters needs word features: a model over a random tree is trained first (§4.4), in
    `directory/bootstrap`, unless `bootstrap` names the folder of one that is trained already.
    """
    vocabulary, started = corpus.vocabulary, time.monotonic()
    seconds = {}
    origin: dict[str, Any] = {}
    if isinstance(tree, Path):
        words_tree = tree_file.load(tree, len(vocabulary))
    else:
        if tree.kind not in ("random", "huffman") and bootstrap is None:
            bootstrap = directory / BOOTSTRAP
            _say(run, "hlbl: stage 1 of 3, a model over a random tree")
            first = hlbl(
                corpus, bootstrap, recipe=recipe, config=config, tree=TreeOptions("random"), seed=seed,
                run=run,
            )  # fmt: skip
            seconds["bootstrap"] = sum(first.seconds.values())
            if first.fitted is not None and first.fitted.stopped != "done":
                return first
            _say(run, "hlbl: stage 2 of 3, the tree")
        origin = {"tree built": {**asdict(tree), "bootstrap": identity.fingerprint(bootstrap)}}
        # before a minute goes into a tree that cannot be used
        folder.earlier(
            directory,
            {"model": "hlbl", "seed": seed, "corpus": identity.describe(corpus), **origin},
            run.resume,
        )
        began = time.perf_counter()
        words_tree = _tree(corpus, directory, tree, origin, bootstrap, seed)
        seconds["tree"] = time.perf_counter() - began
        if bootstrap is not None and bootstrap.parent == directory:
            _say(run, "hlbl: stage 3 of 3, the model over its tree")
        if run.max_minutes is not None:
            run = replace(run, max_minutes=run.max_minutes - (time.monotonic() - started) / 60)
    counts = word_counts(corpus)
    full = hlbl_model.Config(num_words=len(vocabulary), num_nodes=len(words_tree.children), **(config or {}))
    words_tree = by_visits(words_tree, counts, full.num_hot)
    make = hlbl_model.texts_over(words_tree, full, vocabulary.eos)
    key = jax.random.key(seed)
    params = hlbl_model.init(jax.random.fold_in(key, INIT), full, node_biases(words_tree, counts))
    trained = _train(
        "hlbl", corpus, directory, full, hlbl_model.program(full), params, make, recipe, seed, run,
        lambda params, info: of_hlbl(vocabulary, full, words_tree, params, info, make),
        {**origin, "tree": identity.tree_sha256(words_tree)},
        before=lambda: tree_file.save(words_tree, directory / TREE),
    )  # fmt: skip
    return trained._replace(seconds={**seconds, **trained.seconds})


def word_features(corpus: Corpus, bootstrap: Path) -> np.ndarray:
    """Average predicted feature vectors [N_w, N_f] under a trained hlbl (§4.4), over the training text."""
    model = load(bootstrap)
    if model.kind != "hlbl" or model.vocabulary.words != corpus.vocabulary.words:
        raise UserError(
            "not an hlbl over this vocabulary", bootstrap, "give the folder of one trained on this text"
        )
    config = hlbl_model.Config(**model.info["config"])
    assert model.tree is not None
    data = hlbl_model.make_data(corpus.train, model.tree, config, corpus.vocabulary.eos)
    return average_features(*hlbl_model.average_predicted(model.params, data, config))


def _tree(
    corpus: Corpus,
    directory: Path,
    options: TreeOptions,
    origin: dict[str, Any],
    bootstrap: Path | None,
    seed: int,
) -> Tree:
    if (directory / CONFIG).exists() and (directory / TREE).exists():
        # a tree is kept where all it was made from is the same; a kill may have left one beside another's config
        was = read_info(directory)
        now = json.loads(json.dumps({"seed": seed, "corpus": identity.describe(corpus), **origin}))
        if all(was.get(name) == value for name, value in now.items()):
            tree = tree_file.load(directory / TREE, len(corpus.vocabulary))
            if identity.tree_sha256(tree) == was.get("tree"):
                return tree
    clusters = options.kind not in ("random", "huffman")
    return trees.build(
        options.kind,
        jax.random.fold_in(jax.random.key(seed), TREES),
        num_words=len(corpus.vocabulary),
        features=word_features(corpus, bootstrap) if clusters and bootstrap else None,
        counts=word_counts(corpus),
        epsilon=options.epsilon,
        copies=options.copies,
        replicate=options.replicate,
    )


def _train(
    kind: str,
    corpus: Corpus,
    directory: Path,
    config: Any,
    program: Program,
    params: Any,
    make: Callable[[np.ndarray], Any],
    recipe: Recipe,
    seed: int,
    run: Run,
    finish: Callable[[Any, dict[str, Any]], Model],
    more_identity: dict[str, Any],
    before: Callable[[], None] = lambda: None,
) -> Trained:
    """What training an lbl and an hlbl have in common: the text, the vocabulary, the finished model."""
    known = {
        "model": kind, "config": asdict(config), "seed": seed, "corpus": identity.describe(corpus), **more_identity
    }  # fmt: skip

    def write() -> None:
        _write_vocabulary(directory, corpus.vocabulary)
        before()

    trained = training.train(
        directory, known, program, params, lambda: (make(corpus.train), make(corpus.valid)), recipe=recipe,
        key=jax.random.fold_in(jax.random.key(seed), TRAIN), run=run, unit="words", before=write,
    )  # fmt: skip
    fitted = trained.fitted
    model = load(directory) if fitted is None else finish(fitted.params, trained.info)
    return Trained(model, fitted, trained.seconds)


def _write_vocabulary(directory: Path, vocabulary: Vocabulary) -> None:
    with replacing(directory / VOCABULARY) as aside:
        vocabulary.save(aside)


def word_counts(corpus: Corpus) -> np.ndarray:
    """How often each word is an event of the training text: int64 [N_w]."""
    counts = np.zeros(len(corpus.vocabulary), np.int64)
    for first in range(0, len(corpus.train), CHUNK):  # np.bincount makes a wider copy of what it counts
        counts += np.bincount(corpus.train[first : first + CHUNK], minlength=len(counts))
    return counts


def _say(run: Run, text: str) -> None:
    if run.show:
        from rich.console import Console

        Console(stderr=True, highlight=False).print(text, markup=False)
