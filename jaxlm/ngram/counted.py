"""What the records of n-gram models share: their files, their predictions, their options."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxlm.contract import ByCounting, HasNGrams, PredictsWords
from jaxlm.ngram import model
from jaxlm.ngram.counts import MAX_ORDER
from jaxlm.ngram.model import NGram


@dataclass(frozen=True)
class NoConfig:
    """A model without options."""


@dataclass(frozen=True)
class OrderConfig:
    """What shapes a model of n-grams."""

    order: int = option(5, "length of the longest n-grams", f"words, 1 to {MAX_ORDER}", high=MAX_ORDER)


def by_counting(estimate: Callable[[np.ndarray, int, int, Any], NGram]) -> ByCounting:
    """Fitting by counting n-grams; estimate: (ids, num_words, eos, config) -> NGram."""
    return ByCounting(estimate=estimate, save=model.save, load=_load)


def _load(directory: Path, num_words: int) -> NGram:
    found = model.load(directory)
    if found.vocab_size != num_words:
        what = f"the n-grams are over {found.vocab_size:,} words and the vocabulary has {num_words:,}"
        raise UserError(what, directory, "its files do not belong together: train it again")
    return found


def _log_prob(trained: Any, history: np.ndarray) -> np.ndarray:
    """Behind a line end, as in `_event_log_probs`."""
    return trained.params.log_prob(np.concatenate([[trained.vocabulary.eos], history]))


def _event_log_probs(trained: Any, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    """Every line begins afresh, whatever `fresh_lines` is."""
    return trained.params.event_log_probs(ids)


CAPABILITIES = (PredictsWords(_log_prob, _event_log_probs), HasNGrams(lambda params: params))
