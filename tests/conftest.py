"""Strict surroundings for every test: 8 simulated devices, rank promotion raises, warnings are errors.

Workers, and processes that tests start, share the persistent compilation cache of the commands; here it takes small
programs, too, which many test files compile.
"""

import contextlib
import ctypes
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from jaxfit.cli import compilation_cache

os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# XLA's newer emitters of fused loops take half of the time of compilation, and the division of programs into modules
# that are compiled in parallel up to a fifth of the rest; set `XLA_FLAGS=` to compile as users do. Later versions of
# jaxlib have no other emitters, and end at a flag that they do not know.
AS_USERS = os.environ.get("XLA_FLAGS") == ""
OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false " * version("jaxlib").startswith("0.10.")
os.environ.setdefault("XLA_FLAGS", f"{OLDER_EMITTERS}--xla_cpu_parallel_codegen_split_count=1")
compilation_cache.enable()  # by the environment, before JAX reads it

import jax  # noqa: E402

from jaxfit import fit  # noqa: E402
from jaxfit.process import compiled  # noqa: E402

# where pytest runs in the background of a script, it is ignored, and would be so by processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)
fit.SAVING_SHARE = 1e-9  # best epochs are saved only in tests of that, as it takes a fifth of a short training's time
compiled.MAX_TRAININGS = 40  # more than for users: what trainings share is compiled less often

OTHER_SETTINGS = {
    "jax_enable_x64": True,
    "jax_numpy_dtype_promotion": "strict",
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
}
MOST_BYTES = 4 << 30  # of a worker, at the end of a test

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_addoption(parser: pytest.Parser) -> None:
    where = os.environ.get("BENCHMARK_DATA")
    parser.addoption("--data-dir", default=where, help="where the real data sets are")
    parser.addoption("--strict-data", action="store_true", help="a skipped test of real data is a failure")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests on real data last in their file, as they are compiled otherwise: what is compiled is dropped once."""
    files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda item: (files[item.path], "data_dir" in getattr(item, "fixturenames", ())))


def pytest_collection_finish() -> None:
    """Collect garbage seldom: looking through all of JAX's modules each time takes a tenth of the suite's time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(tryfirst=True)  # before fixtures of any scope
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let LLVM optimise in tests on real data, and not in the others, whose programs run for milliseconds.

    It takes a third to a half of their time. With `XLA_FLAGS=`, as in the second part of `.ci/run`, tests of
    conformance, of documents and from end to end compile as users do.
    """
    as_users = AS_USERS and {"conformance", "docs", "end_to_end"} & set(item.path.parts)
    quick = not as_users and "data_dir" not in item.fixturenames
    switch = "1" if quick else "0"
    if os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") != switch or _resident_bytes() > MOST_BYTES:
        _drop_compiled()
        jax.config.update("jax_disable_most_optimizations", quick)
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = switch  # for processes that tests start


def _drop_compiled() -> None:
    """Drop compiled programs, and give their memory back to the system: otherwise a worker grows to many GB.

    Not often, as tracing again costs seconds.
    """
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not the GNU C library
        ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> int:
    statm = Path("/proc/self/statm")  # of Linux
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@pytest.fixture
def other_settings() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what enters settings of JAX, in all threads, that are not its defaults."""

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        before = {name: getattr(jax.config, name) for name in OTHER_SETTINGS}
        try:
            for name, value in OTHER_SETTINGS.items():
                jax.config.update(name, value)
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)

    return entered


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    """Return the folder of real data sets; a test that asks for it skips where there is none."""
    given = request.config.getoption("--data-dir")
    if not given:
        pytest.skip("no real data: give --data-dir or set BENCHMARK_DATA")
    if not Path(given).is_dir():
        pytest.skip(f"no real data: {given} is not a folder")
    return Path(given)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With --strict-data, fail what skips although it asks for the real data."""
    report = yield
    if report.skipped and item.config.getoption("--strict-data") and "data_dir" in item.fixturenames:
        report.outcome = "failed"
        report.longrepr = f"skipped with --strict-data: {report.longrepr}"
    return report
