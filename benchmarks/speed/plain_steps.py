"""Training speed of language models by plain SGD and Adam beside PyTorch, in alternating rounds."""

from collections.abc import Callable
from importlib import import_module
from itertools import cycle, islice
from typing import Any

import jax
import numpy as np

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved, step_rate, windowed
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.measurement import limits
from benchmarks.measurement.threads import threads
from benchmarks.speed.peers import missing
from benchmarks.speed.throughput import Figures, share
from jaxfit.draws import permutation
from jaxfit.recipe import Recipe
from jaxlm import models as registry
from jaxlm.contract import BySGD
from jaxlm.data import contexts
from jaxlm.data.corpus import Corpus

STEPS, EVENTS = 8, 100_000
LIMITS = f"{limits.LIMITS} in the rounds of plain steps"
OURS, THEIRS = "jaxlm", "PyTorch"


# a model's options; `benchmarks.speed.peers` has the same step in PyTorch
CASES: dict[str, dict[str, Any]] = {
    "lbl": {"num_features": 100, "context_size": 5},
    "frbm": {"num_features": 100, "context_size": 2, "num_hidden": 1000},
}


def our_steps(name: str, recipe: Recipe, corpus: Corpus) -> Callable[[], float]:
    """Return a function that takes STEPS steps in the engine's compiled loop and returns words per second."""
    return step_rate(trainer(name, corpus, recipe, CASES[name]), STEPS)


def torch_steps(name: str, recipe: Recipe, corpus: Corpus, compiled: bool) -> Callable[[], float]:
    """Return a function that takes as many steps, likewise one minibatch after the other, in PyTorch."""
    peer, ids = import_module(f"benchmarks.speed.peers.{name}_torch"), corpus.train
    model, size = registry.get(name), CASES[name]["context_size"]
    config = model.configure(len(corpus.vocabulary), None, CASES[name])
    assert isinstance(model.fitting, BySGD)
    params = model.fitting.init(jax.random.key(0), config, corpus.word_counts())
    arrays = [np.asarray(p) for p in jax.tree.leaves(params)]
    step, _ = peer.make_step(arrays, recipe.optimizer, recipe.rate["*"], recipe.decay["*"], compiled)
    order = np.asarray(permutation(jax.random.key(1), len(ids)))
    padded = np.asarray(contexts.pad(ids, size, 0).padded)
    numbers = cycle(range(len(order) // recipe.batch_size))

    def steps() -> None:
        for i in islice(numbers, STEPS):
            index = order[i * recipe.batch_size : (i + 1) * recipe.batch_size, None]
            window = padded[index + np.arange(size + 1)]
            step(window[:, :-1], window[:, -1].astype(np.int64))

    return lambda: STEPS * recipe.batch_size / float(np.mean(windowed(steps)))


def measure(name: str, peers: bool = False, num_words: int = 10_000, batch_size: int = 1000) -> Figures:
    """Measure a model's training in words per second, and what it is compared with.

    PyTorch, eager and compiled, trains on the CPU with all cores. Where it is not installed, or the device is another,
    it is left out, and the setting says so.
    """
    out = None
    if peers:
        out = missing("torch") if jax.default_backend() == "cpu" else "it would train on the CPU"
    corpus, model = speed_text(num_words, EVENTS), registry.get(name)
    measures = limits.measures()
    rows: dict[str, str] = {}  # each with the row of ours that it is compared with
    for optimizer, rate in (("sgd", 0.1), ("adam", 1e-3)):
        no_decay = {name: 0.0 for name in model.fitting.parameters if name.startswith("b")}  # type: ignore[union-attr]
        recipe = Recipe(optimizer, batch_size, 1, rate={"*": rate}, decay={"*": 1e-2, **no_decay})  # type: ignore[arg-type]
        ours = f"{OURS}, {optimizer}"
        rows[ours], measures[ours] = ours, our_steps(name, recipe, corpus)
        if peers and out is None:
            import torch

            torch.set_num_threads(threads())
            for kind in ("eager", "compiled"):
                theirs = f"{THEIRS} {kind}, {optimizer}"
                rows[theirs] = ours
                measures[theirs] = torch_steps(name, recipe, corpus, kind == "compiled")
    rates = interleaved(measures)
    config = model.configure(num_words, None, CASES[name])
    assert model.cost is not None
    operations = model.cost(config, None).operations
    table: dict[str, dict[str, Any]] = {}
    for row, ours in rows.items():
        table[row] = {
            "words/s": quartiles(rates[row]),
            "share of the matrix rate": share(rates, row, limits.OPERATIONS, operations),
        }
        if row != ours:
            table[row][f"{OURS} / this"] = quartiles(np.divide(rates[ours], rates[row]))
    return {
        "setting": {
            **({"left out": f"{THEIRS}: {out}"} if out else {}),
            **{field.replace("_", " "): value for field, value in CASES[name].items()}, "minibatch": batch_size,
        },
        "tables": {(title := f"plain steps, {num_words:,} words"): table, LIMITS: limits.table(rates)},
        "limits": {title: LIMITS},
    }  # fmt: skip
