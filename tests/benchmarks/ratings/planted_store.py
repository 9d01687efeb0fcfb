"""A store of recommenders that are not trained, for tests of verdicts."""

import zlib
from types import SimpleNamespace

import numpy as np

from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore
from jaxcf.data.ratings import take

SCALE = scales.SCALES["tiny"]
SEEDS = 3


class Planted(RatingStore):
    """A store of models that are not trained: each errs by as much as `error` says, all in the same places.

    error: of a spec and a part, the standard deviation of its errors in stars; may raise.
    """

    def __init__(self, tmp_path, error):
        super().__init__(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)
        self.error = error

    def get(self, spec):
        return SimpleNamespace(predictions=lambda part: self._planted(spec, part))

    def _planted(self, spec, part):
        error = self.error(spec, part)  # before the data are looked at
        ratings = getattr(self.ratings(spec).data, part)
        if spec.group is not None:
            ratings = take(ratings, self.groups[ratings.user] == spec.group)
        size = np.abs(np.random.default_rng(0).normal(size=len(ratings.user)))
        own = 0.01 * np.random.default_rng(zlib.crc32(str(spec).encode())).normal(size=len(size))
        inwards = np.where(ratings.stars > 3, -1.0, 1.0)  # so that nothing is clipped
        return ratings.stars + inwards * np.minimum(error * size + own, 2.0)
