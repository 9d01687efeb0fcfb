"""The temporal factored RBM: the hidden units also get input from the hidden units at the previous word.

The biases of the hidden units at event τ + 1 are b_h + A p^τ, where their probabilities p^τ at event τ are carried
along the text (Eq. 3.14). All else is as in the factored RBM, from whose parameters training begins
(`jaxlm train tfrbm --init`).

Source: Mnih 2010, §3.2 (Eq. 3.14-3.15), §3.4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxfit.errors import UserError
from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.program import Carried, Metrics, Program, Sequential
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxlm import context_model
from jaxlm.capabilities import CarriesState, Embeds, PredictsWords
from jaxlm.context_model import PERPLEXITY, Batch, Targets, num_examples, texts
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.contexts import Text, gather_contexts, text_of, without_history
from jaxlm.models import frbm

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

STREAMS, BURN_IN = 256, 64  # of validation: events before each stream that it begins with
EVENTS = 1024  # of a text that are scored at a time


@dataclass(frozen=True)
class Config(frbm.Config):
    """What shapes the program; as for the factored RBM."""

    targets: Targets = option("words", decided=True)  # contexts, counted over the text, have no order

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.targets == "contexts":
            raise UserError("a tfrbm is trained on words in their order", "--targets contexts", "leave it out")


class Params(NamedTuple):
    """A: [N_h, N_h], from the hidden units of one event to those of the next; the rest as in `frbm.Params`."""

    R: Array
    W: Array
    b_h: Array
    b_v: Array
    A: Array


class State(NamedTuple):
    """What is carried from word to word.

    Attributes:
        context: int32 [c], oldest word first.
        a: [N_h], the hidden units' inputs from the context and from p.
    """

    context: Array
    a: Array


def init(key: Array, config: Config, counts: np.ndarray | Array) -> Params:
    """Return parameters before training: those of `frbm`, and temporal weights of zero (§3.4.1)."""
    return Params(*frbm.init(key, config, counts), A=jnp.zeros((config.num_hidden, config.num_hidden)))


def gather(data: Text, index: Array, capacity: int, config: Config) -> Batch:
    """Return the examples `index`, int32 [B], of a text; where lines begin afresh, `aux` marks the first of each."""
    batch = context_model.gather(data, index, capacity, config)
    return batch if config.across_lines else batch._replace(aux=batch.context[:, -1] == data.eos)


def _carried(batch: Batch, before: Array) -> Array:
    """Return p as the events receive it, [..., N_h]: zero at the first event of a line, where lines begin afresh."""
    return before if batch.aux is None else jnp.where(batch.aux[..., None], 0.0, before)


def shifted_input(params: Params, context: Array, before: Array) -> Array:
    """Compute the hidden units' inputs, [..., N_h], from contexts and p: the biases are b_h + A p.

    Args:
        context: int32 [..., c].
        before: p at the previous event, [..., N_h].
    """
    return frbm.hidden_input(params, context) + before @ params.A.T  # type: ignore[arg-type]


@jax.named_scope("filter")
def posterior(params: Params, a: Array, word: Array) -> Array:
    """Compute P(h = 1 | context, word) (Eq. 3.14), [..., N_h], from the inputs a, [..., N_h], and the next word."""
    return jax.nn.sigmoid(a + params.R[word] @ params.W[-1])


def loss(params: Params, example: Carried, key: Array, config: Config) -> tuple[Array, Array]:
    """Compute the loss of ONE event, and p after it: the specification.

    The loss is that of the factored RBM with shifted biases. What is carried is treated as a constant, so that the
    negative gradient by A is (p - p̂) p'ᵀ, where p' is p after the previous event (Eq. 3.15).
    """
    batch, before = example.batch, _carried(example.batch, example.carry)
    a = shifted_input(params, batch.context, before)
    of_frbm = frbm.Params(params.R, params.W, b_h=params.b_h + params.A @ before, b_v=params.b_v)
    return frbm.loss(of_frbm, batch, key, config), lax.stop_gradient(posterior(params, a, batch.word))


def batch_loss(
    params: Params, given: Carried, weight: Array, keys: Array, config: Config
) -> tuple[Array, Metrics, Array]:
    """Sum over the minibatch of weight * `loss`, the metrics of `frbm.batch_loss`, and the new carry, [B, N_h]."""
    batch, before = given.batch, _carried(given.batch, given.carry)
    a = shifted_input(params, batch.context, before)
    total, metrics = frbm.energy_loss(params, a, batch, weight, keys, config)
    return total, metrics, lax.stop_gradient(posterior(params, a, batch.word))


def score(params: Params, given: Carried, config: Config) -> tuple[Array, Array]:
    """Compute -log P(word) of each event given all before it, [B], in nats, and the new carry, [B, N_h]."""
    batch, before = given.batch, _carried(given.batch, given.carry)
    a = shifted_input(params, batch.context, before)
    return frbm.word_nats(params, a, batch.word), posterior(params, a, batch.word)


def start(config: Config) -> Array:
    """Return p before the first event: zero, so that the first posterior is that of Eq. 3.13."""
    return jnp.zeros(config.num_hidden)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over a `Text`."""
    return Program(
        config=config, size=num_examples, batch=gather, loss=batch_loss, score=score, metric=PERPLEXITY,
        training_metrics=frbm.training_metrics(config),
        sequential=Sequential(start, streams=STREAMS, burn_in=BURN_IN),
    )  # fmt: skip


def filtered(params: Params, before: Array, batch: Batch, first: Array) -> tuple[Array, Array]:
    """Run the filter over consecutive events (Eq. 3.14).

    Args:
        params: of the model.
        before: p before the first of them, [N_h].
        batch: of n events.
        first: bool[n], which events begin afresh, without p.

    Returns:
        p after the last, [N_h], and the hidden units' inputs before each word is known, [n, N_h].
    """
    inputs = frbm.hidden_input(params, batch.context)  # type: ignore[arg-type]
    of_words = params.R[batch.word] @ params.W[-1]

    def event(p: Array, given: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        a, u, fresh = given
        a += params.A @ jnp.where(fresh, 0.0, p)
        return jax.nn.sigmoid(a + u), a

    return lax.scan(event, before, (inputs, of_words, first))


@jax.jit
def _scored(params: Params, before: Array, batch: Batch, first: Array) -> tuple[Array, Array]:
    """Filter consecutive events; return p after them, and -log P of each word."""
    after, a = filtered(params, before, batch, first)
    return after, frbm.word_nats(params, a, batch.word)


@jax.jit
def _begun(params: Params, before: Array, batch: Batch, first: Array, last: Array) -> tuple[State, Array]:
    """Filter consecutive events; return the state at event `last`, and log P of every word there."""
    _, a = filtered(params, before, batch, first)
    return State(batch.context[last], a[last]), frbm.log_prob_of(params, a[last])


@jax.jit
def _advanced(params: Params, state: State, word: Array, fresh: Array) -> tuple[State, Array]:
    """Return the state after a word, and log P of every word then.

    Args:
        fresh: bool, whether the history begins afresh after the word.
    """
    p = jnp.where(fresh, 0.0, posterior(params, state.a, word))
    context = jnp.where(fresh, word, jnp.append(state.context[1:], word))
    a = shifted_input(params, context, p)
    return State(context, a), frbm.log_prob_of(params, a)


def _text(config: Config, ids: np.ndarray, eos: int) -> Text:
    """Return a text that nothing precedes; where training ran on across lines, its contexts have no words before it."""
    text = text_of(ids, eos)
    return without_history(text) if config.across_lines else text


def event_log_probs(model: Model, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Score a text in one online pass: float64 [events], nats."""
    config, eos = model.config, model.vocabulary.eos
    text, found, p = _text(config, ids, eos) if fresh_lines else text_of(ids, eos), [], start(config)
    across = config.across_lines and not fresh_lines
    for begin in range(0, len(ids), EVENTS):
        index = jnp.minimum(jnp.arange(begin, begin + EVENTS), max(0, len(ids) - 1))
        context, word = gather_contexts(text, index, config.context_size, across)
        batch, first = Batch(context, word), (context[:, -1] == eos) & (not across)
        p, nats = _scored(model.params, p, batch, first)
        found.append(np.asarray(nats))
    return -np.concatenate([*found, np.zeros(0)])[: len(ids)].astype(np.float64)


def begin(model: Model, history: np.ndarray) -> tuple[State, np.ndarray]:
    """Read a history, int32 [n]; return the state after it, and log P of every word that may follow, [N_w], nats."""
    config, eos = model.config, model.vocabulary.eos
    ids = np.append(history, eos).astype(np.int32)  # the last word is not read
    index = jnp.minimum(jnp.arange(capacity_step(len(ids))), len(history))  # compiled for few lengths
    context, word = gather_contexts(_text(config, ids, eos), index, config.context_size, config.across_lines)
    first = (context[:, -1] == eos) & (not config.across_lines)
    state, log_p = _begun(model.params, start(config), Batch(context, word), first, len(history))
    return state, np.asarray(log_p)


def advance(model: Model, state: State, word: int) -> tuple[State, np.ndarray]:
    """Read one more word; return the same as `begin`."""
    fresh = word == model.vocabulary.eos and not model.config.across_lines
    state, log_p = _advanced(model.params, state, np.int32(word), fresh)
    return state, np.asarray(log_p)


def log_prob(model: Model, history: np.ndarray) -> np.ndarray:
    """Compute log P of every word after a history, int32[n], of one line: [N_w], nats."""
    return begin(model, history)[1]


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a word takes: as for the factored RBM, and the products of A with p and their gradient."""
    plain = frbm.cost(config)
    operations = plain.operations + PRODUCT * 2 / 3 * config.num_hidden**2
    return Cost(operations, 0, 0, f"{plain.formula}; 4 N_h² operations: A")


# As of `frbm`; the rates of "tuned" are for training that begins with a trained `frbm`.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=1000, epochs=200, rate={"*": 1e-4},
            decay={"*": 1e-5, "R": 1e-4, "b_h": 0.0, "b_v": 0.0}, patience=3, reduction="sum",
        ),
        {},
    ),
    "tuned": (
        Recipe(
            optimizer="adam", batch_size=1000, epochs=10, rate={"*": 3e-3}, decay={"*": 0.0, "R": 0.2, "W": 0.02},
            anneal=True,
        ),
        {"num_draws": 4, "dropout": 0.2},
    ),
}  # fmt: skip

MODEL = LanguageModel(
    name="tfrbm",
    about="the temporal factored RBM",
    source="Mnih 2010, §3.2",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program),
    capabilities=(
        PredictsWords(log_prob, event_log_probs),
        CarriesState(begin, advance),
        Embeds(lambda params: params.R),
    ),
    cost=cost,
)
