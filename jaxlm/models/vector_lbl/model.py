"""What vLBL and ivLBL have in common: their configuration, parameters, noise and program.

Words are distinguished from noise words by scores s = q̂·q_w + b_w, which are treated as log-probabilities.
Differs: all predictions of a block of words share their noise, where the paper draws it for each; the expectation is
the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.program import Metric, Program, Sparse
from jaxfit.recipe import Recipe, option
from jaxlm.capabilities import FillsGaps, Gap
from jaxlm.models.word2vec import blocks
from jaxlm.models.word2vec.blocks import Blocks, Data
from jaxlm.objectives import sampled
from jaxlm.objectives.base_rates import log_base_rates

METRIC = sampled.METRICS["nce"]
DRAWN = Metric(f"{METRIC.name} of drawn windows", float)


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_features: int = option(100, "word vector dimensionality", "features", first=True)
    window: int = option(5, "words on each side that are in a window", "words", first=True, high=100)
    position_dependent: bool = option(True, "a vector of weights for each position of the window, learned")
    subsample: float = option(
        0.0, "threshold of subsampling: words of a larger share of the text are randomly left out; 0: none"
    )
    across_lines: bool = option(False, "windows reach across line ends")
    num_noise: int = option(5, "noise words of a prediction, which a block shares", "words", first=True)
    noise_power: float = option(1.0, "power of the words' frequencies in the noise; 0: all words alike", high=10)
    block_size: int = option(16, "consecutive words that are an example", "words")

    draws_widths: ClassVar[bool] = False  # of windows


class Params(NamedTuple):
    """Parameters.

    Attributes:
        R: [N_w, N_f], vectors of the words that predict.
        Q: [N_w, N_f], vectors of the words predicted.
        b: [N_w], biases of the words predicted.
        c: [2 window, N_f], weights of positions; None if all positions are alike.
    """

    R: Array
    Q: Array
    b: Array
    c: Array | None


def init(key: Array, config: Config, counts: np.ndarray | Array) -> Params:
    """Draw R uniformly within ±1/(2 N_f), zeros for words that are in no window; Q is 0, b gives base rates.

    All positions have the weights 1 at first. Differs: the paper does not state its initial parameters.

    Args:
        counts: [N_w], from `blocks.counts`.
    """
    N_w, D, J = config.num_words, config.num_features, 2 * config.window
    drawn = jax.random.uniform(key, (N_w, D), minval=-0.5 / D, maxval=0.5 / D)
    return Params(
        R=jnp.where(jnp.asarray(counts)[:, None] > 0, drawn, 0),
        Q=jnp.zeros((N_w, D)),
        b=log_base_rates(counts),
        c=jnp.ones((J, D)) if config.position_dependent else None,
    )


def texts(config: Config, eos: int) -> Callable[[np.ndarray], Data]:
    """Return a function from ids, int32 [events], to a text's `Data`."""
    return lambda ids: blocks.data(ids, eos, config, None)


def gather(data: Data, index: Array, capacity: int, config: Config) -> Blocks:
    """Gather the blocks `index`, int32 [B]."""
    assert data.noise is not None
    return Blocks(*blocks.gather(data, index, config), sampled.Source(data.noise, index))


def with_noise(batch: Blocks, key: Array, fraction: Array, config: Config) -> Blocks:
    """Draw the noise of a step, of each block: `Program.at_step`."""
    words, log_p = blocks.draw_noise(batch.aux, key, config.num_noise), batch.aux.noise.log_p
    return batch._replace(aux=sampled.Drawn(words, log_p[words], log_p[blocks.centres(batch, config)]))


def touched(batch: Blocks, config: Config) -> Params:
    """Return the rows that a minibatch reads."""
    predicted = jnp.concatenate([blocks.centres(batch, config).reshape(-1), batch.aux.words.reshape(-1)])
    return Params(batch.words.reshape(-1), predicted, predicted, None)


def nats(params: Params, q_hat: Array, word: Array, aux: sampled.Drawn, of_word: Array) -> Array:
    """Compute the loss of ONE prediction, from whole parameters.

    Args:
        q_hat: [D].
        aux: noise of a block.
        of_word: log P_n(word).
    """
    of_noise = params.Q[aux.words] @ q_hat + params.b[aux.words]
    return sampled.nce(params.Q[word] @ q_hat + params.b[word], of_noise, of_word, aux.log_p)


def batch_nats(read: Params, q_hat: Array, held: Array, noise: sampled.Drawn) -> Array:
    """Sum the losses of a minibatch's predictions over each block: [B].

    Args:
        read: the rows that `touched` names.
        q_hat: [B, M, J, D], the J vectors that predict each centre.
        held: bool [B, M, J], which of them are within the window.
        noise: of each block.
    """
    B, M, _, D = q_hat.shape
    (Q, noise_Q), (b, noise_b) = (jnp.split(table, [B * M]) for table in (read.Q, read.b))
    of_next = jnp.einsum("bmjd,bmd->bmj", q_hat, Q.reshape(B, M, D)) + b.reshape(B, M, 1)
    of_noise = jnp.einsum("bmjd,bkd->bmjk", q_hat, noise_Q.reshape(B, -1, D)) + noise_b.reshape(B, 1, 1, -1)
    nats = sampled.nce(of_next, of_noise, noise.of_word[:, :, None], noise.log_p[:, None, None])
    return jnp.sum(jnp.where(held, nats, 0), axis=(1, 2))


def windows(batch: Blocks, config: Config) -> Array:
    """Return which words around each centre are within its window: bool [B, M, J]."""
    left, right = (side.astype(jnp.int32)[..., None] for side in (batch.left, batch.right))
    return blocks.holds(left, right, jnp.array(blocks.offsets(config.window))[None, None])


def fills_gaps(fit: Callable[..., NDArray[np.float32]], of_word: bool) -> FillsGaps:
    """Return the capability to fill gaps by the words within a window of them.

    Args:
        fit: (params, around, places, words) -> how well words fit, [n], nats; params: in NumPy, as JAX would compile
            for each length of a line; around: int32 [m], the words around the gap; places: int32 [m], their offsets
            from it.
        of_word: as in `FillsGaps`.
    """

    def scores(model: Any, gaps: Sequence[Gap]) -> list[np.ndarray]:
        params, c = jax.device_get(model.params), model.config.window
        found, log_kept = [], np.zeros(len(model.vocabulary))
        if of_word:  # training sees only a share of a frequent word's occurrences
            log_kept = blocks.log_kept(model.vocabulary.counts, model.vocabulary.eos, model.config)
        for before, after, words in gaps:
            around = np.concatenate([before[-c:], after[:c]])
            places = np.concatenate([np.arange(-min(c, len(before)), 0), np.arange(1, 1 + min(c, len(after)))])
            found.append(np.asarray(fit(params, around, places, words), np.float64) - log_kept[words])
        return found

    return FillsGaps(scores, of_word)


def weights(params: Any, places: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the weights c for offsets from the predicted word, [m, N_f], or ones [1, 1] if positions are alike.

    Args:
        params: `Params`, in NumPy.
        places: int32 [m], the offsets.
    """
    if params.c is None:
        return np.ones((1, 1), np.float32)
    return params.c[places + len(params.c) // 2 - (places > 0)]  # in the order of `blocks.offsets`


def program(loss: Callable[..., Any], score: Callable[..., Any], config: Config) -> Program:
    """Return a model as the engine sees it.

    Args:
        loss: its `batch_loss`.
    """
    return blocks.block_program(
        config=config, batch=gather, loss=loss, score=score, metric=METRIC, training_metrics=(DRAWN,),
        at_step=with_noise, sparse=Sparse(touched),
    )  # fmt: skip


RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(
            optimizer="adagrad", batch_size=32, epochs=5, rate={"*": 0.1, "c": 0.01}, decay={"*": 0.0}, reduction="sum"
        ),
        {},
    ),
}  # fmt: skip
