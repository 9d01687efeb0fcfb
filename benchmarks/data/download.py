"""Downloading a file by HTTP, so that an interrupted download continues where it stopped."""

import json
import time
from pathlib import Path
from typing import Any

import requests
import rich.console
import rich.progress
from urllib3.exceptions import LocationParseError

from jaxfit.errors import UserError

ATTEMPTS = 3  # in all, if the connection breaks
WAIT = 1.0  # seconds before the second attempt, twice as long before the third
TIMEOUT = 60.0  # seconds without a byte
_NO_URL = (
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidURL,
    LocationParseError,
)


def download(url: str, target: Path, *, allow_http: bool = False) -> None:
    """Download a file, continuing an earlier call if the server still has the same file.

    Until the file is complete, its first part is in `target`.part, and its URL and version in `target`.json.

    Args:
        url: of the file.
        target: where to put it.
        allow_http: whether HTTP without encryption is allowed, also where the server redirects to it.

    Raises:
        OSError: without an errno if the server or the network failed, or only a part of the file came.
        UserError: the URL is not one of HTTP, or is of HTTP without encryption, which is not allowed.
    """
    part = target.with_name(f"{target.name}.part")
    columns = (*rich.progress.Progress.get_default_columns(), rich.progress.DownloadColumn())
    with (
        requests.Session() as session,
        rich.progress.Progress(*columns, console=rich.console.Console(stderr=True)) as progress,
    ):
        if not allow_http:
            session.mount("http://", _Unencrypted())
        task = progress.add_task(target.name, total=None)
        for attempt in range(ATTEMPTS):
            try:
                _continue(session, url, part, progress, task)
                break
            except _NO_URL:
                raise UserError("this is no URL of a file", url, "give one that begins with https://") from None
            except requests.exceptions.HTTPError:
                raise
            except (requests.exceptions.RequestException, Incomplete) as error:
                reason = _reason(error)
                if attempt + 1 == ATTEMPTS:
                    raise OSError(reason) from None
                progress.console.print(f"{target.name}: {reason}; trying again", markup=False)
                time.sleep(WAIT * 2**attempt)
    part.replace(target)


class _Unencrypted(requests.adapters.BaseAdapter):
    """Refuse HTTP without encryption, also where a server redirects to it."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        what = "the download over http is not encrypted"
        raise UserError(what, request.url, "give --allow-http to take it all the same")

    def close(self) -> None:
        pass


class Incomplete(OSError):
    """The connection ended before the file did."""


def _continue(
    session: requests.Session, url: str, part: Path, progress: rich.progress.Progress, task: rich.progress.TaskID
) -> None:
    """Download the missing rest of a file."""
    about = part.with_suffix(".json")
    begun, validator = _begun(part, about, url)
    headers = {"Accept-Encoding": "identity"}
    if begun:
        headers |= {"Range": f"bytes={begun}-", "If-Range": validator}
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        span = response.headers.get("Content-Range", "")
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            if span == f"bytes */{begun}":  # stopped after the last byte
                return
            part.unlink()
            raise Incomplete("the server has less of the file than came before")
        response.raise_for_status()
        continued = response.status_code == requests.codes.partial_content
        if continued and not span.startswith(f"bytes {begun}-"):
            part.unlink(missing_ok=True)
            raise Incomplete("the server sent another part of the file than was asked for")
        if begun:
            how = f"continues after {begun:,} bytes" if continued else "begins anew: the server does not continue it"
            progress.console.print(f"{part.stem}: the interrupted download {how}", markup=False)
        begun = begun if continued else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else begun + int(length)
        if not continued:
            etag = response.headers.get("ETag", "")
            validator = response.headers.get("Last-Modified", "") if etag.startswith("W/") or not etag else etag
            about.write_text(json.dumps({"url": url, "validator": validator}))
        progress.update(task, total=total, completed=begun)
        with part.open("ab" if continued else "wb") as f:
            for chunk in response.iter_content(1 << 16):
                f.write(chunk)
                progress.update(task, advance=len(chunk))
            size = f.tell()
        if total is not None and size != total:
            raise Incomplete(f"{size:,} of {total:,} bytes came")


def _begun(part: Path, about: Path, url: str) -> tuple[int, str]:
    """Return how many bytes of a file are there, and the validator (ETag or date) of their version."""
    try:
        known: Any = json.loads(about.read_text())
        if known["url"] == url and known["validator"]:
            return part.stat().st_size, str(known["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, ""


def _reason(error: BaseException) -> str:
    """Return what the network's innermost error says."""
    while error.__context__ is not None:
        error = error.__context__
    return (getattr(error, "strerror", None) or str(error)).lower()
