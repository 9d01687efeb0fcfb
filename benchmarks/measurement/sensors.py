"""Clock, power and temperature of a GPU while it works, where the vendor's program gives them."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import jax

PROGRAM = "nvidia-smi"
QUERIES = {"clock, MHz": "clocks.sm", "power, W": "power.draw", "temperature, °C": "temperature.gpu"}
EVERY = 1.0  # seconds


@contextmanager
def watched() -> Iterator[dict[str, list[float]]]:
    """Give a dict to which readings of the first GPU's sensors are added meanwhile; it stays empty on other devices."""
    seen: dict[str, list[float]] = {}
    program = shutil.which(PROGRAM)
    if program is None or jax.default_backend() != "gpu":
        yield seen
        return
    command = [program, "-i", "0", f"--query-gpu={','.join(QUERIES.values())}", "--format=csv,noheader,nounits"]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY):
            try:
                answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
            except (OSError, subprocess.SubprocessError):
                return
            for name, text in zip(QUERIES, answer.partition("\n")[0].split(","), strict=False):
                with suppress(ValueError):  # "[N/A]"
                    value = float(text)
                    seen.setdefault(name, []).append(value)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
