"""What models that predict the next word from a fixed number of words before it share: their data and predictions.

Such a model's Config has `num_words`, `context_size` and `across_lines` (whether contexts run on across line ends). It
may have `targets`: "words", or "contexts" to train on the distribution of the next word after each context of the
training text (§3.4.1), in place of the word. It may have the options of `jaxlm.objectives.output`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit import fit
from jaxfit.program import Mean, Metric, Metrics, Program, Ragged
from jaxfit.tables import rows_of
from jaxlm.capabilities import PredictsWords
from jaxlm.data import next_words
from jaxlm.data.contexts import Text, context_after, gather_contexts, text_of, without_history
from jaxlm.data.next_words import Following, NextWords
from jaxlm.objectives import output
from jaxlm.objectives.softmax import sum_log_normalizer
from jaxlm.topics import Topics, mixtures
from jaxlm.trees.paths import Tree

if TYPE_CHECKING:
    from jaxlm.trained_model import Model


def perplexity(nats: float) -> float:
    """Return exp of the mean -log P of a word, in nats; infinite where float64 cannot hold it."""
    with np.errstate(over="ignore"):
        return float(np.exp(nats))


@jax.named_scope("prediction")
def combined(C: jax.Array, vectors: jax.Array) -> jax.Array:
    """Combine the vectors of contexts linearly: r̂ = Σ_i C_i r_{w_i}, [..., N_f].

    Args:
        C: [c, N_f, N_f], the context matrices (Mnih 2010, Eq. 3.16, 4.1), or [c, N_f], diagonal ones (Eq. 4.7).
        vectors: [..., c, N_f].
    """
    return jnp.einsum("ij,...ij->...j" if C.ndim == 2 else "ijk,...ik->...j", C, vectors)


class Batch(NamedTuple):
    """Examples: contexts, and the word that follows each.

    Attributes:
        context: int32 [..., c], oldest word first.
        word: int32 [...].
        following: for targets "contexts", the distribution of the words that follow each context.
        aux: auxiliary data of a minibatch for the objective (`jaxlm.objectives.output.aux_of`).
        topics: float32 [..., K], the mixture of topics before the word, for models with topics.
    """

    context: jax.Array
    word: jax.Array
    following: Following | None = None
    aux: Any = None
    topics: jax.Array | None = None


class Cases(NamedTuple):
    """A text, and the distribution of the next word after each of its contexts."""

    text: Text
    next_words: NextWords


def num_examples(data: Text | Cases | output.Data) -> int:
    """Return the number of events of a text."""
    return int((data if isinstance(data, Text) else data.text).events)


def gather(data: Text | Cases | output.Data, index: jax.Array, capacity: int, config: Any) -> Batch:
    """Return the examples `index`, int32 [B], of a text; capacity: of ragged entries, for the objective or targets."""
    if isinstance(data, output.Data):
        plain = gather(data.text, index, 0, config)
        return plain._replace(aux=output.aux_of(data, plain.word, index, capacity))
    if isinstance(data, Cases):
        plain = gather(data.text, index, 0, config)
        return plain._replace(following=next_words.gather(data.next_words, index, capacity))
    plain = Batch(*gather_contexts(data, index, config.context_size, config.across_lines))
    return plain if data.topics is None else plain._replace(topics=data.topics[index])


def _costs(data: Cases) -> np.ndarray:
    return next_words.costs(data.next_words, num_examples(data))


Targets = Literal["words", "contexts"]
TARGETS_HELP = "train on each next word, or on the distribution of the next word after its context (§3.4.1)"
PERPLEXITY = Metric("perplexity", perplexity, 2)


def context_program(
    config: Any,
    batch_loss: Callable[..., Any],
    score: Callable[..., Any],
    training_metrics: tuple[Metric, ...] = (),
    touched: Callable[..., Any] | None = None,
) -> Program:
    """Return the program of a model over a `Text`, `Cases` or `output.Data`, from its losses over a `Batch`.

    Args:
        training_metrics: as in `Program`, for models whose loss is not the perplexity.
        touched: as in `output.adapted`, for models with the options of `jaxlm.objectives.output`.

    Raises:
        TypeError: config lacks a field that contexts are gathered by.
    """
    for name in ("context_size", "across_lines"):
        if not hasattr(config, name):
            raise TypeError(f"contexts are gathered by {name}: add the field to {type(config).__qualname__}")
    plain = Program(
        config=config, size=num_examples, batch=gather, loss=batch_loss, score=score, metric=PERPLEXITY,
        training_metrics=training_metrics, ragged=Ragged(_costs) if _by_contexts(config) else None,
    )  # fmt: skip
    return plain if touched is None else output.adapted(plain, touched)


def shared_batch_loss(
    params: Any, batch: Batch, weight: jax.Array, config: Any, predict: Callable[[Any, jax.Array], jax.Array]
) -> tuple[jax.Array, Metrics]:
    """Sum the losses of a minibatch, for models whose contexts and output share the vectors of words, R.

    Args:
        params: of the model, with fields R, b and head; `Gathered` for an objective that reads rows.
        batch: the minibatch.
        weight: [B], 0 for padding.
        config: of the model, with the options of `jaxlm.objectives.output`.
        predict: (params, vectors of contexts, [B, c, N_f]) -> predicted vectors r̂, [B, N_f].
    """
    if output.reads_rows(config):
        rows, n = rows_of(params), batch.context.size
        r_hat = predict(rows, rows.R[:n].reshape(*batch.context.shape, -1))
        return output.batch_loss(rows.R[n:], rows.b, rows.head, r_hat, batch.word, batch.aux, weight, config)
    if config.objective != "softmax":
        r_hat = predict(params, params.R[batch.context])
        return output.batch_loss(params.R, params.b, params.head, r_hat, batch.word, batch.aux, weight, config)
    # read at once, so that the gradient by R adds to rows once: else it would need R's memory twice
    rows = params.R[jnp.concatenate([batch.context, batch.word[:, None]], axis=1)]
    r_hat = predict(params, rows[:, :-1])
    if batch.following is None:
        target = jnp.sum(r_hat * rows[:, -1], axis=1) + params.b[batch.word]
    else:  # the expectation under the distribution of what follows
        R, b = (next_words.expected(table, batch.following, len(weight)) for table in (params.R, params.b))
        target = jnp.sum(r_hat * R, axis=1) + b
    total = sum_log_normalizer(params.R, params.b, r_hat, weight) - weight @ target
    return total, {"perplexity": Mean(total, jnp.sum(weight))}


def shared_touched(batch: Batch, config: Any, params: Any) -> Any:
    """Return the rows of R, b and the head that a step of `shared_batch_loss` reads, int32 [k]; None for the rest.

    Args:
        params: the type of the parameters.
    """
    ids = output.row_ids(batch.word, batch.aux, config)
    R, head = output.shared_rows(batch.context.reshape(-1), ids, config)
    return params(**{**dict.fromkeys(params._fields), "R": R, "b": ids, "head": head})


def _by_contexts(config: Any) -> bool:
    return getattr(config, "targets", "words") == "contexts"


def texts(
    config: Any, eos: int, structure: Tree | Topics | None = None
) -> Callable[[np.ndarray], Text | Cases | output.Data]:
    """Return a function from ids, int32 [events], to the text on the device, as the model's program reads it.

    Args:
        config: of the model.
        eos: id of the line end.
        structure: the model's tree or topics, if any.
    """

    def text(ids: np.ndarray) -> Text:
        found = mixtures(structure, ids, eos, config, config.across_lines) if isinstance(structure, Topics) else None
        return text_of(ids, eos, found)

    if isinstance(config, output.Options) and config.objective != "softmax":
        codes = output.codes(structure if isinstance(structure, Tree) else None)
        return lambda ids: output.data(text(ids), ids, config, codes())
    if not _by_contexts(config):
        return text

    def cases(ids: np.ndarray) -> Cases:
        found = examples(ids, config.context_size, eos, config.across_lines)
        return Cases(text(ids), next_words.count(*map(np.asarray, found)))

    return cases


def examples(ids: np.ndarray, context_size: int, eos: int, across_lines: bool = True) -> tuple[jax.Array, jax.Array]:
    """Return all examples of a text as plain arrays, for a training loop of your own.

    Objectives other than the softmax need more (`docs/your-own-loop.md`).

    Args:
        ids: int32 [N], the words of each line and then eos.
        context_size: number of words of a context, c.
        eos: id of the line end, which also fills the contexts before the text.
        across_lines: whether contexts run on across line ends.

    Returns:
        Contexts, int32 [N, c], oldest word first, and the words that follow them, int32 [N].
    """
    return gather_contexts(text_of(ids, eos), jnp.arange(len(ids)), context_size, across_lines)


def of_structure(model: Model, history: np.ndarray) -> dict[str, Any]:
    """Return, by name, the arguments for `log_prob` that a model's structure gives after a history, int32 [n]."""
    structure = model.record.structure_of(asdict(model.config))
    return {} if structure is None else structure.for_prediction(model.structure, history, model)


def predicts_from_context(
    log_prob: Callable[..., jax.Array], log_normalizer: Callable[..., jax.Array] | None = None
) -> PredictsWords:
    """Return the capability to predict words; events are scored by the model's program.

    Where a line begins afresh although contexts ran on across lines in training, its context is one line end, before
    which the vectors of words are zeros. Predictions are then nearly as good as with the lines before. With several
    line ends in a row, which training never saw, they would be worse.

    Args:
        log_prob: (params, context: int32 [c], oldest first, config, **of_structure) -> [N_w], nats. It is compiled once
            for all models of equal config and sizes.
        log_normalizer: (params, batch, config) -> [B], for models with the options of `jaxlm.objectives.output`.
    """
    compiled = jax.jit(log_prob, static_argnums=2)

    def of_history(model: Model, history: np.ndarray) -> np.ndarray:
        config = model.config
        context = context_after(history, model.vocabulary.eos, config.context_size, config.across_lines)
        return np.asarray(compiled(model.params, context, config, **of_structure(model, history)))

    def log_normalizers(model: Model, ids: np.ndarray) -> np.ndarray | None:
        return _scores(model, ids, model.config, log_normalizer) if output.is_unnormalized(model.config) else None

    return PredictsWords(of_history, _score_events, log_normalizers if log_normalizer else None)


def _score_events(model: Model, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Score a text: float64 [events], nats."""
    return -_scores(model, ids, replace(model.config, across_lines=False) if fresh_lines else model.config)


def _scores(model: Model, ids: np.ndarray, config: Any, score: Callable[..., jax.Array] | None = None) -> np.ndarray:
    """Compute a score of each event of a text, float64 [events]; by default -log P, in nats."""
    if len(ids) == 0:
        return np.zeros(0)
    if _by_contexts(config):  # scores are of words
        config = replace(config, targets="words")
    if isinstance(config, output.Options):
        config = output.exact(config)
    fitting: Any = model.record.fitting
    program, data = fitting.program(config), model.texts(config)(ids)
    if model.config.across_lines and not config.across_lines:
        data = without_history(data)
    scored = fit.scores(replace(program, score=score or program.score), model.params, data)
    return scored.astype(np.float64)
