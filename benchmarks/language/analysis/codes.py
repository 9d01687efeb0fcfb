"""Which words have the most codes in learned trees, by how often they occur (§6.1)."""

from functools import lru_cache

import numpy as np

from benchmarks.core.table import Measured
from benchmarks.core.verdict import Scores
from benchmarks.language.analysis.frequency import bins
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.trees.paths import paths

SHOWN = 3  # words of a bin, those with most codes
MOST = 0.1  # share of the words that count as those with the most codes


@lru_cache(maxsize=16)
def num_codes(store: LanguageStore, spec: Spec) -> np.ndarray:
    """Return the number of codes of each word in a model's tree, int [N_w]."""
    return np.diff(paths(store.tree(spec)).word_codes)


def measure(names: tuple[str, ...], number: int, store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the mean number of codes of the words of a bin, each word counted once.

    Args:
        names: columns, one for each model.
        number: of the bin, from 0 for the rarest words.
        store: of the models.
        specs: models that have trees.

    Returns:
        `words`, how many the bin has; the mean of each model; and `most`, the words with most codes of the last one.
    """
    inside = bins(store) == number
    measured: dict[str, float | str | Scores] = {"words": float(inside.sum())}
    if not inside.any():
        return measured
    for name, spec in zip(names, specs, strict=True):
        codes = num_codes(store, spec)
        measured[name] = Scores(np.where(inside, codes, 0.0), inside.astype(float), np.positive)
    top = np.flatnonzero(inside)[np.argsort(-codes[inside], kind="stable")[:SHOWN]]
    return measured | {"most": ", ".join(f"{store.corpus.vocabulary.words[i]} {codes[i]}" for i in top)}


def rarity(store: LanguageStore, spec: Spec) -> tuple[Scores, Scores] | None:
    """Measure the mean logarithm of how often words occur: of those with the most codes, and of all others.

    Those with the most codes are a tenth of the words, and any others with as many codes. None if these are all words.
    """
    codes, counts = num_codes(store, spec), store.corpus.word_counts()
    most = codes >= np.quantile(codes, 1 - MOST)
    if most.all():
        return None
    logs = np.log(np.maximum(counts, 1))
    of_most, of_others = (Scores(np.where(i, logs, 0.0), i.astype(float), np.positive) for i in (most, ~most))
    return of_most, of_others
