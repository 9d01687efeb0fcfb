"""Fetching a data set from its publisher: download, unpacking, checking."""

import gzip
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import rich.progress

from benchmarks.data import sets as data
from jaxfit.errors import UserError


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None, base_url: str | None = None) -> list[Path]:
    """Fetch a data set from its publisher, check every file's sha256, and only then put the files in place.

    Args:
        name: of the data set.
        data_dir: the folder of data sets, by default that of the environment's BENCHMARK_DATA.
        base_url: a folder that mirrors the publisher's file under the same name.

    Raises:
        UserError: nowhere to put it, no such file there, other content than the published; nothing is left
            behind then.
    """
    data_set, root = data.named(name), data.folder(data_dir)
    if root is None:
        raise UserError("no folder to put data sets in", do=f"give --data-dir or set {data.VARIABLE}")
    if data_set.url is None:
        place = root / data_set.files[0].path
        raise UserError(f"{name} has to be fetched by hand", data_set.page, f"save it as {place}")
    url = data_set.url if base_url is None else f"{base_url.rstrip('/')}/{data_set.url.rpartition('/')[2]}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=root) as folder:
            archive = _download(url, Path(folder))
            for file in data_set.files:
                _unpack(archive, file, Path(folder) / "files" / file.path)
                digest = data.sha256_of(Path(folder) / "files" / file.path)
                if file.sha256 not in (None, digest):
                    what = f"{Path(file.path).name} is not the published file: sha256 {digest[:12]}…"
                    raise UserError(what, url, "nothing was saved; try again or use another mirror")
            if any(file.sha256 is None for file in data_set.files):  # the loader checks the content
                data_set.load([Path(folder) / "files" / file.path for file in data_set.files], "", "")
            for file in data_set.files:
                target = root / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(folder) / "files" / file.path, target)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, KeyError) as error:
        what = f"the archive is not as expected: {error}"
        raise UserError(what, url, "try again or use another mirror") from None
    except OSError as error:
        if error.errno is None:  # what the HTTP library raises
            raise UserError(f"the download failed: {error}", url, f"see {data_set.page}") from None
        raise UserError(f"cannot write the files: {error.strerror}", root, "free some space there") from None
    return data.find(name, root)


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


class _Bar:
    """A progress bar of rich behind the four names that pooch calls."""

    def __init__(self, title: str):
        columns = (*rich.progress.Progress.get_default_columns(), rich.progress.DownloadColumn())
        self.progress = rich.progress.Progress(*columns)
        self.task = self.progress.add_task(title, total=None)
        self.total = 0

    def update(self, count: int) -> None:
        self.progress.update(self.task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        self.progress.stop()


def _download(url: str, folder: Path) -> Path:
    import pooch  # here: without it, a command says what to install (`benchmarks.__main__`)

    name = url.rpartition("/")[2]
    bar = _Bar(name)
    pooch.get_logger().setLevel("WARNING")
    # what is known is the sha256 of the files within, so pooch is given none for the archive
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=60)
    try:
        with bar.progress:
            return Path(pooch.retrieve(url, None, name, folder / "archive", downloader=downloader))
    except OSError as error:
        response = getattr(error, "response", None)  # of an HTTP error, which pooch leaves open
        if response is not None:
            response.close()
        raise
