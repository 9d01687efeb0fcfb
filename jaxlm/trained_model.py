"""A trained model, whatever its kind: probabilities of words, of sentences, of texts.

model = jaxlm.load("out/lbl")
model.log_prob("he has joined the rolling")     # over the vocabulary, nats
model.score("he has joined the rolling stones")  # log10 of the sentence
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit import fit
from jaxfit.errors import UserError
from jaxfit.loop import Program
from jaxfit.run_dir import checkpoint, manifest
from jaxfit.run_dir.metadata import PARAMETERS, read_info
from jaxlm.data.contexts import pad
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl
from jaxlm.ngram import arpa
from jaxlm.ngram import model as ngram
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree

VOCABULARY, TREE = "vocabulary.txt", "tree.npz"
NGRAMS = ("unigram", "gt", "kn")


@dataclass(frozen=True, eq=False)
class Model:
    """A language model with its vocabulary.

    kind: "lbl", "hlbl", "kn", …; info: what `config.json` holds; params: lbl.Params, hlbl.Params or NGram;
    tree: the words' tree of an hlbl.
    """

    kind: str
    vocabulary: Vocabulary
    info: dict[str, Any]
    params: Any
    distribution: Callable[[np.ndarray], np.ndarray]  # ids of a history -> log-probabilities [N_w]
    events: Callable[[np.ndarray, bool], np.ndarray]  # ids, fresh_lines -> log-probabilities [events]
    tree: Tree | None = None

    def log_prob(self, context: str | Sequence[str]) -> np.ndarray:
        """Log-probabilities (nats) of every word of the vocabulary after `context`: float [N_w].

        The context's words are the last ones before the next, on one line; what a model would see before them
        is a line end. Raises UserError for an unknown word where the vocabulary has no <unk>.
        """
        words = context.split() if isinstance(context, str) else list(context)
        return self.distribution(self.encode(words))

    def event_log_probs(self, ids: np.ndarray, fresh_lines: bool = False) -> np.ndarray:
        """Log-probabilities (nats) of every event of a text, given those before it: float64 [events].

        ids: int32 [events], the words of each line and then <eos>. With `fresh_lines` a neural model's context
        begins afresh at each line, as an n-gram model's always does.
        """
        return self.events(np.asarray(ids, np.int32), fresh_lines)

    def score(self, sentence: str) -> float:
        """Base-10 logarithm of the probability of a sentence and its end, the history beginning afresh."""
        return self.scores([sentence])[0]

    def scores(self, sentences: Sequence[str]) -> list[float]:
        """`score` of many sentences at once."""
        lines = [self.encode([*sentence.split()], end=True) for sentence in sentences]
        if not lines:
            return []
        log_probs = self.event_log_probs(np.concatenate(lines), fresh_lines=True) / np.log(10)
        starts = np.cumsum([0] + [len(line) for line in lines[:-1]])
        return [float(total) for total in np.add.reduceat(log_probs, starts)]

    def encode(self, words: Sequence[str], end: bool = False) -> np.ndarray:
        """Ids of words, int32, with <eos> behind them if `end`; an unknown word is <unk>."""
        vocabulary = self.vocabulary
        ids = [vocabulary.ids.get(word, -1 if vocabulary.unk is None else vocabulary.unk) for word in words]
        if -1 in ids:
            unknown = words[ids.index(-1)]
            raise UserError(
                f"unknown word {unknown!r}", do="this model's vocabulary has no <unk>: use its words"
            )
        return np.array(ids + [vocabulary.eos] * end, np.int32)


def load(directory: str | Path) -> Model:
    """Read a finished model from the folder that `jaxlm train` wrote, or an n-gram model from an ARPA file.

    Raises UserError where there is none, where it is damaged, or where its training has not finished.
    """
    directory = Path(directory)
    if directory.is_file():
        params, words = arpa.read(directory)
        return of_ngram("arpa", Vocabulary(tuple(words)), params, {"model": "arpa"})
    info = read_info(directory)
    vocabulary = Vocabulary.load(directory / VOCABULARY)
    kind = info["model"]
    if kind in NGRAMS:
        manifest.require_whole(directory)
        return of_ngram(kind, vocabulary, ngram.load(directory), info)
    if not (directory / PARAMETERS).is_dir():
        raise UserError("the model's training has not finished", directory, "go on with it by --resume")
    if kind == "lbl":
        config = lbl.Config(**info["config"])
        like = jax.eval_shape(lambda: lbl.init(jax.random.key(0), config, np.ones(config.num_words)))
        return of_lbl(vocabulary, config, checkpoint.load_model(directory / PARAMETERS, like), info)
    tree = tree_file.load(directory / TREE, len(vocabulary))
    tree_config = hlbl.Config(**info["config"])
    like = jax.eval_shape(lambda: hlbl.init(jax.random.key(0), tree_config, np.ones(tree_config.num_nodes)))
    return of_hlbl(vocabulary, tree_config, tree, checkpoint.load_model(directory / PARAMETERS, like), info)


def of_ngram(kind: str, vocabulary: Vocabulary, params: ngram.NGram, info: dict[str, Any]) -> Model:
    """An n-gram model; its history begins afresh at each line, always."""

    def events(ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
        return params.event_log_probs(ids)

    def log_prob(ids: np.ndarray) -> np.ndarray:
        return params.log_prob(np.concatenate([[vocabulary.eos], ids]))  # behind a line end, as in `events`

    return Model(kind, vocabulary, info, params, log_prob, events)


def of_lbl(vocabulary: Vocabulary, config: lbl.Config, params: lbl.Params, info: dict[str, Any]) -> Model:
    """A log-bilinear model."""
    programs = {fresh: lbl.program(_across(config, not fresh), vocabulary.eos) for fresh in (False, True)}
    distribution = jax.jit(lbl.log_prob)

    def events(ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
        make = partial(pad, context_size=config.context_size, eos=vocabulary.eos)
        return _events(programs[fresh_lines], params, make, ids)

    return Model(
        "lbl", vocabulary, info, params,
        lambda ids: np.asarray(distribution(params, _context(ids, config.context_size, vocabulary.eos))),
        events,
    )  # fmt: skip


def of_hlbl(
    vocabulary: Vocabulary,
    config: hlbl.Config,
    tree: Tree,
    params: hlbl.Params,
    info: dict[str, Any],
    make: Callable[[np.ndarray], Any] | None = None,
) -> Model:
    """A hierarchical log-bilinear model over its tree; make: its `hlbl.texts_over`, if there is one already."""
    programs = {fresh: hlbl.program(_across(config, not fresh), vocabulary.eos) for fresh in (False, True)}
    children = jnp.asarray(tree.children)
    distribution = jax.jit(hlbl.log_prob, static_argnums=3)
    make = make or hlbl.texts_over(tree, config, vocabulary.eos)

    def events(ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
        return _events(programs[fresh_lines], params, make, ids)

    def log_prob(ids: np.ndarray) -> np.ndarray:
        context = _context(ids, config.context_size, vocabulary.eos)
        return np.asarray(distribution(params, context, children, len(vocabulary)))

    return Model("hlbl", vocabulary, info, params, log_prob, events, tree)


def _across(config: Any, across_lines: bool) -> Any:
    return type(config)(**{**vars(config), "across_lines": config.across_lines and across_lines})


def _context(ids: np.ndarray, size: int, eos: int) -> jax.Array:
    """The last `size` words of a history, line ends before its beginning: int32 [size]."""
    return jnp.asarray(np.concatenate([np.full(size, eos, np.int32), ids])[len(ids) :], jnp.int32)


def _events(program: Program, params: Any, make: Callable[[np.ndarray], Any], ids: np.ndarray) -> np.ndarray:
    """Score a text: float64 [events]."""
    if len(ids) == 0:
        return np.zeros(0)
    return -fit.scores(program, params, make(ids)).astype(np.float64)
