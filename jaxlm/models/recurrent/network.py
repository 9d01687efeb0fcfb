"""Recurrent language models: layers of cells read the text word by word, and a softmax predicts the next word.

An example is a window of consecutive events, through which gradients flow (truncated backpropagation through time); the
state of the cells is carried from each window to the next. Dropout masks are drawn once for each window, by its key,
and are the same for all of its events (Gal and Ghahramani 2016).

The cells and their parameters are those of flax. In the specification, flax applies them; for a minibatch, products
that do not depend on the previous state are taken out of the loop over events.

Source: Mikolov et al. 2010; Hochreiter and Schmidhuber 1997; Cho et al. 2014; Mirowski 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxfit.errors import UserError
from jaxfit.program import Carried, Metrics, Program, Sequential
from jaxfit.recipe import option
from jaxfit.tables import rows_of
from jaxlm.context_model import PERPLEXITY
from jaxlm.models.recurrent.layer import Cell, State, layer
from jaxlm.models.recurrent.masks import draw_masks, mask_state, word_mask
from jaxlm.models.recurrent.windows import Windows, gather, num_events, num_windows, with_topics
from jaxlm.objectives import output, sampled
from jaxlm.topics import TopicOptions, Topics, require_no_tree
from jaxlm.trees.paths import Tree

STREAMS, BURN_IN = 64, 2  # of validation: windows before each stream that it begins with


@dataclass(frozen=True)
class Config(output.Options, TopicOptions):
    """What shapes the program."""

    cell: ClassVar[Cell]
    num_words: int = option(help="vocabulary size", unit="words")
    num_features: int = option(0, "feature vector dimensionality; 0: as many as units", "features", first=True, low=0)
    num_hidden: int = option(200, "units of each layer", "units", first=True)
    num_layers: int = option(1, "layers of cells", "layers", first=True)
    window: int = option(35, "events through which gradients flow back", "events")
    tied: bool = option(False, "the output's vectors are the feature vectors, of as many numbers as there are units")
    dropout: float = option(0.0, "share of each layer's units that is dropped in training", below=1)
    feature_dropout: float = option(0.0, "share of the features that is dropped in training", below=1)
    recurrent_dropout: float = option(
        0.0, "share of a layer's units that are not read for its next state in training", below=1
    )
    word_dropout: float = option(
        0.0, "share of words whose feature vectors are 0 throughout a window in training", below=1
    )
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")
    across_lines: bool = option(True, "the state runs on across line ends")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_no_tree(self)
        if not self.num_features:
            object.__setattr__(self, "num_features", self.num_hidden)
        if self.tied and self.num_features != self.num_hidden:
            what = f"feature vectors of {self.num_features} numbers cannot be those of {self.num_hidden} units"
            raise UserError(what, "--tied", "leave --num-features out, or give --no-tied")
        if self.tied and self.objective == "tree":
            raise UserError("the nodes of a tree have vectors of their own", "--tied", "give --no-tied")


class Params(NamedTuple):
    """Parameters.

    Attributes:
        R: [N_w, N_f], word vectors.
        cells: flax's parameters of each layer.
        U: [N_w, N_h], or None if tied. With a tree its rows, and those of b, are of the tree's N_w - 1 nodes.
        b: [N_w], word biases.
        head: from `output.init`.
    """

    R: Array
    cells: tuple[Any, ...]
    U: Array | None
    b: Array
    head: output.Head | None = None


def touched(batch: Windows, config: Config) -> Params:
    """Return the rows that a step reads, int32 [k] of each table, for an objective that reads rows."""
    like = jax.eval_shape(lambda: _init_cells(jax.random.split(jax.random.key(0), config.num_layers), config))
    words = output.row_ids(*_flat(batch, config), config)
    R = batch.before.reshape(-1)
    return Params(
        R=jnp.concatenate([R, words]) if config.tied else R, cells=jax.tree.map(lambda _: None, like),
        U=None if config.tied else words, b=words, head=output.dense(config),
    )  # fmt: skip


def _flat(batch: Windows, config: Config) -> tuple[Array, Any]:
    """Return the words of all events, int32 [B T], and their noise, if any; past the text's end they are word 0."""
    aux = batch.aux
    if sampled.is_sampled(config):
        aux = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), aux)
    return jnp.maximum(batch.word, 0).reshape(-1), aux


def init(key: Array, config: Config, counts: np.ndarray | Array, structure: Tree | Topics | None = None) -> Params:
    """Draw the parameters before training: small Gaussians, flax's for the cells, and biases that give the base rates.

    Args:
        counts: [N_w], of the training text.
        structure: the model's tree or topics, if any.
    """
    key_R, key_U, key_head, *of_cells = jax.random.split(key, 3 + config.num_layers)
    N_h, scale = config.num_hidden, config.init_scale
    return Params(
        R=scale * jax.random.normal(key_R, (config.num_words, config.num_features)),
        cells=_init_cells(of_cells, config),
        U=None if config.tied else scale * jax.random.normal(key_U, (output.num_scored(config), N_h)),
        b=output.biases(config, counts, structure if isinstance(structure, Tree) else None),
        head=output.init(key_head, config, N_h, counts),
    )


def _init_cells(keys: Sequence[Array] | Array, config: Config) -> tuple[Any, ...]:
    """Return flax's parameters of each layer before training."""
    module = config.cell.module(config.num_hidden)
    state = module.initialize_carry(jax.random.key(0), (1,))
    sizes = (config.num_features + config.num_topics, *[config.num_hidden] * (config.num_layers - 1))
    return tuple(module.init(key, state, jnp.zeros(size))["params"] for key, size in zip(keys, sizes, strict=True))


def start(config: Config) -> tuple[State, ...]:
    """Return the layers' state before the first event: zero."""
    state = config.cell.module(config.num_hidden).initialize_carry(jax.random.key(0), (1,))
    return (state,) * config.num_layers


def loss(params: Params, example: Carried, key: Array | None, config: Config) -> tuple[Array, tuple[State, ...]]:
    """Compute Σ -log P(w_t | w_1 … w_{t-1}) of ONE window in nats, and the state after it: the specification.

    For an objective that draws noise, it is the sum of that objective's losses.
    """
    cell, dropped = config.cell.module(config.num_hidden), draw_masks(key, config)
    windows, whole = example.batch, None
    if not sampled.is_sampled(config):  # other auxiliary data are not those of single events
        windows, whole = windows._replace(aux=None), windows.aux

    def event(states: tuple[State, ...], given: Windows) -> tuple[tuple[State, ...], Array]:
        before, word, first, aux, topics = given
        fresh = first & (not config.across_lines)
        x = params.R[before] * dropped.features * word_mask(key, before, config)
        x, after = with_topics(x, topics), []
        for p, state, factor, kept in zip(params.cells, states, dropped.units, dropped.states, strict=True):
            begun = jax.tree.map(lambda s: jnp.where(fresh, 0.0, s), state)
            new, x = cell.apply({"params": mask_state(p, kept, config)}, begun, x)
            x = x * factor
            after.append(jax.tree.map(lambda n, s: jnp.where(word >= 0, n, s), new, state))
        nats = output.loss(vectors_of(params), params.b, params.head, x, jnp.maximum(word, 0), aux or whole, config)
        return tuple(after), jnp.where(word >= 0, nats, 0.0)

    states, nats = lax.scan(event, example.carry, windows)
    return jnp.sum(nats), states


def vectors_of(params: Params) -> Array:
    """Return the output vectors of words, [N_w, N_h]; with a tree those of its nodes, [N_w - 1, N_h]."""
    return params.R if params.U is None else params.U


def hidden(
    params: Params, vectors: Array, given: Carried, keys: Array | None, config: Config
) -> tuple[Array, tuple[State, ...]]:
    """Run the layers over the windows of a minibatch.

    Args:
        params: of the model; only those of the cells are read.
        vectors: feature vectors of the words before, [B, T, N_f].
        given: windows, [B, T], and the states before them, [B, …].
        keys: of dropout, key[B]; None: nothing is dropped.
        config: of the model.

    Returns:
        What the output reads at each event, [B, T, N_h], and the states after the windows.
    """
    windows, states = given
    dropped = None if keys is None else jax.vmap(draw_masks, (0, None))(keys, config)
    if dropped is not None and config.feature_dropout:
        vectors = vectors * dropped.features[:, None]
    if keys is not None and config.word_dropout:
        factors = jax.vmap(word_mask, (0, 0, None))(keys, windows.before, config)
        vectors = vectors * factors[..., None]
    x, after = jnp.swapaxes(with_topics(vectors, windows.topics), 0, 1), []
    real, fresh = windows.word.T >= 0, windows.first.T & (not config.across_lines)
    for number, (p, state) in enumerate(zip(params.cells, states, strict=True)):
        W_x, W_h = (_joined(p, side, config) for side in "ih")
        with jax.named_scope("cell_inputs"):
            inputs = x @ W_x[0] + W_x[1][None, None]
        kept = dropped.states[:, number] if dropped is not None and config.recurrent_dropout else None
        x, state = layer(config.cell, inputs, *W_h, state, real, fresh, kept)
        after.append(state)
        if dropped is not None and config.dropout:
            x = x * dropped.units[:, number][None]
    return jnp.swapaxes(x, 0, 1), tuple(after)


def _joined(p: Any, side: str, config: Config) -> tuple[Array, Array]:
    """Return the weights of all gates side by side, [n, gates N_h], and their biases, [gates N_h]."""
    names = [f"{side}{gate}" for gate in config.cell.gates]
    biases = [p[name].get("bias", jnp.zeros(config.num_hidden)) for name in names]
    return jnp.concatenate([p[name]["kernel"] for name in names], axis=1), jnp.concatenate(biases)


def batch_loss(
    params: Any, given: Carried, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics, tuple[State, ...]]:
    """Sum over the minibatch of weight * `loss`, and the new states.

    Args:
        params: of the model; `Gathered` for an objective that reads rows.
        weight: [B], 0 for padding.
        keys: [B], one for each window.
    """
    windows = given.batch
    of_event = (weight[:, None] * (windows.word >= 0)).reshape(-1)
    if output.reads_rows(config):
        params, n = rows_of(params), windows.before.size
        vectors, V = params.R[:n].reshape(*windows.before.shape, -1), params.R[n:] if config.tied else params.U
    else:
        vectors, V = params.R[windows.before], vectors_of(params)
    x, states = hidden(params, vectors, given, keys, config)
    z = x.reshape(-1, config.num_hidden)
    found = output.batch_loss(V, params.b, params.head, z, *_flat(windows, config), of_event, config)
    return *found, lax.stop_gradient(states)


def score(params: Params, given: Carried, config: Config) -> tuple[Array, tuple[State, ...]]:
    """Compute Σ -log P of each window's events, [B], in nats, without dropout, and the new states."""
    nats, states = event_nats(params, given, config)
    return jnp.sum(nats, axis=1), states


def event_nats(
    params: Params, given: Carried, config: Config, normalizers: bool = False
) -> tuple[Array, tuple[State, ...]]:
    """Compute -log P of each event of windows, [B, T], in nats, 0 after the text's end, and the new states.

    Args:
        normalizers: whether to compute log Z of the scores before each event instead.
    """
    x, states = hidden(params, params.R[given.batch.before], given, None, config)
    word, z, V = given.batch.word, x.reshape(-1, config.num_hidden), vectors_of(params)
    of_words = jnp.maximum(word, 0).reshape(-1)
    if normalizers:
        nats = output.log_normalizer(V, params.b, params.head, z)
    else:
        nats = output.nats(V, params.b, params.head, z, of_words, given.batch.aux, config)
    return jnp.where(word >= 0, nats.reshape(word.shape), 0.0), states


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Windows`."""
    plain = Program(
        config=config, size=num_windows, batch=gather, loss=batch_loss, score=score, events=num_events,
        metric=PERPLEXITY, sequential=Sequential(start, streams=STREAMS, burn_in=BURN_IN),
    )  # fmt: skip
    return output.adapted(plain, touched)
