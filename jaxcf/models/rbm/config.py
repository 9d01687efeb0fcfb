"""What shapes an RBM for ratings, conditional or not, and what its ratings 0 … K-1 mean."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jaxcf.data.ratings import Dataset, RatingScale, present
from jaxfit.errors import UserError
from jaxfit.rbm import schedule
from jaxfit.recipe import option


@dataclass(frozen=True)
class Config:
    """What shapes the program.

    Attributes:
        center: c of the energy -Σ_m r_m·(W_m (h - c) + b_m) - b_h·h, which is Eq. 5.1 with b_m - c Σ_j W_mj for b_m:
            the models are the same, but a change of W no longer moves the mean ratings (Montavon and Müller 2012).
        smooth: s of the prior of W, under which the weights from a movie's ratings k and l to a hidden unit have the
            covariance exp(-(k-l)²/2s²) / decay, as neighbouring ratings mean nearly the same; in levels of the scale.
            With 0, as in the thesis, they are independent. The direction of descent is that in the metric of the prior
            (`jaxcf.models.rbm.chains.gradient`), which is exact for SGD; other optimizers treat it as the gradient.
        full_decay: how many ratings users and movies have on average, by the geometric mean of both, from which decay
            is as given; with fewer, it is less in proportion (`decay_share`). With 0, as in the thesis, it is always
            as given.
    """

    num_items: int = option(help="movies", unit="items")
    num_values: int = option(5, "ratings there can be (K)", "values")
    low: float = option(1.0, "the lowest rating", "stars", low=-np.inf)
    step: float = option(1.0, "from one rating to the next", "stars")
    num_hidden: int = option(100, "hidden units", "units", first=True)
    center: float = option(0.0, "constant subtracted from hidden units in the energy: 0, or 0.5 to learn faster")
    smooth: float = option(0.0, "range over which neighbouring ratings have similar weights; 0: independent", "levels")
    cd_steps: tuple[int, ...] = option(
        (1,), "T of CD-T: one for all of the training, or one for each of its equal parts"
    )
    prior: Literal["per-rating", "per-row"] = option(
        "per-row", "apply decay once per rating of a movie, or once per movie"
    )
    full_decay: float = option(
        0.0, "mean ratings of users and movies from which decay is as given; with fewer, in proportion", "ratings"
    )
    init_scale: float = option(0.01, "standard deviation of initial weights")

    def __post_init__(self) -> None:
        if self.num_values < 2:
            what = "an RBM is for ratings of a few fixed values"
            raise UserError(what, f"{self.num_values} values", "give a scale with steps, or train pmf")
        if not 0 <= self.smooth < np.inf:
            raise UserError("--smooth must be 0 or more", f"--smooth {self.smooth}", "give 0 or more")
        if not 0 <= self.full_decay < np.inf:
            raise UserError("--full-decay must be 0 or more", f"--full-decay {self.full_decay}", "give 0 or more")
        if self.prior == "per-rating" and (self.smooth or self.full_decay):
            what = "smooth weights, and less decay for few ratings, go with the prior per-row alone"
            raise UserError(what, "--prior per-rating", "add --smooth 0 --full-decay 0")
        object.__setattr__(self, "cd_steps", schedule(self.cd_steps))  # a list where it was read from JSON

    @property
    def scale(self) -> RatingScale:
        """The ratings that the model knows; other ratings are rounded to them."""
        return RatingScale(self.low, self.low + self.step * (self.num_values - 1), self.step)


def decay_share(data: Dataset, config: Config) -> float:
    """Return the share of decay that is applied: N / √(users · movies) / `full_decay` of training ratings, at most 1.

    Hidden units learn what ratings have in common. With few ratings that is little, and decay that suits many keeps the
    weights near 0.
    """
    if not config.full_decay:
        return 1.0
    users, movies = map(np.count_nonzero, present(data.catalogue, data.train))
    return float(min(1.0, len(data.train.user) / np.sqrt(users * movies) / config.full_decay))


def covariance(config: Config) -> NDArray[np.float32] | None:
    """Return P of `jaxcf.models.rbm.chains.gradient`: [K, K]; None where ratings are independent."""
    if not config.smooth:
        return None
    k = np.arange(config.num_values)
    return np.exp(-0.5 * np.square((k[:, None] - k[None]) / config.smooth)).astype(np.float32)


def expected_stars(distribution: Any, config: Config) -> Any:
    """Return the mean of a distribution over ratings, in stars: [..., K] -> [...], of NumPy or JAX."""
    level = np.arange(config.num_values, dtype=np.float32)[(None,) * (distribution.ndim - 1)]
    # not by @: some of the BLAS routines behind it flag NaN for finite numbers, which NumPy turns into a warning
    return config.low + config.step * (distribution * level).sum(axis=-1)
