"""Archives that hold a data set, whoever has packed them."""

import hashlib
import tarfile
import zlib
from pathlib import Path

from jaxfit.errors import UserError


def contents(path: Path, ending: str, sha256: str, what: str) -> list[bytes]:
    """Return the files of a tar archive whose names end so, in the order of their names without folders.

    Args:
        path: of the archive.
        ending: of their names.
        sha256: over the sha256 of the files in this order, which does not depend on how they are packed.
        what: what they are, for messages.

    Raises:
        UserError: the archive is damaged, or has other files.
    """
    try:
        with tarfile.open(path) as archive:
            files = {Path(m.name).name: file.read() for m in archive if (file := archive.extractfile(m)) is not None}
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise UserError(f"the archive cannot be read: {error}", path, "get it again") from None
    chosen = [files[name] for name in sorted(files) if name.endswith(ending)]
    if hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in chosen)).hexdigest() != sha256:
        raise UserError(f"not {what}: {len(chosen)} files of other content", path, "get the right ones")
    return chosen
