"""Choices of recipes: settings that the tuned ones were compared with, and those that random splits choose from."""

from dataclasses import replace

from benchmarks.core.table import Row, seeded
from benchmarks.ratings.measures import errors
from benchmarks.ratings.scales import RecommenderScale
from benchmarks.ratings.store import Spec
from jaxcf.models import get

# setting -> values that were tried in place of the recipe's; below also by model, with its size
_PMF: dict[str, tuple[float, ...]] = {
    "decay.*": (0.035, 0.06),
    "rate.*": (0.02, 0.045),
    "epochs": (17, 38),
    "init_scale": (3e-3, 3e-2),
}
_SVD: dict[str, tuple[float, ...]] = {"rate.*": (6e-3, 1.6e-2), "patience": (5, 20), "init_scale": (3e-5, 3e-4)}
TRIED: dict[str, tuple[Spec, dict[str, tuple[float, ...]]]] = {
    "RBM": (
        Spec("rbm", 100),
        {
            "decay.*": (8.0, 18.0), "rate.*": (8e-3, 1.8e-2), "epochs": (20, 45), "center": (0.0, 1.0),
            "smooth": (1.2, 3.5), "init_scale": (0.01, 0.04), "batch_size": (10, 40),
        },
    ),
    "Masked RBM": (
        Spec("masked-rbm", 100),
        {
            "decay.W": (8.0, 18.0), "decay.*": (0.0, 0.3), "rate.*": (0.02, 0.045), "epochs": (20, 45),
            "mask_rate": (0.4, 0.8), "smooth": (1.7, 3.5), "center": (0.0, 1.0), "batch_size": (10, 40),
        },
    ),
    "CRBM1": (Spec("crbm", 100), {"decay.U": (10.0, 40.0), "rate.U": (2.5e-3, 1e-2)}),
    "Online SVD": (Spec("svd", 50), _SVD),
    "Online SVD w. biases": (Spec("svd-bias", 50), {**_SVD, "rate.b": (1e-3, 1e-2), "rate.c": (1e-3, 1e-2)}),
    "PMF": (Spec("pmf", 50), {**_PMF, "decay.b": (0.01, 0.04), "decay.c": (5e-3, 0.02)}),
    "Conditional PMF": (
        Spec("cpmf", 50),
        {**_PMF, "rate.*": (0.03, 0.056), "epochs": (11, 21), "rate.W": (2.5, 10.0), "decay.W": (1e-5, 1e-3)},
    ),
    "User and movie bias": (Spec("bias"), {"decay_users": (3.0, 8.0), "decay_items": (2.0, 5.0)}),
}  # fmt: skip
# what each random split tries: sizes of models that priors keep from overfitting; a setting of others and of CPMF
SIZES: dict[str, tuple[int, ...]] = {
    "PMF": (50, 100, 200), "Conditional PMF": (50, 100, 200), "RBM": (100, 200), "CRBM2": (100, 200),
    "Masked RBM": (100, 200),
}  # fmt: skip
SETTINGS: dict[str, tuple[str, tuple[float, ...]]] = {
    "svd": ("rate.*", (5e-3, 2e-2)), "svd-bias": ("rate.*", (5e-3, 2e-2)), "bias": ("decay_users", (2.5, 10.0)),
    "user-bias": ("decay_users", (2.5, 10.0)), "item-bias": ("decay_items", (1.5, 6.0)), "cpmf": ("decay.W", (1e-3,)),
}  # fmt: skip


def rows(scale: RecommenderScale, seeds: int | None) -> list[Row]:
    """Return a row for each model's recipe, and for each setting that was tried in its place."""
    found = []
    for model, (spec, tried) in TRIED.items():
        if not scale.others and "thesis" not in get(spec.model).recipes:
            continue
        found.append(Row((model, "as it is"), seeded(seeds or scale.seeds, spec), {}, errors))
        for setting, values in tried.items():
            for value in values:
                changed = replace(spec, changes=((setting, value),))
                found.append(Row((model, f"{setting} {value:g}"), seeded(seeds or scale.seeds, changed), {}, errors))
    return found


def with_settings(spec: Spec) -> list[Spec]:
    """Return a model with its recipe, and with each setting that a random split tries in addition."""
    setting, values = SETTINGS.get(spec.model, ("", ()))
    return [spec, *(replace(spec, changes=((setting, value),)) for value in values)]
