"""Topics of the words before each word, as further inputs of a model.

Latent Dirichlet allocation is fitted to blocks of the training text, by scikit-learn. The mixture of topics θ before an
event is inferred from the last words before it, and from nothing after:

    γ = α + Σ_i φ_i,   φ_ik ∝ exp(E log θ_k) exp(E log β_{k,w_i}),   θ = γ / Σ_k γ_k

where the words w_i are those among the last `topic_window` events, or, where the history begins afresh at each line,
among those of them that are on the line. Without words θ is uniform.

Source: Blei, Ng and Jordan 2003, §5.2; Mikolov and Zweig 2012, §3; Mirowski 2014, slides.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from operator import index
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import digamma
from numpy.typing import NDArray

from jaxfit.devices import platform
from jaxfit.errors import UserError, missing_package
from jaxfit.recipe import option
from jaxfit.run_dir.arrays import read_npz
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.manifest import REPAIR
from jaxlm.contract import Structure

FILE, VERSION = "topics.npz", 1
STEPS, CHANGE = 100, 1e-3  # of γ: at most, and the mean change at which they end; as in scikit-learn
EVENTS = 1024  # whose mixtures are inferred by one call, unless there are CACHED at most
MOST = 1000  # topics
CACHED = 16  # windows whose weights a CPU's cache holds
TINY = float(np.finfo(np.float64).eps)  # added to the norms of φ, as in scikit-learn


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    """Topics as inputs; part of a model's Config."""

    num_topics: int = option(
        0, "topics of the words before, by latent Dirichlet allocation, whose mixture is a further input; 0: none",
        "topics", low=0, high=MOST,
    )  # fmt: skip
    topic_window: int = option(
        100, "preceding text that the mixture of topics is inferred from", "words and line ends", high=10_000,
        only_with=("num_topics", range(1, MOST + 1)),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Topics:
    """The fitted topics.

    Attributes:
        words: float32 [K, N_w], parameters of each topic's Dirichlet distribution over words.
    """

    words: NDArray[np.float32]

    @cached_property
    def weights(self) -> Array:
        """exp(E log β) under these distributions, float32 [K, N_w]."""
        from scipy.special import psi

        words = self.words.astype(np.float64)
        return jnp.asarray(np.exp(psi(words) - psi(words.sum(axis=1, keepdims=True))).astype(np.float32))


def require_no_tree(config: Any) -> None:
    """Raise a UserError for a Config with topics and a tree: a model has one structure."""
    if config.num_topics and config.objective == "tree":
        raise UserError("topics are for other objectives than the tree", "--num-topics", "leave one of them out")


def fit(ids: NDArray[np.int32], num_words: int, eos: int, options: TopicOptions, seed: int) -> Topics:
    """Fit topics to the blocks of `topic_window` events of a text.

    Args:
        ids: int32 [events].
        num_words: N_w.
        eos: id of the line end.
        options: number of topics and size of blocks.
        seed: of all random draws.
    """
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import LatentDirichletAllocation

    words = np.flatnonzero(ids != eos)
    entries = np.ones(len(words)), (words // options.topic_window, ids[words])
    counts = csr_matrix(entries, shape=(-(-len(ids) // options.topic_window), num_words))
    fitted = LatentDirichletAllocation(options.num_topics, random_state=seed).fit(counts)
    return Topics(fitted.components_.astype(np.float32))


def mixture(weights: Array, words: Array) -> Array:
    """Infer the mixture of topics of ONE window, [K], as scikit-learn's `transform` does: the specification.

    Args:
        weights: exp(E log β), [K, N_w].
        words: int32 [W], -1 where there is no word.
    """
    K = len(weights)
    of_words = jnp.where(words[None] >= 0, weights[:, jnp.maximum(words, 0)], 0.0)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, gamma, _ = state
        shares = jnp.exp(digamma(gamma) - digamma(jnp.sum(gamma)))
        new = 1 / K + shares * (of_words @ (1 / (shares @ of_words + TINY)))
        return number + 1, new, jnp.mean(jnp.abs(new - gamma))

    begun = jnp.int32(0), jnp.ones(K, weights.dtype), jnp.full((), jnp.inf, weights.dtype)
    _, gamma, _ = lax.while_loop(lambda state: (state[0] < STEPS) & (state[2] >= CHANGE), step, begun)
    return gamma / jnp.sum(gamma)


@jax.jit
def _mixtures(weights: Array, windows: Array) -> Array:
    at_once = platform.at_once(len(windows), len(weights) * windows.shape[1], CACHED)
    return lax.map(partial(mixture, weights), windows, batch_size=at_once)


def windows(
    ids: NDArray[np.int32], eos: int, size: int, across_lines: bool, first: int, last: int
) -> NDArray[np.int32]:
    """Return the words among the last `size` events before each of the events first … last - 1: int32 [events, size].

    Line ends are -1, as are places before the text or, unless `across_lines`, before the line.
    """
    near = ids[max(0, first - size) : last - 1]
    near = np.pad(near, (size + last - first - 1 - len(near), 0), constant_values=eos)
    words = np.lib.stride_tricks.sliding_window_view(near, size)
    gone = words == eos
    if not across_lines:
        gone = np.maximum.accumulate(gone[:, ::-1], axis=1)[:, ::-1]
    return np.where(gone, -1, words).astype(np.int32)


def mixtures(
    topics: Topics, ids: NDArray[np.int32], eos: int, options: TopicOptions, across_lines: bool, first: int = 0
) -> NDArray[np.float32]:
    """Infer the mixtures before each event of a text from event `first` on: float32 [events - first, K].

    Args:
        ids: int32 [events].
        across_lines: whether windows run on across line ends.
    """
    found = [np.zeros((0, options.num_topics), np.float32)]
    capacity = CACHED if len(ids) - first <= CACHED else EVENTS  # two programs, whatever the text's length
    for start in range(first, len(ids), EVENTS):
        words = windows(ids, eos, options.topic_window, across_lines, start, min(start + EVENTS, len(ids)))
        padded = np.pad(words, ((0, capacity - len(words)), (0, 0)), constant_values=-1)
        found.append(np.asarray(_mixtures(topics.weights, padded))[: len(words)])
    return np.concatenate(found)


def for_prediction(topics: Topics, history: NDArray[np.int32], model: Any) -> dict[str, NDArray[np.float32]]:
    """Return the mixture of topics after a history, int32 [n], as an argument of `log_prob`."""
    ids = np.append(history, np.int32(model.vocabulary.eos))
    across_lines = model.config.across_lines
    return {"topics": mixtures(topics, ids, model.vocabulary.eos, model.config, across_lines, len(history))[0]}


def check(options: TopicOptions) -> None:
    """Raise a UserError where scikit-learn is not installed."""
    if importlib.util.find_spec("sklearn") is None:
        raise missing_package("scikit-learn", "--num-topics", "topics")


def build(corpus: Any, options: TopicOptions, counts: np.ndarray, key: Array) -> Topics:
    """Fit topics to the training text of a `Corpus`."""
    seed = int(jax.random.bits(key))
    return fit(corpus.train, len(corpus.vocabulary), corpus.vocabulary.eos, options, seed)


def stand_in(options: TopicOptions, num_words: int, counts: np.ndarray) -> Topics:
    """Return random topics with the word counts of the training text."""
    shares = np.random.default_rng(0).exponential(size=(options.num_topics, num_words))
    return Topics((1 / options.num_topics + shares * counts).astype(np.float32))


def save(topics: Topics, directory: Path) -> None:
    """Write the topics' file, an .npz of plain arrays."""
    with replacing(directory / FILE) as aside, aside.open("wb") as file:
        np.savez(file, version=VERSION, words=topics.words)


def load(directory: Path, num_words: int) -> Topics:
    """Read the topics' file; raises UserError where it is missing, damaged, or of another number of words."""
    path, what = directory / FILE, "not a file of topics, or a damaged one"
    try:
        arrays = read_npz(path, what, REPAIR)
        version, words = index(arrays["version"]), arrays["words"]
    except FileNotFoundError as error:
        raise UserError("no such file", path, REPAIR) from error
    except (KeyError, TypeError) as error:
        raise UserError(what, path, REPAIR) from error
    if version != VERSION:
        raise UserError(f"topics of version {version}, not {VERSION}", path, REPAIR)
    if words.dtype != np.float32 or words.ndim != 2 or len(words) == 0 or not np.all((words > 0) & (words < np.inf)):
        raise UserError(what, path, REPAIR)
    if words.shape[1] != num_words:
        raise UserError(f"topics of {words.shape[1]} words for a vocabulary of {num_words}", path, REPAIR)
    return Topics(words)


def needed(config: Mapping[str, Any]) -> bool:
    """Return whether a model of this Config, given as a mapping, has topics."""
    return config.get("num_topics", 0) > 0


TOPICS = Structure(
    name="topics",
    options=TopicOptions,
    check=check,
    origin=lambda options: {"topics built": {"num_topics": options.num_topics, "topic_window": options.topic_window}},
    first_stage=lambda options: None,
    build=build,
    fields=lambda topics: {"num_topics": len(topics.words)},
    arrays=lambda topics: topics.words,
    for_prediction=for_prediction,
    sha256=lambda topics: hashlib.sha256(topics.words.tobytes()).hexdigest(),
    save=save,
    load=load,
    stand_in=stand_in,
    needed=needed,
)
