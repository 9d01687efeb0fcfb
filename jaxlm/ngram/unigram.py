"""The unigram model: relative frequencies of words, smoothed by adding one."""

import numpy as np
from numpy.typing import NDArray

from jaxlm.contract import LanguageModel
from jaxlm.ngram.counts import check
from jaxlm.ngram.model import CAPABILITIES, LOG_ZERO, NGram, NoConfig, Table, by_counting


def train(ids: NDArray[np.int32], vocab_size: int, eos: int) -> NGram:
    """Estimate P(w) = (c(w) + 1) / (N + N_w) from N events `ids`, words and line ends; errors as `counts.check`."""
    check(ids, vocab_size, order=1)
    counts = np.bincount(ids, minlength=vocab_size)
    log_prob = np.log((counts + 1) / (len(ids) + vocab_size))
    size = vocab_size + 1
    return NGram(vocab_size, eos, (Table(np.arange(size), np.append(log_prob, LOG_ZERO), np.zeros(size)),))


MODEL = LanguageModel(
    name="unigram",
    about="relative frequencies of words, smoothed by adding one",
    source="Laplace",
    config=NoConfig,
    fitting=by_counting(lambda ids, num_words, eos, config: train(ids, num_words, eos)),
    capabilities=CAPABILITIES,
)
