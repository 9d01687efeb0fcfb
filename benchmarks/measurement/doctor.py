"""`python -m benchmarks doctor`: properties of this machine and its packages that decide speed, and known faults."""

import importlib.util
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from benchmarks.measurement import machine
from jaxfit.cli import command
from jaxfit.devices import memory
from jaxfit.errors import UserError
from jaxfit.run_dir.provenance import VARIABLES

# CHECK: may be intended; OPTIONAL: a package that some commands need
FINE, CHECK, OPTIONAL, BAD = "fine", "check", "optional", "bad"


@dataclass(frozen=True)
class Known:
    """A fault of some releases of jaxlib on one platform.

    Attributes:
        first, last: the first and the last release that have it.
        platform: cpu, gpu or tpu.
        issue: its number in JAX's repository.
        what: what is slow or wrong.
        do: what a user can do.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    platform: str
    issue: int
    what: str
    do: str

    def holds(self, version: Sequence[int], where: str) -> bool:
        """Return whether a release has the fault on a platform."""
        return where == self.platform and self.first <= tuple(version) <= self.last


FAULTS = (
    Known((0, 11, 1), (0, 11, 1), "cpu", 40101, "steps copy whole tables", "pip install 'jaxlib!=0.11.1'"),
    Known(
        (0, 10, 2), (0, 11, 0), "gpu", 38806, "adding to rows that repeat takes up to a thousand times as long",
        "pip install -U 'jax[cuda13]>=0.11.1'",
    ),
)  # fmt: skip


def checks() -> Iterator[tuple[str, str, str]]:
    """Yield, for each check, its name, its state (FINE, CHECK, OPTIONAL or BAD), and what was found and can be done."""
    yield "Python", FINE, f"{platform.python_version()} on {platform.platform()}"
    try:
        command.require_device()
    except UserError as missing:
        yield from _versions("")
        yield "devices", BAD, str(missing)
    else:
        yield from _versions(jax.default_backend())
        yield from _devices()
    yield from _settings()
    for package, use in (
        ("libtpu", "`benchmarks lower` (compiling for TPUs)"),
        ("xprof", "a trace's tables and viewer"),
    ):
        there = importlib.util.find_spec(package) is not None
        found = f"for {use}" if there else f"not installed; for {use}: pip install {package}"
        yield package, FINE if there else OPTIONAL, found


def _versions(where: str) -> Iterator[tuple[str, str, str]]:
    import jaxlib

    version = [int(part) for part in jaxlib.__version__.split(".")[:3] if part.isdecimal()]
    found = [known for known in FAULTS if known.holds(version, where)]
    yield "jax, jaxlib", FINE if not found else BAD, f"{jax.__version__}, {jaxlib.__version__}"
    for known in found:
        yield f"JAX issue {known.issue}", BAD, f"{known.what} - {known.do}"


def _devices() -> Iterator[tuple[str, str, str]]:
    devices = jax.devices()
    kinds = ", ".join(dict.fromkeys(device.device_kind for device in devices))
    said = f"{len(devices)} of {jax.default_backend()}: {kinds}"
    unused = jax.default_backend() == "cpu" and machine.DRIVER.exists()
    advice = " - an NVIDIA driver is here: pip install -e '.[benchmarks,test,cuda]'"
    yield "devices", CHECK if unused else FINE, said + (advice if unused else "")
    there = memory.available()
    yield "memory", CHECK if there is None else FINE, "not known" if there is None else memory.show(there)


def _settings() -> Iterator[tuple[str, str, str]]:
    config: Any = jax.config
    given = config.jax_default_matmul_precision
    yield "matrix precision", FINE, f"{given or 'the device decides'}; commands set it themselves"
    yield (
        "64 bits",
        CHECK if config.jax_enable_x64 else FINE,
        ("on: slower, and no figure of ours is of it" if config.jax_enable_x64 else "off"),
    )
    for name in (*VARIABLES, "JAX_PLATFORMS", "LIBTPU_INIT_ARGS", "XLA_PYTHON_CLIENT_PREALLOCATE"):
        if os.environ.get(name):
            yield name, CHECK, os.environ[name]
    on = config.jax_enable_compilation_cache and config.jax_compilation_cache_dir
    yield "compilation cache", FINE if on else CHECK, str(on or "off: every command compiles anew")
