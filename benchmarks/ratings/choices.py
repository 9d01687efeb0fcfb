"""How the tuned recipes of recommenders were chosen: each beside others that differ in one setting (not of the thesis).

Made on `ml-1m-untested`, whose ratings are in no reported test.
"""

from dataclasses import replace

from benchmarks.core.table import Row, seeded
from benchmarks.ratings.measures import errors
from benchmarks.ratings.scales import RecommenderScale
from benchmarks.ratings.store import Spec

# model -> its size in the thesis, and the values that were tried in place of the recipe's
_PMF = {"decay.*": (0.03, 0.065), "rate.*": (0.02, 0.045), "epochs": (15, 40), "init_scale": (0.003, 0.03)}
TRIED: dict[str, tuple[Spec, dict[str, tuple[float, ...]]]] = {
    "RBM": (
        Spec("rbm", 100),
        {
            "decay.W": (4.0, 16.0), "rate.W": (2.5e-3, 1e-2), "rate.*": (1e-3, 1e-2), "epochs": (20, 45),
            "center": (0.0, 1.0), "smooth": (0.8, 1.6), "init_scale": (0.01, 0.04), "batch_size": (10, 40),
        },
    ),
    "CRBM1": (Spec("crbm", 100), {"decay.U": (10.0, 40.0), "rate.U": (2.5e-3, 1e-2)}),
    "Online SVD": (Spec("svd", 50), {"rate.*": (5e-3, 2e-2), "init_scale": (0.003, 0.03), "batch_size": (500, 2000)}),
    "Online SVD w. biases": (
        Spec("svd-bias", 50), {"rate.*": (5e-3, 2e-2), "rate.b": (1e-3, 1e-2), "rate.c": (1e-3, 1e-2)}
    ),
    "PMF": (Spec("pmf", 50), {**_PMF, "decay.b": (0.01, 0.04), "decay.c": (0.005, 0.02)}),
    "Conditional PMF": (
        Spec("cpmf", 50),
        {**_PMF, "rate.*": (0.03, 0.06), "epochs": (10, 22), "rate.W": (2.5, 10.0), "decay.W": (1e-5, 1e-3)},
    ),
    "User and movie bias": (Spec("bias"), {"decay_users": (3.0, 8.0), "decay_items": (2.0, 5.0)}),
}  # fmt: skip


def rows(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    """Return a row for each model's recipe, and for each setting that was tried in its place."""
    found = []
    for model, (spec, tried) in TRIED.items():
        found.append(Row((model, "as it is"), seeded(seeds or scale.seeds, spec), {}, errors))
        for setting, values in tried.items():
            for value in values:
                changed = replace(spec, changes=((setting, value),))
                found.append(Row((model, f"{setting} {value:g}"), seeded(seeds or scale.seeds, changed), {}, errors))
    return found
