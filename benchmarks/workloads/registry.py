"""The standard workloads: model, size and amount of data; each stresses another part of a device.

Shapes and data never change under a name: a change is a new version of all, and figures of two versions are not
compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxcf.data.synthetic import NETFLIX, Planted
from jaxfit.recipe import Recipe

VERSION = 2  # of all workloads
# How float32 factors of matrix products are rounded; "highest": not at all.
PRECISIONS = {
    "float32": "highest", "tf32": "TF32_TF32_F32", "bfloat16x3": "BF16_BF16_F32_X3", "bfloat16": "BF16_BF16_F32",
}  # fmt: skip


@dataclass(frozen=True)
class Words:
    """A text drawn by Zipf's law.

    Attributes:
        num_words: number of different words.
        events: number of words of the text.
    """

    num_words: int
    events: int


@dataclass(frozen=True)
class Workload:
    """Training of a model at one size.

    Attributes:
        model: its name in a registry.
        about: which part of a device it stresses.
        data: the synthetic data that it trains on.
        batch_size: examples of a minibatch, on all devices: words, ratings, or users; 0 for solvers without.
        config: fields of the model's Config.
        structure: options of the model's structure, if it has one.
        optimizer: the update rule.
        reduction: whether a step follows the gradient of the sum over its minibatch or of the mean.
        solver: the way of fitting, by its name in the model's record.
        precision: of its matrix products where `lower` is given none, among PRECISIONS.
        small: whether it takes little memory and short steps, so that it belongs to the quick suite.
    """

    name: str
    model: str
    about: str
    data: Words | Planted
    batch_size: int
    config: Mapping[str, Any] = field(default_factory=dict)
    structure: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Literal["sgd", "adam"] = "sgd"
    reduction: Literal["sum", "mean"] = "mean"
    solver: str = "sgd"
    precision: str = "float32"
    small: bool = False

    @property
    def on_one_device(self) -> bool:
        """Whether it cannot be split over devices: only stochastic gradients can."""
        return self.solver != "sgd"

    def recipe(self) -> Recipe:
        """Return the recipe: rates so small that no step diverges; decay, which costs almost nothing.

        Exact solutions have as much decay as in training: with less, their rounding errors grow more.
        """
        return Recipe(
            optimizer=self.optimizer, batch_size=max(1, self.batch_size), epochs=1, rate={"*": 1e-3},
            decay={"*": 0.05 if self.solver == "als" else 1e-4}, reduction=self.reduction,
        )  # fmt: skip


MILLION = 1_000_000
TWENTY = Planted(138_493, 26_744, 20_000_263, user_tail=1.2, item_tail=2.1, timed=False)  # of MovieLens 20M's size
HUNDRED_K = Planted(num_users=943, num_items=1_682, num_ratings=100_000, timed=False)

_ALL = (
    Workload(
        "lbl-s", "lbl", "latency: many short steps", Words(10_000, MILLION), 1_024,
        {"num_features": 128, "context_size": 5}, small=True,
    ),
    Workload(
        "lbl-m", "lbl", "matrix products", Words(131_072, 4 * MILLION), 8_192,
        {"num_features": 512, "context_size": 10},
    ),
    Workload(
        "lbl-l", "lbl", "matrix products, in blocks: a minibatch's exponentials do not fit",
        Words(1 << 20, 8 * MILLION), 16_384, {"num_features": 1024, "context_size": 10, "diagonal": True},
        precision="bfloat16",
    ),
    Workload(
        "nplm-m", "nplm", "matrix products of a hidden layer", Words(131_072, 4 * MILLION), 8_192,
        {"num_features": 128, "context_size": 10, "num_hidden": 512},
    ),
    Workload(
        "frbm-m", "frbm", "matrix products, and words drawn from a softmax", Words(10_000, MILLION), 1_024,
        {"num_features": 100, "context_size": 2, "num_hidden": 1_000},
    ),
    Workload(
        "lstm-m", "lstm", "matrix products that wait for one another", Words(10_000, MILLION), 64,
        {"num_features": 512, "num_hidden": 512, "num_layers": 2},
    ),
    Workload(
        "hlbl-s", "hlbl", "latency of gathers and scatters", Words(10_000, MILLION), 1_024,
        {"num_features": 100, "context_size": 5}, {"tree": "random"}, small=True,
    ),
    Workload(
        "hlbl-m", "hlbl", "gathers of rows", Words(131_072, 4 * MILLION), 16_384,
        {"num_features": 128, "context_size": 10}, {"tree": "random"},
    ),
    Workload(
        "hlbl-l", "hlbl", "scatters of rows, and of an optimizer's memory", Words(MILLION, 8 * MILLION), 65_536,
        {"num_features": 128, "context_size": 10}, {"tree": "random", "copies": 2}, optimizer="adam",
    ),
    Workload(
        "pmf-s", "pmf", "latency of gathers and scatters", HUNDRED_K, 1_024, {"num_features": 50}, small=True,
    ),
    Workload("pmf-m", "pmf", "gathers and scatters of two tables", TWENTY, 65_536, {"num_features": 64}),
    Workload("pmf-l", "pmf", "gathers and scatters of large tables", NETFLIX, 131_072, {"num_features": 128}),
    Workload(
        "als-s", "pmf", "batches of small systems of equations", HUNDRED_K, 0, {"num_features": 50}, solver="als",
        small=True,
    ),
    Workload(
        "als-l", "pmf", "batches of Cholesky decompositions and Gram products", NETFLIX, 0, {"num_features": 128},
        solver="als",
    ),
    Workload(
        "rbm-s", "rbm", "random numbers, short sums", HUNDRED_K, 64, {"num_hidden": 100}, small=True,
    ),
    Workload("rbm-l", "rbm", "random numbers and sums over ratings (CD-1)", NETFLIX, 1_024, {"num_hidden": 512}),
    Workload(
        "rbm-l-cd5", "rbm", "random numbers and sums over ratings (CD-5)", NETFLIX, 1_024,
        {"num_hidden": 512, "cd_steps": (5,)},
    ),
    Workload("crbm-m", "crbm", "as the RBM's, and sums over rated items", TWENTY, 512, {"num_hidden": 256}),
    Workload(
        "cpmf-s", "cpmf", "steps that depend on one another", HUNDRED_K, 64, {"num_features": 30}, reduction="sum",
        small=True,
    ),
    Workload(
        "cpmf-m", "cpmf", "steps that depend on one another", TWENTY, 512, {"num_features": 64}, reduction="sum",
    ),
)  # fmt: skip
WORKLOADS = {workload.name: workload for workload in _ALL}
