"""GloVe: word vectors whose products are near the logarithms of how often words occur near one another.

Source: Pennington, Socher and Manning 2014, §3 (Eq. 8-9), §4.2. Differs, besides what `RECIPES` says: the line end and
`<unk>` are words like any other, so that they have vectors, too, and count in the distances of other words.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.files.large_arrays import Collector, shuffled
from jaxfit.files.limits import require_countable
from jaxfit.program import Mean, Metric, Metrics, Program, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import Gathered, require_whole, rows_of
from jaxlm.capabilities import Embeds
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data import cooccurrence

METRIC = Metric("weighted squared error", float)
# The validation loss, of the rare pairs of a small text, soon gets worse, while the agreement of the vectors with
# people's judgements of similarity still improves.
RESULT: Literal["best", "last"] = "last"
GROUP_SIZE = 64  # maximum pairs in a group, drawn once, that every epoch visits together


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_features: int = option(100, "word vector dimensionality", "features", first=True)
    window: int = option(10, "largest distance of two words that are counted", "words", first=True)
    across_lines: bool = option(False, "count pairs across line ends")
    x_max: float = option(100.0, "count from which on all pairs weigh the same", low=0.01)
    alpha: float = option(0.75, "exponent of count / x-max in a pair's weight")
    init_scale: float = option(0.01, "standard deviation of initial vectors")
    num_events: int | None = option(None, decided=True)  # of the training text

    def given_counts(self, counts: NDArray[np.int64]) -> Self:
        """Return this configuration with what the counts of the training text decide, [N_w]."""
        return replace(self, num_events=int(counts.sum()))


class Params(NamedTuple):
    """Parameters.

    Attributes:
        W: [N_w, N_f], vectors of words.
        C: [N_w, N_f], vectors of contexts, the paper's W̃.
        b: [N_w], biases of words.
        c: [N_w], biases of contexts, the paper's b̃.
    """

    W: Array
    C: Array
    b: Array
    c: Array


class Batch(NamedTuple):
    """Pairs.

    Attributes:
        word: int32 [...], word i.
        context: int32 [...], context j.
        log: float32 [...], log X_ij.
        f: float32 [...], f(X_ij).
    """

    word: Array
    context: Array
    log: Array
    f: Array


def init(key: Array, config: Config, counts: np.ndarray | Array) -> Params:
    """Draw small Gaussian vectors, zeros for words that do not occur (the paper does not say how); biases are 0.

    Args:
        counts: [N_w], of the training text.
    """
    shape = config.num_words, config.num_features
    occurs = jnp.asarray(counts)[:, None] > 0
    W, C = (jnp.where(occurs, config.init_scale * jax.random.normal(k, shape), 0) for k in jax.random.split(key))
    return Params(W, C, jnp.zeros(config.num_words), jnp.zeros(config.num_words))


def texts(config: Config, eos: int) -> Callable[[np.ndarray], Array]:
    """Return a function from ids, int32 [events], to the pairs of a text: int32 [pairs, 4], for `gather`."""
    return lambda ids: pairs(ids, eos, config)


def pairs(ids: np.ndarray, eos: int, config: Config) -> Array:
    """Count the pairs of a text, in random order: int32 [pairs, 4], the fields of a `Batch` as bits.

    For a text other than that of training, log X_ij is the logarithm of its counts times the ratio of the training
    text's length to its own, since counts grow with the text; f(X_ij) uses the counts themselves, on which the
    reliability of their logarithms depends.

    Raises:
        UserError: no two words are near one another, or there are too many pairs.
    """
    longer = (config.num_events or len(ids)) / len(ids)
    with Collector(np.int32) as collected:
        for upper in cooccurrence.count(ids, config.num_words, config.window, None if config.across_lines else eos):
            other = upper.i != upper.j
            i, j = (
                np.concatenate((own, other_own[other])) for own, other_own in ((upper.i, upper.j), (upper.j, upper.i))
            )
            X = np.concatenate((upper.X, upper.X[other]))
            log, f = np.log(longer * X), np.minimum(1, (X / config.x_max) ** config.alpha)
            fields = i, j, *(values.astype(np.float32).view(np.int32) for values in (log, f))
            collected.append(np.stack(fields, axis=1).ravel())
            require_countable(collected.number // len(fields), "pairs of words", "--window")
        found = collected.array().reshape(-1, len(Batch._fields))
    if len(found) == 0:
        raise UserError("the text has no two words near one another", do="give longer lines, or --context-across-lines")
    return jax.device_put(shuffled(found, np.random.default_rng(0)))


def gather(data: Array, index: Array, capacity: int, config: Config) -> Batch:
    """Gather the pairs `index`, int32 [B]."""
    rows = data.at[index].get(mode="clip")
    log, f = (jax.lax.bitcast_convert_type(rows[:, place], jnp.float32) for place in (2, 3))
    return Batch(rows[:, 0], rows[:, 1], log, f)


def loss(params: Params, example: Batch, config: Config) -> Array:
    """Compute f(X_ij) (w_i·w̃_j + b_i + b̃_j - log X_ij)² for ONE pair (Eq. 8): the specification."""
    require_whole(params)
    i, j = example.word, example.context
    return example.f * jnp.square(params.W[i] @ params.C[j] + params.b[i] + params.c[j] - example.log)


@jax.named_scope("prediction")
def errors(read: Params, batch: Batch) -> Array:
    """Compute f(X_ij) times the squared error of each pair, [B], from the rows that `touched` names."""
    predicted = jnp.sum(read.W * read.C, axis=1) + read.b + read.c
    return batch.f * jnp.square(predicted - batch.log)


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`."""
    total = weight @ errors(rows_of(params), batch)
    return total, {METRIC.name: Mean(total, jnp.sum(weight))}


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows that a minibatch reads."""
    return Params(batch.word, batch.context, batch.word, batch.context)


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute the `loss` of each pair, [B]."""
    i, j = batch.word, batch.context
    return errors(Params(params.W[i], params.C[j], params.b[i], params.c[j]), batch)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over what `texts` returns."""
    return Program(
        config=config, batch=gather, loss=batch_loss, score=score, metric=METRIC, group_size=GROUP_SIZE,
        result=RESULT, sparse=Sparse(touched),
    )  # fmt: skip


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a pair takes: the product of two rows, which are read and written with their biases."""
    numbers = 2 * (config.num_features + 1)
    formula = "6 D operations; 16 + 8 · 2 (D + 1) bytes: the pair, rows of W and C with their biases"
    return Cost(PRODUCT * config.num_features, 4 + numbers, numbers, formula)


# Differs: the authors' program takes pairs one by one, in 50 epochs, and its AdaGrad begins at one; here it takes the
# mean gradient of a minibatch, and begins at zero. The 1e-10 that is added to its sums of squares is as much as a start
# at 1e-4 with the sum over 1000 pairs: it makes the steps of rare words shorter.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(optimizer="adagrad", batch_size=1000, epochs=25, rate={"*": 0.05}, decay={"*": 0.0}),
        {},
    ),
}

MODEL = LanguageModel(
    name="glove",
    about="GloVe, word vectors from weighted counts of pairs",
    source="Pennington et al. 2014, §3",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program, unit="pairs"),
    capabilities=(Embeds(lambda params: params.W + params.C, ("W", "C")),),
    cost=cost,
)
