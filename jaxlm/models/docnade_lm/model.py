"""The DocNADE language model: an n-gram network that also reads the mean vector of all earlier words of a document.

    h_i = g(b + h_i^DN + h_i^LM),    h_i^DN = 1/(i-1) Σ_{k<i} W^DN_{v_k},    h_i^LM = Σ_{k=1}^{n-1} U_k W^LM_{v_{i-k}}

Without h^DN it is the NPLM (`jaxlm.models.nplm`), in whose notation W^LM is R, the U_k are side by side in H, and b is
d; the NPLM's U and b are those of the output, and g is tanh. A document is a group of consecutive lines of the text,
whose line ends count as words. For the first word of a document, h^DN is zero.

Differs: the n-gram's context continues across documents, as it does across lines in all models; with
`--no-context-across-lines` it begins afresh at each line.

Source: Lauly, Zheng, Allauzen and Larochelle 2017, §4 (Eq. 19-21), §7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.program import Metrics, Program, Ragged
from jaxfit.recipe import Recipe, option
from jaxfit.registry import Cost
from jaxfit.tables import rows_of
from jaxlm.capabilities import Embeds, PredictsWords
from jaxlm.context_model import PERPLEXITY, of_structure
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.contexts import context_after, vectors_of, without_history
from jaxlm.data.documents.ordered import running_sums
from jaxlm.models import nplm
from jaxlm.models.docnade_lm.documents import Batch, costs, document_ends, gather, num_documents, num_events, texts
from jaxlm.objectives import output
from jaxlm.objectives.word_tree import WORD_TREE
from jaxlm.trees.paths import Tree

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

DOCUMENTS, EVENTS = 64, 1 << 14  # of a text that are scored at a time: at most, and about


@dataclass(frozen=True)
class Config(nplm.Config):
    """What shapes the program; all but `group_lines` as for the NPLM."""

    num_features: int = option(100, "feature vector dimensionality", "features")
    group_lines: int = option(5, "consecutive lines that make a document", "lines", first=True)


class Params(NamedTuple):
    """Parameters; the rest are as in `nplm.Params`.

    Attributes:
        R: [N_w, N_f], the paper's W^LM.
        W: [N_w, N_h], the paper's W^DN.
    """

    R: Array
    W: Array
    H: Array
    d: Array
    U: Array
    b: Array
    head: output.Head | None = None


def init(key: Array, config: Config, counts: ArrayLike, tree: Tree | None = None) -> Params:
    """Draw the parameters before training: those of the NPLM, and W of zero, so that documents have no effect at first.

    Differs: the paper does not state its initial parameters.

    Args:
        counts: [N_w], of the training text.
        tree: the model's tree, if any.
    """
    plain = nplm.init(key, config, counts, tree)
    return Params(W=jnp.zeros((config.num_words, config.num_hidden)), **plain._asdict())


def loss(
    params: Params, contexts: Array, words: Array, key: Array | None, config: Config, children: Array | None = None
) -> Array:
    """Compute -log p(v) of ONE document in nats: the specification (Eq. 2, 19-21).

    Args:
        params: of the model.
        contexts: int32 [D, c], the words before each of the document's words, oldest first.
        words: int32 [D].
        key: of dropout; None: nothing is dropped.
        config: of the model.
        children: of the tree, if any.
    """

    def of_word(i: Array) -> Array:
        shares = jnp.where(jnp.arange(len(words)) < i, 1 / jnp.maximum(i, 1), 0.0)
        own = None if key is None else jax.random.fold_in(key, i)
        z = last_layer(params, params.R[contexts[i]], shares @ params.W[words], own, config)
        return -output.log_prob(params.U, params.b, params.head, z, config, children)[words[i]]

    return jnp.sum(jax.vmap(of_word)(jnp.arange(len(words))))


def log_prob(params: Params, context: Array, document: Array, config: Config, children: Array | None = None) -> Array:
    """Compute log p(v_i = w | v_{<i}) of every word w: [N_w], nats.

    Args:
        params: of the model.
        context: int32 [c], oldest first.
        document: h_i^DN, [N_h].
        config: of the model.
        children: of the tree, if any.
    """
    z = last_layer(params, vectors_of(params.R, context), document, None, config)
    return output.log_prob(params.U, params.b, params.head, z, config, children)


@jax.named_scope("prediction")
def last_layer(params: Params, vectors: Array, document: Array, key: Array | None, config: Config) -> Array:
    """Compute h_i for ONE event (Eq. 19): the last layer of the NPLM with the biases b + h_i^DN.

    Args:
        params: of the model.
        vectors: feature vectors of the context, [c, N_f].
        document: h_i^DN, [N_h].
        key: of the NPLM's dropout, which is ours; None: nothing is dropped.
        config: of the model.
    """
    return nplm.last_layer(params._replace(d=params.d + document), vectors, key, config)  # type: ignore[arg-type]


@jax.named_scope("document")
def document_means(rows: Array, batch: Batch) -> Array:
    """Compute h_i^DN of each event, [n, N_h] (Eq. 20), from the rows of W of the events' words, [n, N_h]."""
    return running_sums(rows, batch.owner) / jnp.maximum(batch.earlier, 1)[:, None]


def _last_layers(
    params: Params, vectors: Array, rows: Array, batch: Batch, keys: Array | None, config: Config
) -> Array:
    """Compute `last_layer` of each event.

    Args:
        vectors: rows of R, [n, c, N_f].
        rows: of W, [n, N_h].
        keys: of documents, [B].
    """
    if keys is not None:
        keys = jax.vmap(jax.random.fold_in)(keys[jnp.minimum(batch.owner, len(keys) - 1)], batch.earlier)
    one = partial(last_layer, config=config)
    return jax.vmap(one, (None, 0, 0, None if keys is None else 0))(params, vectors, document_means(rows, batch), keys)


def batch_loss(params: Any, batch: Batch, weight: Array, keys: Array | None, config: Config) -> tuple[Array, Metrics]:
    """Sum over the minibatch of weight * `loss`.

    Args:
        params: of the model; `Gathered` for an objective that reads rows.
        weight: [B], 0 for padding.
        keys: [B], one for each document.
    """
    of_event, word = jnp.take(weight, batch.owner, mode="fill", fill_value=0), jnp.maximum(batch.word, 0)
    if output.reads_rows(config):
        params = rows_of(params)
        vectors, rows = params.R.reshape(*batch.context.shape, -1), params.W
    else:
        vectors, rows = params.R[batch.context], params.W[word]
    z = _last_layers(params, vectors, rows, batch, keys, config)
    return output.batch_loss(params.U, params.b, params.head, z, word, batch.aux, of_event, config)


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows that a step reads, int32 [k] of each table, for an objective that reads rows."""
    word = jnp.maximum(batch.word, 0)
    ids = output.row_ids(word, batch.aux, config)
    return Params(R=batch.context.reshape(-1), W=word, U=ids, b=ids, head=output.dense(config), H=None, d=None)  # type: ignore[arg-type]


def event_nats(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log P of each event of a minibatch, [n], in nats, without dropout; 0 for padding."""
    word, z = jnp.maximum(batch.word, 0), _of_batch(params, batch, config)
    return jnp.where(batch.word >= 0, output.nats(params.U, params.b, params.head, z, word, batch.aux, config), 0.0)


def event_normalizers(params: Params, batch: Batch, config: Config) -> Array:
    """Compute log Z of the scores before each event, [n], in nats, without dropout."""
    return output.log_normalizer(params.U, params.b, params.head, _of_batch(params, batch, config))


def _of_batch(params: Params, batch: Batch, config: Config) -> Array:
    rows = params.W[jnp.maximum(batch.word, 0)]
    return _last_layers(params, vectors_of(params.R, batch.context), rows, batch, None, config)


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log p(v) of each document, [B], in nats, without dropout."""
    of_events = event_nats(params, batch, config)
    return jax.ops.segment_sum(of_events, batch.owner, len(batch.length), indices_are_sorted=True)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `documents.Grouped`."""
    plain = Program(
        config=config, size=num_documents, batch=gather, loss=batch_loss, score=score, events=num_events,
        metric=PERPLEXITY,
    )  # fmt: skip
    return replace(output.adapted(plain, touched), ragged=Ragged(costs))


def of_history(model: Model, history: np.ndarray) -> np.ndarray:
    """Compute log P of every word after a history, int32 [n], which begins with a document: [N_w], nats."""
    config, eos = model.config, model.vocabulary.eos
    context = context_after(history, eos, config.context_size, config.across_lines)
    document = np.split(history, document_ends(history, eos, config.group_lines))[-1]
    earlier = np.full(capacity_step(len(document)), -1, np.int32)  # compiled for few lengths
    earlier[: len(document)] = document
    given = of_structure(model, history)
    return np.asarray(_predicted(model.params, context, earlier, config, **given))


@partial(jax.jit, static_argnums=3)
def _predicted(params: Params, context: Array, earlier: Array, config: Config, children: Array | None = None) -> Array:
    """Compute `log_prob` from the context and all earlier words of the document, int32 [n], -1 for padding."""
    shares = (earlier >= 0) / jnp.maximum(jnp.sum(earlier >= 0), 1)
    return log_prob(params, context, shares @ params.W[jnp.maximum(earlier, 0)], config, children)


def event_log_probs(model: Model, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Score a text: float64 [events], nats; where lines begin afresh, each is a document."""
    config = replace(model.config, across_lines=False, group_lines=1) if fresh_lines else model.config
    return -_by_event(model, ids, config, event_nats)


def log_normalizers(model: Model, ids: np.ndarray) -> np.ndarray | None:
    """Compute log Z before each event of a text, float64 [events], nats; None for models that are normalised."""
    return _by_event(model, ids, model.config, event_normalizers) if output.is_unnormalized(model.config) else None


def _by_event(model: Model, ids: np.ndarray, config: Config, score: Callable[..., Array]) -> np.ndarray:
    """Compute a score of each event of a text, float64 [events], some documents at a time."""
    if len(ids) == 0:
        return np.zeros(0)
    config = output.exact(config)
    data = model.texts(config)(ids)
    if model.config.across_lines and not config.across_lines:
        data = without_history(data)
    many = max(1, min(DOCUMENTS, EVENTS // int(costs(data).max())))
    events = np.add.reduceat(costs(data), np.arange(0, num_documents(data), many))  # of some documents each
    capacity, found = capacity_step(events.max()), []
    for number, length in enumerate(events):
        documents = np.arange(number * many, (number + 1) * many)  # past the end they are empty
        found.append(np.asarray(_scored(model.params, data, documents, capacity, config, score))[:length])
    return np.concatenate(found).astype(np.float64)


@partial(jax.jit, static_argnums=(3, 4, 5))
def _scored(
    params: Params, data: Any, index: Array, capacity: int, config: Config, score: Callable[..., Array]
) -> Array:
    return score(params, gather(data, index, capacity, config), config)


def cost(config: Config, costs: Any = None) -> Cost:
    """Count what a word takes: as for the NPLM, and its row of W if rows are read."""
    plain = nplm.cost(config)
    rows = config.num_hidden if plain.read else 0
    return plain._replace(read=plain.read + rows, added=plain.added + rows)


# Differs: the paper states stochastic gradient descent over documents, a hierarchical softmax of two levels of about
# √N_w classes, early stopping and 100 hidden units. The function g, which words make a class, the rate and the
# minibatch are ours. "tuned" is the NPLM's recipe with smaller decays, less dropout and importance sampling, chosen on
# the Penn Treebank's validation text with five grouped lines.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=1, epochs=100, rate={"*": 2e-3}, decay={"*": 0.0}, patience=5, reduction="sum"
        ),
        {"objective": "classes"},
    ),
    "tuned": (
        Recipe(
            optimizer="adam", batch_size=10, epochs=20, rate={"*": 4e-3, "H": 2e-3},
            decay={"R": 0.1, "W": 0.01, "U": 0.1, "H": 0.025}, anneal=True,
        ),
        {
            "num_hidden": 200, "dropout": 0.2, "feature_dropout": 0.15,
            "objective": "importance", "num_noise": 1000, "shared_noise": True,
        },
    ),
}  # fmt: skip

MODEL = LanguageModel(
    name="docnade-lm",
    about="the DocNADE language model, a neural n-gram model that also reads all earlier words of a document",
    source="Lauly et al. 2017, §4",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program),
    structures=(WORD_TREE,),
    capabilities=(PredictsWords(of_history, event_log_probs, log_normalizers), Embeds(lambda params: params.R, ("W",))),
    cost=cost,
)
