"""The record of a recurrent model: what a trained one predicts, of a text or word by word, and what training costs."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.program import Carried
from jaxfit.registry import PRODUCT, Cost
from jaxlm.capabilities import CarriesState, Embeds, PredictsWords
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.models.recurrent.network import Config, Params, event_nats, hidden, init, program, start, vectors_of
from jaxlm.models.recurrent.windows import Windows, gather, num_windows, texts
from jaxlm.objectives import output
from jaxlm.objectives.word_tree import WORD_TREE
from jaxlm.topics import TOPICS, Topics, mixtures
from jaxlm.trees.paths import Tree

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

EVENTS = 256  # of a text that are scored at a time


class State(NamedTuple):
    """What is carried from word to word.

    Attributes:
        layers: state of each layer: arrays [1, N_h].
        recent: int32 [at most `topic_window`], the last words read, from which the next mixture of topics is inferred.
    """

    layers: Any
    recent: np.ndarray


@functools.partial(jax.jit, static_argnums=(3, 4))
def _scored(params: Params, windows: Windows, states: Any, config: Config, normalizers: bool) -> tuple[Array, Any]:
    return event_nats(params, Carried(windows, states), config, normalizers)


@functools.partial(jax.jit, static_argnums=4)
def _predicted(
    params: Params, windows: Windows, states: Any, last: Array, config: Config, children: Array | None
) -> tuple[Any, Array]:
    """Read the events of one window, [1, T]; return the states after it, and log P of every word at event `last`.

    Args:
        children: of the tree, if any.
    """
    x, after = hidden(params, params.R[windows.before], Carried(windows, states), None, config)
    return after, output.log_prob(vectors_of(params), params.b, params.head, x[0, last], config, children)


def _one_stream(config: Config) -> Any:
    return jax.tree.map(lambda s: s[None], start(config))


def event_log_probs(model: Model, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Score a text in one online pass: float64 [events], nats."""
    return -_online(model, ids, not fresh_lines, False)


def log_normalizers(model: Model, ids: np.ndarray) -> np.ndarray | None:
    """Compute log Z before each event of a text, float64 [events], nats; None for models that are normalised."""
    return _online(model, ids, True, True) if output.is_unnormalized(model.config) else None


def _online(model: Model, ids: np.ndarray, across_lines: bool, normalizers: bool) -> np.ndarray:
    """Compute `event_nats` of a text in one online pass: float64 [events]."""
    config = _scoring(model.config, min(EVENTS, capacity_step(len(ids))), across_lines)
    data, states, found = model.texts(config)(ids), _one_stream(config), []
    for row in range(num_windows(data)):
        nats, states = _scored(model.params, gather(data, jnp.array([row]), 0, config), states, config, normalizers)
        found.append(np.asarray(nats[0]))
    return np.concatenate([*found, np.zeros(0)])[: len(ids)].astype(np.float64)


def _scoring(config: Config, window: int, across_lines: bool) -> Config:
    return output.exact(replace(config, window=window, across_lines=across_lines and config.across_lines))


def _read(model: Model, windows: Windows, states: Any, last: int, config: Config) -> tuple[Any, np.ndarray]:
    children = jnp.asarray(model.structure.children) if isinstance(model.structure, Tree) else None
    after, log_p = _predicted(model.params, windows._replace(aux=None), states, last, config, children)
    return after, np.asarray(log_p)


def begin(model: Model, history: np.ndarray) -> tuple[State, np.ndarray]:
    """Read a history, int32 [n]; return the state after it, and log P of every word that may follow, [N_w], nats."""
    ids = np.append(history, model.vocabulary.eos).astype(np.int32)  # this last id only completes the window
    config = _scoring(model.config, capacity_step(len(ids)), True)  # compiled for few lengths
    windows = gather(model.texts(config)(ids), jnp.array([0]), 0, config)
    layers, log_p = _read(model, windows, _one_stream(config), len(history), config)
    return State(layers, ids[:-1][-config.topic_window :]), log_p


def advance(model: Model, state: State, word: int) -> tuple[State, np.ndarray]:
    """Read one more word; return the same as `begin`."""
    config, eos, topics = _scoring(model.config, 1, True), model.vocabulary.eos, None
    ids = np.append(state.recent, np.int32(word))
    before = ids[None, -1:]
    if isinstance(model.structure, Topics):
        with_next = np.append(ids, np.int32(eos))  # the last word is not read
        topics = mixtures(model.structure, with_next, eos, config, config.across_lines, len(ids))[None]
    windows = Windows(*jax.device_put((before, np.zeros_like(before), before == eos, None, topics)))
    layers, log_p = _read(model, windows, state.layers, 0, config)
    return State(layers, ids[-config.topic_window :]), log_p


def log_prob(model: Model, history: np.ndarray) -> np.ndarray:
    """Compute log P of every word after a history, int32 [n], of one line: [N_w], nats."""
    return begin(model, history)[1]


def cost(config: Config, costs: Any = None) -> Cost:
    """Count what a word takes: the products of the cells and of the output; rows of R and U where rows are read."""
    N_h, g, out = config.num_hidden, len(config.cell.gates), output.work(config, None)
    of_cells = g * N_h * (config.num_features + config.num_topics + (2 * config.num_layers - 1) * N_h)
    rows = out.rows * N_h + config.num_features if out.rows else 0
    layers = f"{g} N_h (N_f + {'K + ' if config.num_topics else ''}(2 layers - 1) N_h)"
    formula = f"6 ({layers} + ({out.formula}) N_h) operations: cells, {config.objective}"
    return Cost(PRODUCT * (of_cells + out.products * N_h), rows, rows, formula)


def model(name: str, about: str, source: str, config: type[Config], recipes: dict[str, Any]) -> LanguageModel:
    """Return the record of a recurrent model."""
    return LanguageModel(
        name=name, about=about, source=source, config=config, recipes=recipes,
        fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program),
        structures=(WORD_TREE, TOPICS),
        capabilities=(
            PredictsWords(log_prob, event_log_probs, log_normalizers), CarriesState(begin, advance),
            Embeds(lambda params: params.R),
        ),
        cost=cost,
    )  # fmt: skip
