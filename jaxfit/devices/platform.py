"""The platform that a program is traced for: where a CPU's caches or an accelerator's units decide its shape."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jax

_OTHER: ContextVar[str | None] = ContextVar("platform", default=None)


def platform() -> str:
    """Return "cpu", "gpu" or "tpu": of JAX's default device, but within `tracing_for` of the one named there."""
    return _OTHER.get() or jax.default_backend()


@contextmanager
def tracing_for(name: str) -> Iterator[None]:
    """Trace programs for another platform than the default device's; what was traced before is forgotten."""
    jax.clear_caches()
    token = _OTHER.set(name)
    try:
        yield
    finally:
        _OTHER.reset(token)
        jax.clear_caches()
