"""Perplexity by the frequency of the next word, or of the last context word: Tables 3.3, 3.4 and 4.10 to 4.12."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from benchmarks.core.table import Measured
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks import frequency

Words = Callable[[np.ndarray, int], np.ndarray]  # ids, eos -> the word of each event that decides its bin


def next_word(ids: np.ndarray, eos: int) -> np.ndarray:
    """Return the words that are predicted, int32 [events]."""
    return ids


def last_context_word(ids: np.ndarray, eos: int) -> np.ndarray:
    """Return the words before those that are predicted, int32 [events]."""
    return frequency.previous_words(ids, eos)


@lru_cache(maxsize=2)
def bins(store: LanguageStore) -> np.ndarray:
    """Return the bin of each word by its count in the training text, int64 [N_w], from 0 for the rarest."""
    return frequency.equal_mass_bins(store.corpus.word_counts())


def measure(words: Words, number: int, store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Compare two models on the events of a bin: perplexities, their ratio and its logarithm.

    Args:
        words: gives the word of each event that decides its bin.
        number: of the bin, from 0.
        store: of the models.
        specs: two models.
        part: of the text, "valid" or "test".

    Returns:
        `words`, how many the bin has, and `share` of the events, in %; where there are events, the `first` model's
        and the `second`'s perplexity, their `ratio`, first over second, and its natural logarithm, `log_ratio`.
    """
    text, bin_of = getattr(store.corpus, part), bins(store)
    inside = bin_of[words(text, store.corpus.vocabulary.eos)] == number
    sizes = {"words": float(np.sum(bin_of == number)), "share": 100 * float(inside.mean())}
    if not inside.any():
        return sizes
    first, second = (-store.get(spec).predictions(part) for spec in specs)
    seeded = [store.stepwise(spec) for spec in specs]
    return {
        **sizes,
        "first": store.by_blocks(first, part, seeded[0], inside=inside),
        "second": store.by_blocks(second, part, seeded[1], inside=inside),
        "ratio": store.by_blocks(first - second, part, any(seeded), inside=inside),
        "log_ratio": store.by_blocks(first - second, part, any(seeded), np.positive, inside),
    }
