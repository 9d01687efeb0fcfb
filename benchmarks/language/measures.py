"""What is measured of trained models: the columns that tables have in common."""

import numpy as np

from benchmarks.core.dry_run import epoch_seconds
from benchmarks.core.table import Measured
from benchmarks.language.models import Shelf, Spec
from jaxlm.tasks import mixture
from jaxlm.trees.paths import statistics

TURNS = 5  # that a speed is a median of


def perplexity(log_probs: np.ndarray) -> float:
    """exp of the mean of -log P over the events."""
    return float(np.exp(-np.mean(log_probs, dtype=np.float64)))


def test_perplexity(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of one model."""
    return {"perplexity": perplexity(shelf.get(specs[0]).events("test"))}


def each(names: tuple[str, ...], shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of several models, each in its column."""
    return {n: test_perplexity(shelf, (spec,))["perplexity"] for n, spec in zip(names, specs, strict=True)}


def reduction(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of a model with a random tree and one with a learned tree, and how much lower the second is."""
    random, learned = (test_perplexity(shelf, (spec,))["perplexity"] for spec in specs)
    return {"random": random, "learned": learned, "reduction": random - learned}


def mixed(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of a model, and of its mixtures with an n-gram model: (model, n-gram).

    With equal weights, and with the weight that maximises the likelihood of the validation text (Eq. 3.26).
    """
    model, ngram = (shelf.get(spec) for spec in specs)
    ours, others = model.events("test"), ngram.events("test")
    weight = mixture.fit_weight(model.events("valid"), ngram.events("valid"))
    return {
        "perplexity": perplexity(ours),
        "mixture": perplexity(mixture.mix(ours, others)),
        "fitted": perplexity(mixture.mix(ours, others, weight)),
        "proportion": weight,
    }


def tree_statistics(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of a model's tree."""
    counts = np.bincount(shelf.corpus.train, minlength=len(shelf.corpus.vocabulary))
    length, codes, nodes = statistics(shelf.get(specs[0]).tree(), counts)
    return {"length": length, "codes": codes, "nodes": nodes}


def minutes(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of an epoch of training, without validation and compilation: timed now, whenever the model was trained."""
    shelf.get(specs[0])  # a learned tree is there only then
    trainer, _ = shelf.trainer(specs[0])
    seconds = epoch_seconds(trainer, TURNS)
    return {"minutes": seconds / 60, "words": trainer.events / seconds}


def bias_variance(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of models trained on different training texts (Eq. 4.8-4.10)."""
    bias, variance = mixture.bias_variance([shelf.get(spec).events("test") for spec in specs])
    return {"bias": bias, "variance": variance}


def combined(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Perplexities of the average prediction of the first half of the models, the HLBLs, and of the n-grams."""
    half = len(specs) // 2
    parts = {"hlbl": specs[:half], "kn": specs[half:]}
    return {name: _of_average(shelf, part) for name, part in parts.items()}


def _of_average(shelf: Shelf, specs: tuple[Spec, ...]) -> float:
    return perplexity(mixture.average([shelf.get(spec).events("test") for spec in specs]))
