"""How fast the log-bilinear model trains by plain SGD and by Adam, compared with PyTorch; all in alternating rounds."""

from collections.abc import Callable
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
from jaxlm.data import contexts
from jaxlm.data.corpus import Corpus
from jaxlm.models import lbl

STEPS, EVENTS = 8, 100_000
LIMITS = f"{limits.LIMITS} in the rounds of plain steps"
OURS, THEIRS = "jaxlm", "PyTorch"


def our_steps(config: lbl.Config, recipe: Recipe, corpus: Corpus) -> Callable[[], float]:
    """Return a function that takes STEPS steps in the engine's compiled loop and returns words per second."""
    given = {"num_features": config.num_features, "context_size": config.context_size}
    return step_rate(trainer("lbl", corpus, recipe, given), STEPS)


def torch_steps(config: lbl.Config, recipe: Recipe, ids: np.ndarray, compiled: bool) -> Callable[[], float]:
    """Return a function that takes as many steps, likewise one minibatch after the other, in PyTorch."""
    from benchmarks.speed.peers import lbl_torch

    params = lbl.init(jax.random.key(0), config, np.bincount(ids, minlength=config.num_words))
    arrays = [np.asarray(p) for p in params]
    step, _ = lbl_torch.make_step(arrays, recipe.optimizer, recipe.rate["*"], recipe.decay["*"], compiled)
    order = np.asarray(permutation(jax.random.key(1), len(ids)))
    padded = np.asarray(contexts.pad(ids, config.context_size, 0).padded)
    numbers = cycle(range(len(order) // recipe.batch_size))

    def steps() -> None:
        for i in islice(numbers, STEPS):
            index = order[i * recipe.batch_size : (i + 1) * recipe.batch_size, None]
            window = padded[index + np.arange(config.context_size + 1)]
            step(window[:, :-1], window[:, -1].astype(np.int64))

    return lambda: STEPS * recipe.batch_size / float(np.mean(windowed(steps)))


def measure(peers: bool = False, num_words: int = 10_000, batch_size: int = 1000) -> Figures:
    """Measure LBL training (100 features, context 5) in words per second, and what it is compared with.

    PyTorch, eager and compiled, trains on the CPU with all cores. Where it is not installed, or the device is another,
    it is left out, and the setting says so.
    """
    out = None
    if peers:
        out = missing("torch") if jax.default_backend() == "cpu" else "it would train on the CPU"
    config = lbl.Config(num_words, num_features=100, context_size=5)
    corpus = speed_text(num_words, EVENTS)
    measures = limits.measures()
    rows: dict[str, str] = {}  # each with the row of ours that it is compared with
    for name, rate in (("sgd", 0.1), ("adam", 1e-3)):
        recipe = Recipe(name, batch_size, 1, rate={"*": rate}, decay={"*": 1e-2, "b": 0.0})  # type: ignore[arg-type]
        ours = f"{OURS}, {name}"
        rows[ours], measures[ours] = ours, our_steps(config, recipe, corpus)
        if peers and out is None:
            import torch

            torch.set_num_threads(threads())
            for kind in ("eager", "compiled"):
                theirs = f"{THEIRS} {kind}, {name}"
                rows[theirs] = ours
                measures[theirs] = torch_steps(config, recipe, corpus.train, kind == "compiled")
    rates = interleaved(measures)
    table: dict[str, dict[str, Any]] = {}
    for row, ours in rows.items():
        table[row] = {
            "words/s": quartiles(rates[row]),
            "share of the matrix rate": share(rates, row, limits.OPERATIONS, lbl.cost(config).operations),
        }
        if row != ours:
            table[row][f"{OURS} / this"] = quartiles(np.divide(rates[ours], rates[row]))
    return {
        "setting": {
            **({"left out": f"{THEIRS}: {out}"} if out else {}),
            "features": config.num_features, "context": config.context_size, "minibatch": batch_size,
        },
        "tables": {(title := f"plain steps, {num_words:,} words"): table, LIMITS: limits.table(rates)},
        "limits": {title: LIMITS},
    }  # fmt: skip
