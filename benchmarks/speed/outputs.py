"""Training speed of a model with each output layer, by the number of words in the vocabulary."""

from typing import Any

import numpy as np

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved, step_rate
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.measurement import limits
from benchmarks.speed.throughput import Figures
from jaxlm.models import lbl
from jaxlm.trees import build as trees

MODEL, RATE, SOFTMAX = "lbl", "words/s", "softmax"
CONFIG = {"num_features": 100, "context_size": 5}
EVENTS, BATCH, STEPS = 100_000, 1000, 20
GROWING = (10_000, 100_000, 1_000_000)  # words
OUTPUTS: dict[str, dict[str, Any]] = {
    SOFTMAX: {},
    "classes": {"objective": "classes"},
    "tree": {"objective": "tree"},
    "NCE": {"objective": "nce"},
    "NCE, shared noise": {"objective": "nce", "shared_noise": True},
    "importance, shared noise": {"objective": "importance", "shared_noise": True},
}
LIMITS = f"{limits.LIMITS} in the rounds of these"


def measure() -> Figures:
    """Measure training steps of the LBL by SGD (100 features, context 5, batches of 1000) in words per second.

    All output layers and vocabularies are measured in alternating rounds. There are as many classes as the square root
    of the number of words, the tree is a Huffman tree, and noise is 25 words.
    """
    recipe = lbl.RECIPES["thesis"][0]
    assert recipe.batch_size == BATCH
    names = {(output, number): f"{output}, {number:,} words" for number in GROWING for output in OUTPUTS}
    measures = {}
    for number in GROWING:
        corpus = speed_text(number, EVENTS)
        for output, options in OUTPUTS.items():
            tree = trees.huffman(corpus.word_counts()) if output == "tree" else None
            made = trainer(MODEL, corpus, recipe, {**CONFIG, **options}, tree)
            steps = 1 if output == SOFTMAX else STEPS  # which takes seconds for a million words
            measures[names[output, number]] = step_rate(made, steps)
    measured = interleaved({**limits.measures(), **measures})
    rates = {name: np.asarray(found) for name, found in measured.items()}
    tables: dict[str, Any] = {}
    for output in OUTPUTS:
        tables[output] = {}
        for number in GROWING:
            rate = rates[names[output, number]]
            tables[output][f"{number:,} words"] = {
                RATE: quartiles(rate),
                f"times {SOFTMAX}": quartiles(rate / rates[names[SOFTMAX, number]]),
                f"of that of {GROWING[0]:,} words": quartiles(rate / rates[names[output, GROWING[0]]]),
            }
    lines = {o: [[float(n), float(np.median(rates[names[o, n]]))] for n in GROWING] for o in OUTPUTS}
    return {
        "setting": {"model": MODEL, "features": 100, "context": 5, "minibatch": BATCH, "optimizer": recipe.optimizer},
        "tables": {**tables, LIMITS: limits.table(measured)},
        "limits": dict.fromkeys(OUTPUTS, LIMITS),
        "curves": {"throughput by vocabulary": {"x": "words", "y": RATE, "log": True, "log y": True, "lines": lines}},
    }
