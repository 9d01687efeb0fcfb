"""What skip-gram and CBOW have in common: their configuration, parameters and program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.program import Program, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxlm.capabilities import FillsGaps, Gap
from jaxlm.models.word2vec import blocks, outputs
from jaxlm.models.word2vec.blocks import Blocks, Data
from jaxlm.objectives import output, sampled
from jaxlm.objectives.tree import codes
from jaxlm.trees.paths import Tree


@dataclass(frozen=True)
class Config(outputs.Options):
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_features: int = option(100, "word vector dimensionality", "features", first=True)
    window: int = option(5, "most words on each side that are in a window", "words", first=True, high=100)
    subsample: float = option(
        1e-3, "threshold of subsampling: words of a larger share of the text are randomly left out; 0: none"
    )
    across_lines: bool = option(False, "windows reach across line ends")
    block_size: int = option(16, "consecutive words that are an example", "words")

    draws_widths: ClassVar[bool] = True  # of windows


class Params(NamedTuple):
    """Parameters.

    Attributes:
        W: [N_w, N_f], the words' vectors.
        C: [N_w, N_f], vectors of predicted words, or [N_w - 1, N_f] of a tree's nodes.
    """

    W: Array
    C: Array


def init(key: Array, config: Config, counts: np.ndarray | Array, tree: Tree | None = None) -> Params:
    """Draw W uniformly within ±1/(2 N_f), as the authors' program does, zeros for words that are in no window; C is 0.

    Args:
        counts: [N_w], from `blocks.counts`.
    """
    D, rows = config.num_features, output.num_scored(config)
    drawn = jax.random.uniform(key, (config.num_words, D), minval=-0.5 / D, maxval=0.5 / D)
    return Params(jnp.where(jnp.asarray(counts)[:, None] > 0, drawn, 0), jnp.zeros((rows, D)))


def texts(config: Config, eos: int, tree: Tree | None = None) -> Callable[[np.ndarray], Data]:
    """Return a function from ids, int32 [events], to a text's `Data`."""
    of_tree = output.codes(tree)
    return lambda ids: blocks.data(ids, eos, config, of_tree())


def gather(data: Data, index: Array, capacity: int, config: Config) -> Blocks:
    """Gather the blocks `index`, int32 [B]."""
    words, left, right = blocks.gather(data, index, config)
    if config.objective == "tree":
        centres = blocks.centres(Blocks(words, left, right, None), config)
        return Blocks(words, left, right, outputs.padded_paths(data.codes, centres))
    assert data.noise is not None
    return Blocks(words, left, right, sampled.Source(data.noise, index))


def with_noise(batch: Blocks, key: Array, fraction: Array, config: Config) -> Blocks:
    """Draw the noise of a step: `Program.at_step`."""
    return batch._replace(aux=blocks.draw_noise(batch.aux, key, config.block_noise))


def touched(batch: Blocks, config: Config) -> Params:
    """Return the rows that a minibatch reads."""
    return Params(batch.words.reshape(-1), outputs.row_ids(blocks.centres(batch, config), batch.aux))


def fills_gaps(fit: Callable[..., NDArray[np.float32]], of_word: bool) -> FillsGaps:
    """Return the capability to fill gaps.

    Args:
        fit: (params, around, words, codes, config) -> how well words fit, [n], nats; params: in NumPy, as JAX would
            compile for each length of a line; around: int32 [m], the words around the gap.
        of_word: whether words are predicted from those around them, and not the reverse. The log-probability of a word
            w in the text is then the learned score, plus log P_n(w) if that is a ratio to noise, minus the logarithm of
            the share of w's occurrences that subsampling keeps.
    """

    def scores(model: Any, gaps: Sequence[Gap]) -> list[np.ndarray]:
        params, of_tree = jax.device_get(model.params), None if model.structure is None else codes(model.structure)
        added, vocabulary = np.zeros(len(model.vocabulary)), model.vocabulary
        if of_word:
            added -= blocks.log_kept(vocabulary.counts, vocabulary.eos, model.config)
            if of_tree is None:
                added += model.config.noise_power * np.log(np.maximum(vocabulary.counts, 1))  # and a constant
        return [
            np.asarray(fit(params, np.concatenate(gap[:2]), gap.words, of_tree, model.config), np.float64)
            + added[gap.words]
            for gap in gaps
        ]

    return FillsGaps(scores, of_word)


def program(loss: Callable[..., Any], score: Callable[..., Any], config: Config) -> Program:
    """Return a model as the engine sees it.

    Args:
        loss: its `batch_loss`.
    """
    return blocks.block_program(
        config=config, batch=gather, loss=loss, score=score, metric=outputs.METRICS[config.objective],
        training_metrics=(outputs.DRAWN[config.objective],),
        at_step=None if config.objective == "tree" else with_noise, sparse=Sparse(touched),
    )  # fmt: skip


def cost(config: Config, predictions: float, against_noise: float) -> Cost:
    """Count what a word takes: products of vectors, and rows that are read and added to, of which a block shares some.

    The path to a word in a tree is taken to be as long as that of a balanced one.

    Args:
        predictions: number of predictions of a centre, for windows of the mean width.
        against_noise: number of vectors, for each word, that are multiplied by a block's noise vectors.
    """
    D, M, around = config.num_features, config.block_size, 2 * config.window / config.block_size
    if config.objective == "tree":
        path = np.log2(config.num_words)
        products, rows, formula = predictions * path, path, "L J products of D; rows of 1 + 2c/M words, L nodes"
    else:
        products, rows = predictions + against_noise * config.block_noise, 1 + config.block_noise / M
        formula = "J + S products of D with words and noise; rows of 2 + (2c + S)/M words"
    numbers = D * (1 + around + rows)
    return Cost(PRODUCT * D * products, numbers, numbers, formula)


# Differs: row-wise AdaGrad, where the authors' program has SGD with a falling rate. A minibatch adds up the gradients
# of a frequent word's many windows, or of a node near the root of a tree; by SGD that diverges for a small vocabulary.
# The table `embeddings` compares it with AdaGrad, whose steps take half as long again, and with blocks of 32 words,
# which share as many noise words: steps take less time, and the vectors are worse.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(
            optimizer="rowwise-adagrad", batch_size=32, epochs=5, rate={"*": 0.1}, decay={"*": 0.0}, reduction="sum"
        ),
        {},
    ),
}
