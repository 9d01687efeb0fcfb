"""The suite of chapter 5: recommenders on ratings."""

from benchmarks.core.suite import Suite
from benchmarks.data import sets
from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore

SUITE = Suite(
    chapters="chapter 5",
    scales=scales.SCALES,
    data_sets=("planted", *(d.name for d in sets.DATA_SETS.values() if d.holds == "ratings")),
    load=scales.rating_set,
    store_class=RatingStore,
    speed_data=scales.speed_ratings,
)
