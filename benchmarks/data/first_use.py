"""Files without a published sha256: the first use records them, and later ones must find the same files."""

import hashlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from jaxfit.errors import UserError
from jaxfit.run_dir import atomic

NAME = "SHA256SUMS"  # as `sha256sum` writes and checks it


def require_same(folder: Path, paths: Sequence[Path]) -> None:
    """Check files of a folder against the sha256 that the first call recorded there, with a message.

    Raises:
        UserError: a file has changed, is missing, or has been added; or the record of sha256 is damaged.
    """
    found = {}
    for path in paths:
        with path.open("rb") as f:
            found[path.relative_to(folder).as_posix()] = hashlib.file_digest(f, "sha256").hexdigest()
    record = folder / NAME
    if not record.exists():
        text = "".join(f"{digest}  {name}\n" for name, digest in found.items())
        try:
            with atomic.replacing(record) as new:
                new.write_text(text, encoding="utf-8")
        except OSError as error:
            what = (
                f"the sha256 of these files cannot be recorded, so that a change would not be noticed: {error.strerror}"
            )
            warnings.warn(f"{what} ({record})", stacklevel=2)
        else:
            what = (
                f"no sha256 is published for these files; {record} now records theirs, and later runs require the same"
            )
            print(what, file=sys.stderr)
        return
    try:
        lines = (line.split("  ", 1) for line in record.read_text(encoding="utf-8").splitlines())
        known = {name: digest for digest, name in lines}
    except ValueError:
        advice = "restore it, or remove it to take the files as they are"
        raise UserError("the file is damaged", record, advice) from None
    for name in sorted(known.keys() | found.keys()):
        if known.get(name) != found.get(name):
            what = "the file is missing" if name not in found else "the file is not that of the first use"
            advice = f"restore it, or remove {NAME} to take the files as they are"
            raise UserError(what, folder / name, advice)
