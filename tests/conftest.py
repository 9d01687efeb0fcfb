"""Strict surroundings for every test: 8 simulated devices, rank promotion raises, warnings are errors."""

import os
from collections.abc import Generator
from pathlib import Path

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-dir", default=os.environ.get("BENCHMARK_DATA"), help="where the real data sets are"
    )


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    """The folder of real data sets; a test that asks for it skips where there is none."""
    given = request.config.getoption("--data-dir")
    if not given:
        pytest.skip("no real data: give --data-dir or set BENCHMARK_DATA")
    if not Path(given).is_dir():
        pytest.skip(f"no real data: {given} is not a folder")
    return Path(given)
