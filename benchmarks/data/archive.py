"""Archives of a data set, checked by their content, however they were packed."""

import hashlib
import tarfile
import zlib
from pathlib import Path

from jaxfit.errors import UserError


def contents(path: Path, ending: str, sha256: str, what: str) -> list[bytes]:
    """Return the contents of the files of a tar archive with this ending, in the order of their names without folders.

    Args:
        path: of the archive.
        ending: of the names of the files.
        sha256: over the sha256 of the files in this order, which does not depend on how they are packed.
        what: description of the files, for messages.

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
