"""Latent Dirichlet allocation: a document's words are drawn from topics, in proportions that are drawn for it.

    θ ~ Dirichlet(α, …, α),   p(v) = ∫ p(θ) Π_i Σ_k θ_k β_{k,v_i} dθ

Topics are fitted by scikit-learn, by variational Bayes. p(v) has no closed form: variational inference bounds it from
below, and a particle filter over the words estimates it without bias.

Source: Blei, Ng and Jordan 2003; Wallach et al. 2009, §4; Scott and Baldridge 2013, §3.
"""

import importlib.util
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from jaxfit.devices import platform
from jaxfit.draws import uniform
from jaxfit.errors import UserError, missing_package
from jaxfit.recipe import option
from jaxfit.run_dir.arrays import read_npz
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.manifest import REPAIR
from jaxlm.capabilities import EncodesDocuments, HasTopics, PredictsDocuments
from jaxlm.contract import ByLibrary, LanguageModel
from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import Documents
from jaxlm.document_model import log_mean_exp

FILE, DAMAGED = "topics.npz", "not a file of topics, or a damaged one"
PARTICLES = 20  # of an order of the words
PRIOR: dict[str, Any] = {"low": 1e-4, "high": 1, "first": True}  # scikit-learn takes none above 1
STEPS, CHANGE = 100, 1e-3  # of γ: at most, and the mean change at which they end; as in scikit-learn
ENTRIES = 2**22  # of an array of words by topics that inference holds at a time
CACHED = 32  # documents whose particles a CPU's cache holds


@dataclass(frozen=True)
class Config:
    """What shapes the model."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_topics: int = option(50, "size of a document's representation", "topics", first=True)
    alpha: float | None = option(
        None, "parameter of the Dirichlet distribution of a document's topics; 1 / topics unless given", **PRIOR
    )
    eta: float | None = option(
        None, "parameter of the Dirichlet distribution of a topic's words; 1 / topics unless given", **PRIOR
    )

    def priors(self) -> tuple[float, float]:
        """Return α and η."""
        usual = 1 / self.num_topics
        return usual if self.alpha is None else self.alpha, usual if self.eta is None else self.eta


@dataclass(frozen=True)
class Passes:
    """How long topics are fitted: the recipe."""

    epochs: int = option(20, "passes over the training documents", "epochs", first=True)


class Params(NamedTuple):
    """Parameters.

    Attributes:
        beta: float32 [K, N_w], each topic's distribution over words.
    """

    beta: NDArray[np.float32]

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name."""
        return {"beta": self.beta.shape}


def estimate(documents: Documents, num_words: int, eos: int, config: Config, recipe: Passes, seed: int) -> Params:
    """Fit topics to documents; beta is the mean of the Dirichlet distribution that approximates their posterior.

    Raises:
        UserError: scikit-learn is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise missing_package("scikit-learn", "lda", "topics")
    from sklearn.decomposition import LatentDirichletAllocation

    alpha, eta = config.priors()
    fitted = LatentDirichletAllocation(
        config.num_topics, doc_topic_prior=alpha, topic_word_prior=eta, max_iter=recipe.epochs, random_state=seed
    ).fit(documents.with_words().counts)
    return Params((fitted.components_ / fitted.components_.sum(axis=1, keepdims=True)).astype(np.float32))


def save(params: Params, directory: Path) -> None:
    """Write the topics atomically."""
    with replacing(directory / FILE) as aside, aside.open("wb") as file:
        np.savez(file, allow_pickle=False, beta=params.beta)


def load(directory: Path, num_words: int, eos: int, config: Config) -> Params:
    """Read topics written by `save`; raises UserError where they are missing, damaged or of another model."""
    path = directory / FILE
    try:
        beta = read_npz(path, DAMAGED, REPAIR)["beta"]
    except (FileNotFoundError, KeyError) as error:
        raise UserError(DAMAGED, path, REPAIR) from error
    right = beta.dtype == np.float32 and beta.shape == (config.num_topics, num_words)
    if not (right and np.all(beta >= 0) and np.allclose(beta.sum(axis=1, dtype=np.float64), 1, atol=1e-4)):
        raise UserError(DAMAGED, path, REPAIR)
    return Params(beta)


class Inferred(NamedTuple):
    """What is inferred about documents.

    Attributes:
        gamma: γ, float64 [documents, K], parameters of the Dirichlet distribution of each document's topics.
        bound: float64 [documents], a lower bound of log p(v), nats.
    """

    gamma: NDArray[np.float64]
    bound: NDArray[np.float64]


def infer(params: Params, documents: Documents, alpha: float) -> Inferred:
    """Approximate the posterior of each document's topics by a Dirichlet distribution (Blei et al. 2003, §5.2).

    A document without words has the prior.
    """
    beta = params.beta.astype(np.float64)
    size = max(1, int(ENTRIES / len(beta) / max(1.0, documents.counts.nnz / max(1, len(documents)))))
    parts = [
        _infer(beta, documents.take(np.arange(first, min(first + size, len(documents)))), alpha)
        for first in range(0, max(1, len(documents)), size)
    ]
    return Inferred(*map(np.concatenate, zip(*parts, strict=True)))


def _infer(beta: NDArray[np.float64], documents: Documents, alpha: float) -> Inferred:
    """Infer a block of documents: γ_k = α + Σ_w n_w φ_wk, φ_wk ∝ exp(E log θ_k) β_kw."""
    table, K = documents.counts, len(beta)
    owner = np.repeat(np.arange(len(documents)), np.diff(table.indptr))
    of_words = beta[:, table.indices].T + np.finfo(np.float64).tiny  # [entries, K]
    # [documents, entries]: n_w of each document's words, a product with which sums over them
    n = csr_array((table.data.astype(np.float64), np.arange(len(owner)), table.indptr), (len(documents), len(owner)))

    def shares(gamma: NDArray[np.float64]) -> NDArray[np.float64]:
        return digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))

    gamma = np.full((len(documents), K), alpha) + documents.lengths[:, None] / K
    moving = np.ones(len(documents), np.bool_)  # each document by itself, so that its company does not matter
    for _ in range(STEPS):
        before, weighted = gamma, np.exp(shares(gamma))[owner] * of_words
        after = alpha + n @ (weighted / weighted.sum(axis=1, keepdims=True))
        gamma = np.where(moving[:, None], after, before)
        moving &= np.mean(np.abs(gamma - before), axis=1) >= CHANGE
        if not moving.any():
            break
    expected = shares(gamma)
    bound = n @ np.log((np.exp(expected)[owner] * of_words).sum(axis=1))
    bound += gammaln(K * alpha) - K * gammaln(alpha) - gammaln(gamma.sum(axis=1))
    bound += ((alpha - gamma) * expected + gammaln(gamma)).sum(axis=1)
    return Inferred(gamma, bound)


def encode(params: Params, documents: Documents, config: Config) -> NDArray[np.float32]:
    """Return the mean of the inferred distribution of each document's topics: float32 [documents, K]."""
    gamma = infer(params, documents, config.priors()[0]).gamma
    return (gamma / gamma.sum(axis=1, keepdims=True)).astype(np.float32)


def log_prob(beta: Array, words: Array, key: Array, alpha: float, particles: int = PARTICLES) -> Array:
    """Estimate log p(v) of ONE document by a particle filter: the logarithm of an estimate without bias.

    A particle is the number n_k of earlier words of each topic. It predicts the next word by
    p(w | before) = Σ_k (n_k + α) β_kw / Σ_k (n_k + α); the mean over particles is a factor of the estimate. Particles
    are resampled in proportion to their predictions, and then draw the word's topic from its posterior.

    Args:
        beta: [K, N_w].
        words: int32 [D], in any order; -1 is padding, at the end.
        key: of the draws.
        alpha: parameter of the prior.
        particles: number of particles.
    """
    of_words, K = jnp.asarray(beta).T, len(beta)
    to_sums = jnp.triu(jnp.ones((K, K)))  # a product with it sums up to each topic

    def step(before: tuple[Array, Array], given: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        (number, total), (word, i) = before, given
        sums = ((number + alpha) * of_words[word][None]) @ to_sums
        p = sums[:, -1] / (jnp.sum(number, axis=1) + K * alpha)
        drawn = uniform(key, i * (particles + 1) + jnp.arange(particles + 1, dtype=jnp.int32))
        # evenly spaced draws, each of which alone follows the distribution: less noise than independent ones
        spaced = (drawn[0] + jnp.arange(particles)) / particles * jnp.sum(p)
        chosen = jnp.sum(jnp.cumsum(p)[None, :-1] <= spaced[:, None], axis=1)
        topic = jnp.sum(sums[chosen, :-1] <= (drawn[1:] * sums[chosen, -1])[:, None], axis=1)
        number = number[chosen] + jax.nn.one_hot(topic, K)
        return (number, total + jnp.log(jnp.mean(p))), None

    def or_padding(before: tuple[Array, Array], given: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        after, _ = step(before, given)
        return jax.tree.map(partial(jnp.where, given[0] >= 0), after, before), None

    begun = jnp.zeros((particles, K)), jnp.zeros(())
    (_, total), _ = lax.scan(or_padding, begun, (words, jnp.arange(len(words), dtype=jnp.int32)))
    return total


@partial(jax.jit, static_argnums=3)
def _log_probs(beta: Array, words: Array, keys: Array, alpha: float) -> Array:
    at_once = platform.at_once(len(words), PARTICLES * len(beta), CACHED)
    return lax.map(lambda given: log_prob(beta, given[0], given[1], alpha), (words, keys), batch_size=at_once)


def of_order(model: Any, documents: Documents, key: Array) -> NDArray[np.float64]:
    """Estimate log p(v) of each document from one order of its words, drawn by key: float64 [documents], nats."""
    for_order, for_topics = jax.random.split(key)
    data, found = ordered.ordered(documents, for_order), np.zeros(len(documents))
    lengths, keys = documents.lengths, jax.random.split(for_topics, len(documents))
    capacity = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)  # few programs
    offsets, word = np.asarray(data.offsets), np.asarray(data.word)
    for size in np.unique(capacity[lengths > 0]):
        index = np.flatnonzero((capacity == size) & (lengths > 0))
        place = offsets[index][:, None] + np.arange(size)
        words = np.where(np.arange(size) < lengths[index][:, None], word[np.minimum(place, len(word) - 1)], -1)
        found[index] = _log_probs(model.params.beta, words, keys[index], model.config.priors()[0])
    return found


def _log_probs_of(model: Any, documents: Documents, orderings: int, seed: int) -> NDArray[np.float64]:
    key = jax.random.key(seed)
    each = (of_order(model, documents, jax.random.fold_in(key, number)) for number in range(orderings))
    return log_mean_exp(each, orderings)


# Differs: the publications that show LDA's perplexity do not state its priors. "thesis" has scikit-learn's own, α and η
# of 1/K. α of "tuned" was chosen by validation on 20 Newsgroups, with 50 topics.
RECIPES: dict[str, tuple[Passes, dict[str, Any]]] = {"thesis": (Passes(), {}), "tuned": (Passes(), {"alpha": 0.1})}

MODEL = LanguageModel(
    name="lda",
    about="latent Dirichlet allocation, documents as mixtures of topics",
    source="Blei, Ng and Jordan 2003",
    config=Config,
    recipes=RECIPES,
    fitting=ByLibrary(estimate=estimate, save=save, load=load),
    reads="documents",
    capabilities=(
        PredictsDocuments(
            _log_probs_of,
            averaged="estimates",
            bounds=lambda model, documents: infer(model.params, documents, model.config.priors()[0]).bound,
        ),
        EncodesDocuments(lambda model, documents: encode(model.params, documents, model.config), "num_topics"),
        HasTopics(lambda params: params.beta.T),
    ),
)
