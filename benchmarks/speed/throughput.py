"""How fast any model trains that the engine fits: events per second, compilation, memory."""

from collections.abc import Mapping
from typing import Any

from benchmarks.core.statistics import quartiles
from benchmarks.core.store import Store
from benchmarks.core.timing import EpochTimer, copy_bandwidth, interleaved, peak_memory
from jaxfit.cli import compilation_cache


@compilation_cache.disabled()
def measure(stores: Mapping[str, Store]) -> dict[str, dict[str, Any]]:
    """Train some steps of each model, in alternating rounds.

    Args:
        stores: a store for each model, by the model's name; the model has the size that is usual at the store's scale.

    Returns:
        For each model: words or ratings per second of an epoch without validation (median, quartiles, samples), the
        seconds that tracing and compiling its programs took, and the most memory in use so far.
    """
    copied = copy_bandwidth()
    timers: dict[str, EpochTimer] = {}
    figures: dict[str, dict[str, Any]] = {}
    for name, store in stores.items():
        spec = store.example(name, store.scale)
        timers[name] = EpochTimer(store.trainer(spec))
        timers[name].seconds()
        figures[name] = {
            "model": store.title(spec),
            "data": store.describe()["note"],
            "batch_size": timers[name].trainer.recipe.batch_size,
            "compile_seconds": timers[name].trainer.compile_seconds,
            "padding_ratio": timers[name].padding(),
            "peak_bytes": peak_memory(),
            "copied_bytes_per_second": copied,
        }
    rates = interleaved({name: timer.rate for name, timer in timers.items()})
    for name, store in stores.items():
        figures[name][f"{store.unit}_per_second"] = quartiles(rates[name])
    return figures
