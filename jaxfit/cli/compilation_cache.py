"""JAX's persistent compilation cache: what a command has compiled, the next one reads.

It lies in the user's cache folder, `$XDG_CACHE_HOME/jax-mnih` or `~/.cache/jax-mnih`, apart for each version of JAX
and each model of processor and number of its cores, for which XLA compiles. `JAX_MNIH_COMPILATION_CACHE=off` turns it
off; a user's own `JAX_COMPILATION_CACHE_DIR` takes precedence. It is set up through the environment, so that child
processes share it and a command without a use for JAX does not import it. Results do not depend on it.

Differs: `jax_compilation_cache_max_size` needs another package, reads every entry's time of use at each write (0.16 s
for 1,500 entries), and stops writing for good once a writer was killed between its two files. Here old entries are
removed at most once an hour, when a command starts.
"""

import hashlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

from jaxfit.devices.cores import cores
from jaxfit.process import user_cache

SWITCH = "JAX_MNIH_COMPILATION_CACHE"
MAX_BYTES = 1 << 29
MIN_COMPILE_SECONDS = 0.01  # reading an entry takes 1 to 5 ms
HOUR = 3600.0
_DIRECTORY, _SECONDS, _ENABLED = (
    "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAX_ENABLE_COMPILATION_CACHE",
)  # fmt: skip
# an entry that cannot be read (torn by a kill) or written (full disk) costs a compilation, and nothing else
UNUSABLE_ENTRY = "Error (reading|writing) persistent compilation cache entry"


def enable() -> None:
    """Let this process and its children read and write the cache; warn once where its folder cannot be used."""
    warnings.filterwarnings("ignore", UNUSABLE_ENTRY)
    if os.environ.get(SWITCH, "on").lower() in ("off", "0", "no", "false"):
        _set(_ENABLED, "false")
        return
    if os.environ.get(_DIRECTORY) is not None:
        return
    root = user_cache.folder()
    try:
        place = root / f"{metadata.version('jax')}-{metadata.version('jaxlib')}-{_processor()}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = place.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            raise PermissionError(None, "others may write there")  # and so make us run their programs
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(None, "it may not be written")
        _prune(root)
    except OSError as error:
        why = error.strerror or error
        what = f"compiled programs are not saved for the next run: {root}: {why} - set {_DIRECTORY} to another folder"
        warnings.warn(what, stacklevel=2)
        return
    _set(_DIRECTORY, str(place))
    if _SECONDS not in os.environ:
        _set(_SECONDS, str(MIN_COMPILE_SECONDS))


@contextmanager
def disabled() -> Iterator[None]:
    """Compile everything anew within, for measurements of compilation."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache as jax_cache

    before = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    jax.config.update("jax_enable_compilation_cache", False)
    jax_cache.reset_cache()  # it remembers whether it is in use
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        jax_cache.reset_cache()


def _set(name: str, value: str) -> None:
    """Set an option of JAX by the environment, and by its configuration where it has read the environment."""
    os.environ[name] = value
    if "jax" in sys.modules:
        import jax

        typed = {_ENABLED: lambda text: text == "true", _SECONDS: float}.get(name, str)(value)
        jax.config.update(name.lower(), typed)


def _processor() -> str:
    """Return a digest of the processor's model and abilities and of how many cores this process may use."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        names = ("model name", "flags", "Features", "CPU implementer", "CPU part", "cpu", "isa")
        described = [line for line in first if line.partition("\t")[0].strip(" :") in names]
    except OSError:  # not Linux
        import platform

        described = [platform.machine(), platform.processor()]
    return hashlib.sha256(repr((described, cores())).encode()).hexdigest()[:12]


def _prune(root: Path) -> None:
    """Once an hour: remove entries that a kill left empty, and the least recently used ones over MAX_BYTES."""
    stamp = root / "pruned"
    with suppress(FileNotFoundError):
        if 0 <= time.time() - stamp.stat().st_mtime < HOUR:
            return
    stamp.touch()
    entries = []
    for path in root.glob("*/*-cache"):
        with suppress(OSError):  # another process was first
            status = path.stat()
            if status.st_size == 0 and time.time() - status.st_mtime > HOUR:
                path.unlink()
            # where reading is not recorded, the oldest
            entries.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    excess = sum(size for _, size, _ in entries) - MAX_BYTES
    for _, size, path in sorted(entries):
        if excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= size
