"""Words per second of skip-gram and CBOW beside gensim's, epoch by epoch in alternating rounds."""

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved, pass_seconds
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.language.tasks import gensim_vectors
from benchmarks.measurement import limits, machine
from benchmarks.speed.peers import missing
from benchmarks.speed.throughput import Figures
from jaxfit.devices.cores import cores
from jaxlm import models as registry
from jaxlm.data.corpus import Corpus

CASES = tuple(gensim_vectors.ALGORITHMS)
OURS, THEIRS = "jaxlm", gensim_vectors.PACKAGE
EVENTS, NUM_WORDS = 1_000_000, 30_000
TITLE, LIMITS = "whole epochs", f"{limits.LIMITS} in the rounds of whole epochs"


def our_epochs(name: str, corpus: Corpus, words: int) -> Callable[[], float]:
    """Return a function that trains for an epoch, drawing its words and windows, and returns words per second."""
    recipe, config = registry.get(name).recipes["tuned"]
    training, numbers = trainer(name, corpus, recipe, config), count()
    return lambda: words / pass_seconds(training, next(numbers))[0]


def their_epochs(name: str, corpus: Corpus, path: Path, words: int) -> Callable[[], float]:
    """Return a function that does the same with gensim."""
    _, options = registry.get(name).recipes["tuned"]
    config = registry.get(name).configure(len(corpus.vocabulary), None, options)
    train = gensim_vectors.epochs(gensim_vectors.prepare(name, path, config, 1, cores()), path, 1, words)

    def rate() -> float:
        begin = perf_counter()
        train()
        return words / (perf_counter() - begin)

    return rate


def measure(name: str, peers: bool = False, events: int = EVENTS, num_words: int = NUM_WORDS) -> Figures:
    """Measure a model's training in words of the text per second, beside gensim where that is installed."""
    corpus = speed_text(num_words, events)
    out = missing(THEIRS) if peers else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.txt"
        words = gensim_vectors.write_lines(corpus, path)
        measures = {**limits.measures(), OURS: our_epochs(name, corpus, words)}
        if peers and out is None:
            measures[THEIRS] = their_epochs(name, corpus, path, words)
        rates = interleaved(measures)
    table: dict[str, dict[str, Any]] = {OURS: {"words/s": quartiles(rates[OURS])}}
    if THEIRS in rates:
        ratio = np.divide(rates[OURS], rates[THEIRS])
        table[THEIRS] = {"words/s": quartiles(rates[THEIRS]), f"{OURS} / this": quartiles(ratio)}
    return {
        "setting": {
            "text of whole epochs": corpus.note, "threads": machine.threads(OURS),
            **({"left out": f"{THEIRS}: {out}"} if out else {}),
        },
        "tables": {TITLE: table, LIMITS: limits.table(rates)},
        "limits": {TITLE: LIMITS},
    }  # fmt: skip
