"""Chapter 5's tables and figures, made once by their own command at the smallest scale."""

import pytest

from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore
from benchmarks.ratings.tables import TABLES


@pytest.fixture(scope="session")
def place(shared_place):
    return shared_place("recommenders")


@pytest.fixture(scope="session")
def results(place) -> dict[str, dict]:
    """Make everything of the thesis, by one command."""
    return place.tables(*(name for name in TABLES if name != "recipe-choice"))[0]


@pytest.fixture(scope="session")
def store(place) -> RatingStore:
    scale = scales.SCALES["tiny"]
    return RatingStore(scales.rating_set("planted", scale), scale, "tuned", place.work)
