"""Lowering, compilation and the first step are measured separately, with an empty and with a full persistent cache."""

import jax
import jax.numpy as jnp

from benchmarks.measurement import compilation

COLUMNS = {"lowering, seconds", "compilation, seconds", "first step, seconds", "in all, seconds"}


def test_a_warm_cache_spares_compilation_alone() -> None:
    traced = []

    def train(x: jax.Array) -> jax.Array:
        traced.append(1)
        for _ in range(20):
            x = jnp.sin(x @ x) + jnp.cumsum(x, axis=0)
        return x

    program, x = jax.jit(train), jnp.ones((8, 8))

    def compile_all():
        compiled = program.lower(x).compile()
        return lambda: jax.block_until_ready(compiled(x))

    settings = ("jax_compilation_cache_dir", "jax_enable_compilation_cache")
    before = [getattr(jax.config, name) for name in settings]
    found = compilation.starts(compile_all)
    assert [getattr(jax.config, name) for name in settings] == before
    assert list(found) == ["cold cache", "warm cache"]
    assert len(traced) == 2, "lowered anew with either cache"
    cold, warm = found.values()
    for times in (cold, warm):
        assert times.keys() == COLUMNS
        assert all(seconds > 0 for seconds in times.values())
        assert sum(list(times.values())[:3]) <= times["in all, seconds"]
    assert warm["compilation, seconds"] < cold["compilation, seconds"]


def test_compiled_anew_and_the_cache_stays_as_it_was() -> None:
    before = jax.config.jax_enable_compilation_cache
    with compilation.cold():
        assert not jax.config.jax_enable_compilation_cache
    assert jax.config.jax_enable_compilation_cache == before


def test_only_what_is_compiled_within_is_recorded() -> None:
    with compilation.recorded() as spans:
        jax.jit(lambda x: x + 1.5)(jnp.ones(3)).block_until_ready()
    known = {event: list(found) for event, found in spans.items()}
    assert all(event in known for event in (*compilation.LOWERING, *compilation.COMPILATION))
    jax.jit(lambda x: x + 2.5)(jnp.ones(3)).block_until_ready()
    assert spans == known
