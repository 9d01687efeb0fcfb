"""How fast the log-bilinear model trains, compared with PyTorch and with the machine's matrix products.

All are timed in turn, five times, in one process, and medians are compared: what else the machine does then
hits all alike.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.core.timing import medians, step_rate
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.speed.peers import missing
from jaxfit.recipe import Recipe
from jaxfit.shuffle import permutation
from jaxlm.data import contexts
from jaxlm.data.corpus import Corpus
from jaxlm.models import lbl

STEPS, EVENTS, MATMUL = 8, 100_000, 4000


def flops_per_word(config: lbl.Config) -> int:
    """Count multiplications and additions of one example's matrix products, forward and backward.

    A product costs twice its size, its two gradients as much each. Softmax and update are left out.
    """
    N_w, D, c = config.num_words, config.num_features, config.context_size
    return 3 * 2 * N_w * D + 3 * 2 * c * (D if config.diagonal else D**2)


def our_steps(config: lbl.Config, recipe: Recipe, corpus: Corpus) -> Callable[[], float]:
    """Return a function that takes STEPS steps in the engine's compiled loop and returns words per second."""
    given = {"num_features": config.num_features, "context_size": config.context_size}
    return step_rate(trainer("lbl", corpus, recipe, given), STEPS)


def torch_steps(config: lbl.Config, recipe: Recipe, ids: np.ndarray, compiled: bool) -> Callable[[], float]:
    """Return a function that takes the same minibatches through the same step in PyTorch."""
    from benchmarks.speed.peers import lbl_torch

    params = lbl.init(jax.random.key(0), config, np.bincount(ids, minlength=config.num_words))
    arrays = [np.asarray(p) for p in params]
    step, _ = lbl_torch.make_step(arrays, recipe.optimizer, recipe.rate["*"], recipe.decay["*"], compiled)
    order = np.asarray(permutation(jax.random.key(1), len(ids)))
    padded = np.asarray(contexts.pad(ids, config.context_size, 0).padded)

    def measure() -> float:
        start = time.perf_counter()
        for i in range(STEPS):
            index = order[i * recipe.batch_size : (i + 1) * recipe.batch_size, None]
            window = padded[index + np.arange(config.context_size + 1)]
            step(window[:, :-1], window[:, -1].astype(np.int64))
        return STEPS * recipe.batch_size / (time.perf_counter() - start)

    return measure


def matmul_rate() -> float:
    """Measure operations per second of a 4000 x 4000 x 4000 float32 product."""
    a = jnp.ones((MATMUL, MATMUL), jnp.float32)
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(a, a))
    start = time.perf_counter()
    jax.block_until_ready(product(a, a))
    return 2 * MATMUL**3 / (time.perf_counter() - start)


def measure(peers: bool = False, num_words: int = 10_000, batch_size: int = 1000) -> dict[str, Any]:
    """Measure LBL training (100 features, context 5) in words per second, and what it is compared with.

    Ratios of medians: `vs_torch` to the better of eager and compiled PyTorch with as many threads as
    cores (listed as left out where it is not installed), `of_matmul_rate` of the float32 matrix-product rate.
    """
    out = missing("torch") if peers else None
    theirs = peers and out is None
    config = lbl.Config(num_words, num_features=100, context_size=5)
    corpus = speed_text(num_words, EVENTS)
    recipes = {
        name: Recipe(name, batch_size, 1, rate={"*": rate}, decay={"*": 1e-2, "b": 0.0})  # type: ignore[arg-type]
        for name, rate in (("sgd", 0.1), ("adam", 1e-3))
    }
    measures: dict[str, Callable[[], float]] = {"matmul": matmul_rate}
    for name, recipe in recipes.items():
        measures[name] = our_steps(config, recipe, corpus)
        if theirs:
            import torch

            torch.set_num_threads(os.cpu_count() or 1)
            for kind in ("eager", "compiled"):
                measures[f"{name} torch {kind}"] = torch_steps(config, recipe, corpus.train, kind == "compiled")
    rates = medians(measures)
    figures: dict[str, Any] = {
        **({"left out": {"PyTorch": out}} if out else {}),
        "config": {"num_words": num_words, "num_features": 100, "context_size": 5, "batch_size": batch_size},
        "cores": os.cpu_count(),
        "matmul_gflops": rates["matmul"] / 1e9,
        "flops_per_word": flops_per_word(config),
    }
    for name in recipes:
        gflops = rates[name] * flops_per_word(config) / 1e9
        found = {"words_per_second": rates[name], "gflops": gflops}
        found["of_matmul_rate"] = gflops * 1e9 / rates["matmul"]
        if theirs:
            found |= {f"torch_{kind}": rates[f"{name} torch {kind}"] for kind in ("eager", "compiled")}
            found["vs_torch"] = rates[name] / max(found["torch_eager"], found["torch_compiled"])
        figures[name] = found
    return figures
