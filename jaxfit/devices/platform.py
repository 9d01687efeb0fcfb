"""What a program is traced for: the platform, and over how many devices the compiler splits its tables.

A CPU's caches, an accelerator's units and the memory of one device decide the shapes of programs.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import jax

HELD = 1 << 28  # maximum elements of a temporary array on an accelerator: 1 GB of float32
_OTHER: ContextVar[str | None] = ContextVar("platform", default=None)
_PARTS: ContextVar[int] = ContextVar("parts", default=1)


def platform() -> str:
    """Return "cpu", "gpu" or "tpu": JAX's default backend, but within `tracing_for` the one named there."""
    return _OTHER.get() or jax.default_backend()


def default_device() -> jax.Device:
    """Return the device where JAX puts arrays: that of `jax.default_device`, or else this process' first."""
    device = jax.config.jax_default_device or jax.local_devices()[0]  # type: ignore[attr-defined]
    return jax.local_devices(backend=device)[0] if isinstance(device, str) else device


def host() -> jax.Device | None:
    """Return the CPU as a device; None where JAX_PLATFORMS leaves it out."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def on_host(wanted: bool) -> AbstractContextManager[None]:
    """Return a context in which JAX puts arrays into the host's memory, if that is wanted and it has the CPU.

    It is for what need not fit on one device: initial parameters of tables that are split, data that are streamed.
    """
    cpu = host() if wanted else None
    return nullcontext() if cpu is None else jax.default_device(cpu)


def at_once(number: int, width: int, cached: int) -> int:
    """Return how many of `number` rows, of `width` elements each, to process at a time.

    On a CPU it is at most `cached`, which its cache holds; elsewhere it is `block`.
    """
    return max(1, min(number, cached)) if platform() == "cpu" else block(number, width)


def block(number: int, width: int) -> int:
    """Divide `number` rows of `width` elements into nearly equal blocks of at most HELD elements; return their rows."""
    blocks = -(-number * width // HELD)
    return -(-number // min(max(1, blocks), max(1, number)))


@contextmanager
def tracing_for(name: str) -> Iterator[None]:
    """Trace programs for another platform than JAX's default backend; what was traced before is forgotten."""
    jax.clear_caches()
    token = _OTHER.set(name)
    try:
        yield
    finally:
        _OTHER.reset(token)
        jax.clear_caches()


def parts() -> int:
    """Return over how many devices the compiler splits the tables of the program that is traced."""
    return _PARTS.get()


@contextmanager
def tracing_over(number: int) -> Iterator[None]:
    """Trace a program whose tables the compiler splits over so many devices."""
    token = _PARTS.set(number)
    try:
        yield
    finally:
        _PARTS.reset(token)
