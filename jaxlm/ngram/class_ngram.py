"""The class-based n-gram model: n-grams of classes of words, and words by their frequency in their class.

    P(w | history) = P(w | class(w)) P(class(w) | classes of the history)

The second factor is an interpolated modified Kneser-Ney model of the text of classes. The line end has a class of its
own. With a class for each word, the model is `kn`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.run_dir.arrays import read_npz
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.manifest import REPAIR
from jaxlm.capabilities import PredictsWords
from jaxlm.contract import ByCounting, LanguageModel
from jaxlm.ngram import kneser_ney, model
from jaxlm.ngram.brown import brown
from jaxlm.ngram.counts import check
from jaxlm.ngram.exchange import exchange
from jaxlm.ngram.model import NGram, OrderConfig
from jaxlm.ngram.word_classes import Floats, Ints, bigrams

FILE = "classes.npz"
DAMAGED = "damaged classes of words"


class ClassNGram(NamedTuple):
    """The parameters of the model.

    Attributes:
        ngram: the n-grams of classes.
        classes: the class of each word, int64 [N_w].
        log_prob: log P(w | class(w)), nats, float64 [N_w].
    """

    ngram: NGram
    classes: NDArray[np.int64]
    log_prob: Floats

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the number of words, and of n-grams of classes by order."""
        return {"words": self.classes.shape, **{f"{k} of classes": size for k, size in self.ngram.sizes().items()}}


@dataclass(frozen=True)
class Config(OrderConfig):
    """What shapes the model."""

    num_classes: int = option(300, "number of classes; a text of fewer words has as many", "classes", low=2, first=True)
    method: Literal["exchange", "brown"] = option("exchange", "how classes are found", first=True)
    passes: int = option(
        10, "passes of the exchange algorithm over all words, at most", "passes", only_with=("method", ("exchange",))
    )


def train(ids: NDArray[np.int32], num_words: int, eos: int, config: Config) -> ClassNGram:
    """Find classes that make the class bigram likelihood high, and estimate both factors.

    P(w | c) = n(w) / n(c). Words that the text lacks are in the class that has most of its rarest words, since they
    are likely to be like these; together they count there as one more event, of which each has the same share.

    Source: Brown et al. 1992, §3; Martin, Liermann and Ney 1998.

    Args:
        ids: [events], the words of each line, then `eos`.
        num_words: N_w.
        eos: id of the line end.
        config: what shapes the model.

    Raises:
        UserError: as `counts.check`.
    """
    check(ids, num_words, config.order)
    frequency = np.bincount(ids, minlength=num_words)
    classes = word_classes(ids, frequency, eos, config)
    size = np.bincount(classes, frequency)
    lacking = frequency == 0
    size[classes[lacking]] += 1  # once: they are all of one class
    prob = np.where(lacking, 1 / max(1, np.sum(lacking)), frequency) / size[classes]
    text = classes[ids].astype(np.int32)
    # each class follows so many others that the discounts of unigrams are hardly ever defined
    ngram = kneser_ney.train(text, len(size), int(classes[eos]), config.order, expected=(1,))
    return ClassNGram(ngram, classes, np.log(prob))


def word_classes(ids: NDArray[np.int32], frequency: Ints, eos: int, config: Config) -> NDArray[np.int64]:
    """Return the class of each word, int64 [N_w]; 0 is the class of the line end, and no class is empty."""
    seen = np.flatnonzero(frequency)
    num_classes, alone = min(config.num_classes, len(seen)), int(np.searchsorted(seen, eos))
    counts = bigrams(np.searchsorted(seen, ids).astype(np.int32), len(seen))
    if config.method == "brown":
        found = brown(counts, num_classes, alone)
    else:
        found = exchange(counts, num_classes, alone, config.passes)
    words = seen[seen != eos]
    rarest = found[seen != eos][frequency[words] == np.min(frequency[words], initial=len(ids))]
    classes = np.full(len(frequency), np.argmax(np.bincount(rarest)) if len(rarest) else 1)
    classes[seen] = found
    return classes


def save(params: ClassNGram, directory: Path) -> None:
    """Write the model atomically to `ngram.npz` and `classes.npz`; raises UserError where that fails."""
    model.save(params.ngram, directory)
    with replacing(directory / FILE) as path, open(path, "wb") as file:
        np.savez(file, allow_pickle=False, classes=params.classes, log_prob=params.log_prob)


def load(directory: Path, num_words: int, eos: int, config: Config) -> ClassNGram:
    """Read a model written by `save`.

    Raises:
        UserError: a file is missing, damaged, or of another vocabulary, number of classes or order than the others.
    """
    path = directory / FILE
    try:
        arrays = read_npz(path, DAMAGED, REPAIR)
        classes, log_prob = arrays["classes"], arrays["log_prob"]
    except (FileNotFoundError, KeyError) as error:
        raise UserError(DAMAGED, path, REPAIR) from error
    typed = classes.dtype == np.int64 and log_prob.dtype == np.float64 and classes.shape == log_prob.shape
    if not (typed and classes.shape == (num_words,) and np.min(classes) >= 0 and np.max(classes) < num_words):
        raise UserError(DAMAGED, path, REPAIR)
    with np.errstate(all="ignore"):
        sums = np.bincount(classes, np.exp(log_prob))
        if not np.all(np.abs(sums - 1) < model.SUM_ERROR):  # false for NaN
            raise UserError(f"{DAMAGED}: probabilities of words do not sum to one", path, REPAIR)
    return ClassNGram(model.load(directory, len(sums), int(classes[eos]), config), classes, log_prob)


def _log_prob(trained: Any, history: np.ndarray) -> np.ndarray:
    """Predict after a line end, as `_event_log_probs` does."""
    ngram, classes, log_prob = trained.params
    return ngram.log_prob([ngram.eos, *classes[history]])[classes] + log_prob


def _event_log_probs(trained: Any, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Score a text; every line begins afresh, whatever `fresh_lines` is."""
    ngram, classes, log_prob = trained.params
    return ngram.event_log_probs(classes[ids].astype(np.int32)) + log_prob[ids]


MODEL = LanguageModel(
    name="class-ngram",
    about="n-grams of classes of words",
    source="Brown et al. 1992, §3; Martin, Liermann and Ney 1998",
    config=Config,
    fitting=ByCounting(estimate=train, save=save, load=load),
    capabilities=(PredictsWords(_log_prob, _event_log_probs),),
)
