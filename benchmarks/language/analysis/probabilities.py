"""Figure 3.2: shares of predictions, and of their negative log-probability, by the magnitude of the probability."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import figure
from benchmarks.core.table import Measured
from benchmarks.core.verdict import Scores
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks.differences import DECADES, decades

PREDICTIONS, NATS = "predictions", "nats"  # what a bin has shares of
RANGES = ("0.1 to 1", *(f"1e-{i} to 1e-{i - 1}" for i in range(2, DECADES)), f"below 1e-{DECADES - 1}")


def column(which: str, of: str) -> str:
    """Name the column of the "first" or "second" model's share of PREDICTIONS or NATS."""
    return f"{which} {of}"


def measure(number: int, store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the share of two models' predictions in a bin, and that of their negative log-probability.

    The columns are named by `column`.

    Args:
        number: number of the bin, from 0 for probabilities above 0.1.
    """
    measured: dict[str, Scores] = {}
    for which, spec in zip(("first", "second"), specs, strict=True):
        log_probs, seeded = store.get(spec).predictions(part), store.stepwise(spec)
        inside = decades(log_probs) == number
        for of, each in ((PREDICTIONS, np.ones(len(log_probs))), (NATS, -log_probs)):
            within, all_ = (store.by_blocks(each, part, seeded, inside=i) for i in (inside, None))
            measured[column(which, of)] = Scores(within.total, all_.total, np.positive, seeded)
    return measured


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw Figure 3.2: bars of both models by bin; above, of predictions; below, of negative log-probability."""
    titles = {each["name"]: each["title"].partition(":")[0] for each in result["columns"]}
    title = f"Figure 3.2 of Mnih (2010): {result['title']}\n({result['data']['name']}, scale {result['scale']})"
    with figure.panels(path, title, nrows=2, figsize=(8, 8), sharex=True) as (top, low):
        for ax, of, label in (
            (top, PREDICTIONS, "share of the predictions"),
            (low, NATS, "share of the negative log-probability"),
        ):
            for offset, which in ((-0.2, "first"), (0.2, "second")):
                found = [row["cells"][column(which, of)] for row in result["rows"]]
                mean = np.array([cell["mean"] for cell in found])
                ends = np.array([cell["interval"] for cell in found]).T
                x = np.arange(1, 1 + len(found)) + offset
                error = np.maximum(np.abs(ends - mean), 0)
                ax.bar(x, mean, 0.38, yerr=error, capsize=2, label=titles[column(which, of)])
            ax.set(ylabel=label)
            ax.legend()
        low.set_xticks(range(1, 1 + len(RANGES)), [f"{i}\n{text}" for i, text in enumerate(RANGES, 1)], fontsize=8)
        low.set(xlabel="bin, and the probability of the next word in it; lines: 95 % intervals")
