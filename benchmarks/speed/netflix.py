"""A pass over as many ratings as the Netflix Prize had, planted: of PMF with 10 features, of the RBM with 100 units."""

import os
import time
from typing import Any

import jax

from benchmarks.core.timing import copy_bandwidth, mean_score, peak_memory
from benchmarks.speed import time_to_error
from jaxcf.data.ratings import Dataset
from jaxcf.data.synthetic import NETFLIX, NETFLIX_SHARES, Planted, planted

MODELS: dict[str, dict[str, Any]] = {  # steps of as many users or ratings as serve so much data
    "pmf": {"num_features": 10, "batch_size": 2000},
    "rbm": {"num_hidden": 100, "batch_size": 50},
}


def measure(shape: Planted = NETFLIX) -> dict[str, Any]:
    """Measure seconds of a pass, shuffling included and apart, and the most memory that this process has held.

    PMF shuffles groups of ratings, which it lays out before the first pass: that is counted in what is "once".
    Drawing the ratings takes a minute or two, which is not counted, but is held in memory.
    """
    begin = time.perf_counter()
    drawn = planted(jax.random.key(0), shape, *NETFLIX_SHARES)
    figures: dict[str, Any] = {
        "ratings": f"{drawn.note}, {len(drawn.train.user):,} training ratings",
        "cores": os.cpu_count(),
        "drawn": {"seconds": time.perf_counter() - begin, "peak_bytes": peak_memory()},
        "copied_bytes_per_second": copy_bandwidth(),
    }
    for model, setting in MODELS.items():
        figures[model] = one_pass(model, drawn, setting)
    return figures


def one_pass(model: str, data: Dataset, setting: dict[str, Any]) -> dict[str, Any]:
    """Measure a pass of a model from its initial parameters: seconds, ratings per second, training error."""
    begin = time.perf_counter()
    trainer = time_to_error.trainer(model, data, **setting)
    laid_out = time.perf_counter()
    trainer.epoch_run()  # compiles
    compiled = time.perf_counter()
    run = trainer.epoch_run()
    shuffled = time.perf_counter()
    run(0, trainer.steps)
    end = time.perf_counter()
    return {
        "setting": ", ".join(f"{name} {value}" for name, value in setting.items()),
        "seconds": end - compiled,
        "seconds of shuffling": shuffled - compiled,
        "seconds with laying out, once": end - compiled + laid_out - begin,
        "ratings_per_second": trainer.events / (end - compiled),
        "training RMSE during it": mean_score(trainer) ** 0.5,
        "seconds of compilation, before": compiled - laid_out - (shuffled - compiled),
        "peak_bytes": peak_memory(),
    }
