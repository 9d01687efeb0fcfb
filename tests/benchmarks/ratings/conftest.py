"""Chapter 5's tables and figures, made once by their own command at the smallest scale."""

import os

import pytest

from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore
from benchmarks.ratings.tables import TABLES


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, place_in):
    """Models are shared by the workers of pytest-xdist: each is trained by one of them."""
    base, worker = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_WORKER", "")
    found = place_in((base.parent if worker else base) / "recommenders")
    found.out = found.out.with_name(f"results{worker}")
    return found


@pytest.fixture(scope="session")
def results(place) -> dict[str, dict]:
    """Everything of the thesis, by one command."""
    return place.tables(*(name for name in TABLES if name != "recipe-choice"))[0]


@pytest.fixture(scope="session")
def store(place) -> RatingStore:
    scale = scales.SCALES["tiny"]
    return RatingStore(scales.rating_set("planted", scale), scale, "tuned", place.work)
