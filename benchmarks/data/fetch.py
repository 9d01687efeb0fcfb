"""Fetching a data set from its publisher: download, unpacking, checking."""

import gzip
import os
import shutil
import tarfile
import zipfile
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from benchmarks.data import sets as data
from jaxfit.errors import UserError
from jaxfit.run_dir.lock import locked


def fetch(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    base_url: str | None = None,
    *,
    allow_http: bool = False,
) -> list[Path]:
    """Fetch a data set from its publisher, check every file's sha256, and only then put the files in place.

    An incomplete download stays in the folder `.fetching`, and the next call continues it.

    Args:
        name: of the data set.
        data_dir: the folder of data sets; None: that of the environment's BENCHMARK_DATA.
        base_url: a folder that mirrors the publisher's file under the same name.
        allow_http: whether HTTP without encryption is allowed.

    Raises:
        UserError: there is no folder to put it in, the server does not have the file, or its content is not the
            published one. Nothing is left behind then, unless the download was interrupted.
    """
    data_set, root = data.named(name), data.folder(data_dir)
    if root is None:
        raise UserError("no folder to put data sets in", do=f"give --data-dir or set {data.VARIABLE}")
    with suppress(UserError):  # it is there, and what it should be
        data.load(name, root)
        return data.find(name, root)
    if data_set.url is None:
        place = root / data_set.files[0].path
        raise UserError(f"{name} has to be fetched by hand", data_set.page, f"save it as {place}")
    url = data_set.url if base_url is None else f"{base_url.rstrip('/')}/{data_set.url.rpartition('/')[2]}"
    work = root / ".fetching" / name
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        with locked(work, "fetching it"):
            _fetch(data_set, url, root, work, allow_http)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, KeyError) as error:
        what = f"the archive is not as expected: {error}"
        raise UserError(what, url, "try again or use another mirror (--base-url)") from None
    except OSError as error:
        if error.errno is None:  # of the network
            advice = "the same command continues it" if any(work.glob("*.part")) else f"see {data_set.page}"
            raise UserError(f"the download failed: {error}", url, advice) from None
        raise UserError(f"cannot write the files: {error.strerror}", root, "free some space there") from None
    finally:
        with suppress(OSError):  # not empty, or not made
            for folder in made:
                folder.rmdir()
    return data.find(name, root)


def _fetch(data_set: data.DataSet, url: str, root: Path, work: Path, allow_http: bool) -> None:
    """Download, unpack, check, and put in place; only what an interrupted download can continue stays in `work`."""
    from benchmarks.data.download import download  # here: without its package, a command says what to install

    archive, files = work / url.rpartition("/")[2], work / "files"
    try:
        download(url, archive, allow_http=allow_http)
        _require(data_set.archive, archive, url)
        for file in data_set.files:
            _unpack(archive, file, files / file.path)
            _require(file.sha256, files / file.path, url)
        if any(file.sha256 is None for file in data_set.files):  # the loader checks the content
            data_set.load([files / file.path for file in data_set.files], "", "")
        for file in data_set.files:
            target = root / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(files / file.path, target)
    finally:
        kept = [path for path in work.glob("*.part") if path.stat().st_size]
        for path in set(work.iterdir()) - {path.with_suffix(suffix) for path in kept for suffix in (".part", ".json")}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with suppress(OSError):  # not empty
            work.rmdir()
            work.parent.rmdir()


def _require(sha256: str | None, path: Path, url: str) -> None:
    if sha256 is not None and (found := data.sha256_of(path)) != sha256:
        what = f"{path.name} is not the published file: sha256 {found[:12]}…"
        raise UserError(what, url, "nothing was saved; try again or use another mirror (--base-url)")


def _unpack(archive: Path, file: data.File, target: Path) -> None:
    """Copy one file out of an archive (tar, zip, or the file itself)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        source: IO[bytes] | None
        if file.member is None:
            source = opened.enter_context(archive.open("rb"))
        elif zipfile.is_zipfile(archive):
            source = opened.enter_context(opened.enter_context(zipfile.ZipFile(archive)).open(file.member))
        else:
            tar = opened.enter_context(tarfile.open(archive))
            source = tar.extractfile({name.removeprefix("./"): name for name in tar.getnames()}[file.member])
        if source is None:
            raise KeyError(file.member)
        shutil.copyfileobj(source, opened.enter_context(target.open("wb")))
