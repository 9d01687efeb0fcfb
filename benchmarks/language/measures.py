"""What is measured of trained models: the columns that tables have in common."""

from functools import lru_cache

import numpy as np

from benchmarks.core.table import Measured, Timed
from benchmarks.core.timing import EpochTimer, interleaved
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks import mixture
from jaxlm.trees.paths import statistics


def perplexity(log_probs: np.ndarray) -> float:
    """Compute exp of the mean of -log P over the events."""
    return float(np.exp(-np.mean(log_probs, dtype=np.float64)))


def test_perplexity(store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure the test perplexity of a model."""
    return {"perplexity": perplexity(store.get(specs[0]).predictions("test"))}


def each(names: tuple[str, ...], store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure the test perplexities of several models, each in its column."""
    return {n: test_perplexity(store, (spec,))["perplexity"] for n, spec in zip(names, specs, strict=True)}


def reduction(store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure a model with a random tree and one with a learned tree, and how much lower the second is."""
    random, learned = (perplexity(store.get(spec).predictions("test")) for spec in specs)
    return {"random": random, "learned": learned, "reduction": random - learned}


def mixed(store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure a model, and its mixtures with an n-gram model: (model, n-gram).

    With equal weights, and with the weight that maximises the likelihood of the validation text (Eq. 3.26).
    """
    model, ngram = (store.get(spec) for spec in specs)
    ours, others = model.predictions("test"), ngram.predictions("test")
    weight = mixture.fit_weight(model.predictions("valid"), ngram.predictions("valid"))
    return {
        "perplexity": perplexity(ours),
        "mixture": perplexity(mixture.mix(ours, others)),
        "fitted": perplexity(mixture.mix(ours, others, weight)),
        "proportion": weight,
    }


def tree_statistics(store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure a model's tree."""
    counts = np.bincount(store.corpus.train, minlength=len(store.corpus.vocabulary))
    length, codes, nodes = statistics(store.tree(specs[0]), counts)
    return {"length": length, "codes": codes, "nodes": nodes}


def minutes(together: tuple[Spec, ...], store: LanguageStore, specs: tuple[Spec, ...]) -> Timed:
    """Time an epoch of training, without validation and compilation: now, whenever the model was trained.

    together: all models that are compared, which are timed in alternating rounds when the first is asked for.
    """
    seconds, words = _epochs(store, together)[specs[0]]
    return {"minutes": [second / 60 for second in seconds], "words": [words / second for second in seconds]}


@lru_cache(maxsize=1)
def _epochs(store: LanguageStore, together: tuple[Spec, ...]) -> dict[Spec, tuple[list[float], int]]:
    """Return of each model the seconds of an epoch, round by round, and its words."""
    for spec in together:
        store.get(spec)  # a learned tree is there only then
    timers = {spec: EpochTimer(store.trainer(spec), store.scale.window) for spec in together}
    rounds = interleaved({spec: timer.seconds for spec, timer in timers.items()})
    return {spec: (rounds[spec], timer.trainer.events) for spec, timer in timers.items()}


def bias_variance(store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure bias and variance of models of different training texts (Eq. 4.8-4.10)."""
    bias, variance = mixture.bias_variance([store.get(spec).predictions("test") for spec in specs])
    return {"bias": bias, "variance": variance}


def combined(store: LanguageStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure the average prediction of the first half of the models, the HLBLs, and that of the n-grams."""
    half = len(specs) // 2
    measured = {}
    for name, averaged in (("hlbl", specs[:half]), ("kn", specs[half:])):
        measured[name] = perplexity(mixture.average([store.get(spec).predictions("test") for spec in averaged]))
    return measured
