"""Training speed of language models by plain SGD and Adam beside PyTorch, in alternating rounds."""

from collections.abc import Callable
from importlib import import_module
from itertools import cycle, islice
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved, step_rate, windowed
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.measurement import limits, machine
from benchmarks.speed.peers import missing
from benchmarks.speed.throughput import Figures, share
from jaxfit.devices.cores import cores
from jaxfit.draws import permutation
from jaxfit.recipe import Recipe
from jaxlm import models as registry
from jaxlm.contract import BySGD
from jaxlm.data.corpus import Corpus

STEPS, EVENTS = 8, 100_000
LIMITS = f"{limits.LIMITS} in the rounds of plain steps"
OURS, THEIRS = "jaxlm", "PyTorch"


class Case(NamedTuple):
    """A model's options, the module of `benchmarks.speed.peers` with the same step in PyTorch, and the minibatch."""

    options: dict[str, Any]
    peer: str
    batch_size: int = 1000


_CONTEXTS = {"num_features": 100, "context_size": 5}
_RECURRENT = Case({"num_features": 200, "num_hidden": 200, "num_layers": 2}, "recurrent_torch", 32)
CASES = {
    "lbl": Case(_CONTEXTS, "lbl_torch"),
    "nplm": Case({**_CONTEXTS, "num_hidden": 200}, "nplm_torch"),
    "nlbl": Case({**_CONTEXTS, "num_hidden": 200}, "nlbl_torch"),
    **dict.fromkeys(("rnn", "lstm", "gru"), _RECURRENT),
    "frbm": Case({"num_features": 100, "context_size": 2, "num_hidden": 1000}, "frbm_torch"),
}


def our_steps(name: str, recipe: Recipe, corpus: Corpus) -> Callable[[], float]:
    """Return a function that takes STEPS steps in the engine's compiled loop and returns words per second."""
    training = trainer(name, corpus, recipe, CASES[name].options)
    rate, words = step_rate(training, STEPS), training.events / training.size  # of an example
    return lambda: rate() * words


def torch_steps(name: str, recipe: Recipe, corpus: Corpus, compiled: bool) -> Callable[[], float]:
    """Return a function that takes as many steps in PyTorch, likewise minibatch by minibatch: words per second."""
    from benchmarks.speed.peers.torch_step import wait

    peer, model = import_module(f"benchmarks.speed.peers.{CASES[name].peer}"), registry.get(name)
    config = model.configure(len(corpus.vocabulary), None, CASES[name].options)
    assert isinstance(model.fitting, BySGD)
    params = model.fitting.init(jax.random.key(0), config, corpus.word_counts())
    step, _ = peer.make_step(params, config, recipe.optimizer, recipe.rate["*"], recipe.decay["*"], compiled)
    batches = _of_windows if hasattr(config, "window") else _of_contexts
    minibatch, number, words = batches(corpus.train, recipe.batch_size, config)
    numbers = cycle(range(number))

    def steps() -> None:
        for i in islice(numbers, STEPS):
            step(*minibatch(i))
        wait()

    return lambda: STEPS * words / float(np.mean(windowed(steps)))


def _make_ready() -> str | None:
    """Let PyTorch use all cores, and full float32 like ours; return why it cannot be compared, or None."""
    if (absent := missing("torch")) is not None:
        return absent
    import torch

    from benchmarks.speed.peers.torch_step import device

    torch.set_num_threads(cores())
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False  # which recurrent layers would use
    ours, theirs = jax.default_backend(), {"cpu": "cpu", "cuda": "gpu"}[device().type]
    return None if ours == theirs else f"it would train on the {theirs.upper()}"


# i -> what minibatch i reads, and its next words; the number of minibatches; the number of words in each
Minibatches = tuple[Callable[[int], tuple[np.ndarray, np.ndarray]], int, int]


def _of_contexts(ids: np.ndarray, batch_size: int, config: Any) -> Minibatches:
    """Shuffle a text's contexts, int[B, c], and the words after them, int[B]."""
    size, order = config.context_size, np.asarray(permutation(jax.random.key(1), len(ids), len(ids)))
    padded = np.pad(ids, (size, 0))

    def minibatch(i: int) -> tuple[np.ndarray, np.ndarray]:
        index = order[i * batch_size : (i + 1) * batch_size, None]
        window = padded[index + np.arange(size + 1)]
        return window[:, :-1], window[:, -1].astype(np.int64)

    return minibatch, len(order) // batch_size, batch_size


def _of_windows(ids: np.ndarray, batch_size: int, config: Any) -> Minibatches:
    """Cut a text into parallel streams, of which a minibatch has the next windows: words and those before, [B, T]."""
    T = config.window
    number = len(ids) // (batch_size * T)
    words = ids[: batch_size * number * T].astype(np.int64).reshape(batch_size, -1)
    before = np.pad(words, ((0, 0), (1, 0)))[:, :-1]
    return lambda i: (before[:, i * T : (i + 1) * T], words[:, i * T : (i + 1) * T]), number, batch_size * T


def measure(name: str, peers: bool = False, num_words: int = 10_000) -> Figures:
    """Measure a model's training in words per second, and what it is compared with.

    PyTorch, eager and compiled, trains on the same device (a CPU with all its cores). NumPy lays out each of its
    minibatches in the host's memory, which is timed, too. Where PyTorch is not installed, or cannot use that device, it
    is left out, and the setting says so.
    """
    out = None
    if peers:
        out = _make_ready()
    corpus, model, case = speed_text(num_words, EVENTS), registry.get(name), CASES[name]
    measures = limits.measures()
    rows: dict[str, str] = {}  # each with the row of ours that it is compared with
    for optimizer, rate in (("sgd", 0.1), ("adam", 1e-3)):
        no_decay = {name: 0.0 for name in model.fitting.parameters if name.startswith("b")}  # type: ignore[union-attr]
        recipe = Recipe(optimizer, case.batch_size, 1, rate={"*": rate}, decay={"*": 1e-2, **no_decay})  # type: ignore[arg-type]
        ours = f"{OURS}, {optimizer}"
        rows[ours], measures[ours] = ours, our_steps(name, recipe, corpus)
        if peers and out is None:
            for kind in ("eager", "compiled"):
                theirs = f"{THEIRS} {kind}, {optimizer}"
                rows[theirs] = ours
                measures[theirs] = torch_steps(name, recipe, corpus, kind == "compiled")
    rates = interleaved(measures)
    config = model.configure(num_words, None, case.options)
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
            "threads": machine.threads(OURS), **({"left out": f"{THEIRS}: {out}"} if out else {}),
            **{field.replace("_", " "): value for field, value in case.options.items()}, "minibatch": case.batch_size,
        },
        "tables": {(title := f"plain steps, {num_words:,} words"): table, LIMITS: limits.table(rates)},
        "limits": {title: LIMITS},
    }  # fmt: skip
