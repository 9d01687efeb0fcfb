"""Measurements of trained models: the columns that tables have in common.

Perplexity is the exponential of the mean of -log P over the events (Eq. 2.2). The argument `part` is the part of the
text, "valid" or "test".
"""

from functools import lru_cache

import numpy as np

from benchmarks.core.table import Measured
from benchmarks.core.timing import EpochTimer, interleaved
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks import mixture
from jaxlm.trees.paths import statistics


def perplexity(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the perplexity of a model."""
    return {"perplexity": store.perplexity(specs[0], part)}


def perplexity_and_minutes(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the perplexity of a model, and the minutes of its training."""
    return {**perplexity(store, specs, part), "minutes": training_minutes(store, specs[0])}


def each(names: tuple[str, ...], store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the perplexities of several models, each in its column."""
    return {name: store.perplexity(spec, part) for name, spec in zip(names, specs, strict=True)}


def less(names: tuple[str, str, str], store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the perplexities of two models, and the first less the second.

    Args:
        names: names of these three columns.
    """
    first, second = (store.perplexity(spec, part) for spec in specs)
    return dict(zip(names, (first, second, (first, second)), strict=True))


def mixed(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the perplexity of a model, and of its mixtures with an n-gram model: `specs` are (model, n-gram).

    The mixtures have equal weights, or the weight that maximises the likelihood of the validation text (Eq. 3.26).
    """
    ours, others = (store.get(spec).predictions(part) for spec in specs)
    proportion = store.proportion(*specs)
    return {
        "perplexity": store.perplexity(specs[0], part),
        "mixture": store.by_blocks(-mixture.mix(ours, others), part, seeded=True),
        "fitted": store.by_blocks(-mixture.mix(ours, others, proportion), part, seeded=True),
        "proportion": proportion,
    }


def training_minutes(store: LanguageStore, spec: Spec) -> float:
    """Return the minutes of training: all epochs by their median time, or the estimation of a counted model."""
    info = store.get(spec).info
    if not store.stepwise(spec):
        return info["seconds"]["estimate"] / 60
    return len(info["history"]) * info["timing"]["seconds_per_epoch"] / 60


def tree_statistics(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure a model's tree: mean code length, mean number of codes, number of non-leaf nodes."""
    counts = np.bincount(store.corpus.train, minlength=len(store.corpus.vocabulary))
    length, codes, nodes = statistics(store.tree(specs[0]), counts)
    return {"length": length, "codes": codes, "nodes": float(nodes)}


def minutes(together: tuple[Spec, ...], store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Time an epoch of training now, whenever the model was trained, without validation and compilation.

    Args:
        together: all models that are compared; they are timed in alternating rounds at the first call.
    """
    seconds, words = _epochs(store, together)[specs[0]]
    return {"minutes": [second / 60 for second in seconds], "words": [words / second for second in seconds]}


@lru_cache(maxsize=1)
def _epochs(store: LanguageStore, together: tuple[Spec, ...]) -> dict[Spec, tuple[list[float], int]]:
    """Return, for each model, the seconds of an epoch, round by round, and the number of its words."""
    for spec in filter(store.has_structure, together):
        store.get(spec)  # a learned tree exists only then
    timers = {spec: EpochTimer(store.trainer(spec), store.scale.window) for spec in together}
    rounds = interleaved({spec: timer.seconds for spec, timer in timers.items()})
    return {spec: (rounds[spec], timer.trainer.events) for spec, timer in timers.items()}


def bias_variance(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the bias and the variance, in nats per event, of models of different training texts (Eq. 4.8-4.10)."""
    log_probs = np.stack([store.get(spec).predictions(part) for spec in specs])
    combined, seeded = mixture.average(log_probs), store.stepwise(specs[0])
    return {
        "bias": store.by_blocks(-combined, part, seeded, np.positive),  # the mean is the figure
        "variance": store.by_blocks(combined - log_probs.mean(axis=0), part, seeded, np.positive),
    }


def combined(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure perplexities of averaged predictions: of the first half of the models, the HLBLs, and of the n-grams."""
    half, measured = len(specs) // 2, {}
    for name, averaged in (("hlbl", specs[:half]), ("kn", specs[half:])):
        log_probs = mixture.average([store.get(spec).predictions(part) for spec in averaged])
        measured[name] = store.by_blocks(-log_probs, part, store.stepwise(averaged[0]))
    return measured
