"""One of several processes that train: `python one_of_two.py TROUBLE ARGUMENT…`, the arguments being those of `jaxlm`.

Each step of training is a chunk, and every epoch is saved. TROUBLE is what befalls the process in the 9th chunk, of
five in an epoch: the name of a signal, `bug`, `full-disk`, or `none`.
"""

import errno
import math
import os
import signal
import sys
from typing import Any

from jaxfit import fit
from jaxfit.run_dir import checkpoint

CHUNK = 9


def main(trouble: str, *argv: str) -> int:
    """Train, with trouble."""
    fit.CHUNK_SECONDS, fit.SAVING_SHARE = 1e-9, math.inf
    real, chunks = fit._check_finite, []

    def check(*args: Any) -> None:
        chunks.append(1)
        if len(chunks) == CHUNK and trouble.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, trouble))
        if len(chunks) == CHUNK and trouble == "bug":
            raise ZeroDivisionError("a bug")
        if len(chunks) == CHUNK and trouble == "full-disk":
            checkpoint.save = full
        real(*args)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fit._check_finite = check
    from jaxlm.cli.main import main as jaxlm

    return jaxlm(list(argv))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
