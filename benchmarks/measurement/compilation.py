"""Time until a program runs: lowering, compilation and the first step, with an empty and with a full cache."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from benchmarks.measurement.spans import covered
from jaxfit.cli import compilation_cache

LOWERING = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
COMPILATION = ("/jax/core/compile/backend_compile_duration",)  # reading the persistent cache included
CACHES = ("cold cache", "warm cache")
# options of JAX's persistent cache, so that all that is compiled goes into it
_ALL = {
    "jax_enable_compilation_cache": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@contextmanager
def cold() -> Iterator[None]:
    """Compile everything anew within, whatever was compiled before in this or in another process."""
    jax.clear_caches()
    with compilation_cache.disabled():
        yield


@contextmanager
def recorded() -> Iterator[dict[str, list[tuple[float, float]]]]:
    """Give a dict, event -> (begin, end) in seconds, to which tracing, lowering and compilation within are added."""
    spans: dict[str, list[tuple[float, float]]] = {}

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        now = time.perf_counter()
        spans.setdefault(event, []).append((now - duration_secs, now))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield spans
    finally:
        with suppress(ValueError, AssertionError):  # all listeners may have been removed meanwhile
            jax.monitoring.unregister_event_duration_listener(listen)


@contextmanager
def cache_in(folder: str) -> Iterator[None]:
    """Compile with a persistent cache in this folder, whatever cache is configured otherwise."""
    wanted = {"jax_compilation_cache_dir": folder, **_ALL}
    before = {name: getattr(jax.config, name) for name in wanted}
    _configure(wanted)
    try:
        yield
    finally:
        _configure(before)


def _configure(options: Mapping[str, object]) -> None:
    for name, value in options.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()  # it remembers its folder, and whether it is in use


def starts(compile_all: Callable[[], Callable[[], object]]) -> dict[str, dict[str, float]]:
    """Measure seconds until the first step has been taken, first with an empty persistent cache, then with a full one.

    Args:
        compile_all: compiles what a training needs, and returns its first step.

    Returns:
        For each of CACHES: seconds of lowering (tracing included), of compilation (with a warm cache, of reading its
        result), of the first step, and of everything until its end.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder, cache_in(folder):
        for cache in CACHES:
            jax.clear_caches()
            with recorded() as spans:
                begin = time.perf_counter()
                step = compile_all()
                compiled = time.perf_counter()
                step()
                end = time.perf_counter()
            lowering, compilation = (
                [s for e in events for s in spans.get(e, [])] for events in (LOWERING, COMPILATION)
            )
            found[cache] = {
                "lowering, seconds": covered(lowering),
                "compilation, seconds": covered(compilation),
                "first step, seconds": end - compiled,
                "in all, seconds": end - begin,
            }
    return found
