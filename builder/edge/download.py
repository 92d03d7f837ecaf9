"""One file from a URL or a folder into a file here: resumable, retried, not yet verified."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import httpx

from builder.edge import files
from builder.errors import NetworkError

_ATTEMPTS = 4
_FIRST_PAUSE = 0.5
"""Seconds before the second attempt; each later one waits twice as long."""
_GONE = (404, 410)
_AGAIN = (408, 425, 429, 500, 502, 503, 504)


def download(
    client: httpx.Client, url: str, target: Path, on_bytes: Callable[[int], None]
) -> bool:
    """Make `target` hold what `url` serves; False when the server says it has no such file.

    What `target` holds already is taken up again (Range, RFC 9110 §14). `on_bytes` hears of every
    byte that stands in `target`, also of those from before; of a start from nothing after a
    broken one it hears a negative number.

    Raises:
        NetworkError: the server is out of reach or refuses, after a few tries.
        DiskFull: there is no more room.

    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _copy(Path(unquote(parts.path)), target, on_bytes)
    counted = 0
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
        here = target.stat().st_size if target.exists() else 0
        on_bytes(here - counted)
        counted = here

        def count(amount: int) -> None:
            nonlocal counted
            counted += amount
            on_bytes(amount)

        try:
            status = _attempt(client, url, target, here, count)
        except (httpx.TransportError, httpx.TooManyRedirects) as error:
            said = f"{type(error).__name__}: {error}"
            continue
        except httpx.InvalidURL as error:
            raise NetworkError(f"not a URL: {error}", subject=url) from error
        if status in (200, 206):
            return True
        if status in _GONE:
            on_bytes(-counted)
            return False
        said = f"HTTP status {status}"
        if status not in _AGAIN:
            break
    on_bytes(-counted)
    raise NetworkError(
        f"the file cannot be fetched: {said}",
        subject=url,
        action="check network and proxy, then run the same again: what is here is taken up again",
    )


def _attempt(
    client: httpx.Client, url: str, target: Path, here: int, count: Callable[[int], None]
) -> int:
    headers = {"Accept-Encoding": "identity"}
    if here:
        headers["Range"] = f"bytes={here}-"
    with client.stream("GET", url, headers=headers) as response:
        status = response.status_code
        if status == 416:
            # Nothing follows what is here: either all of it, which the hash tells, or not of it.
            total = response.headers.get("Content-Range", "").rpartition("/")[2]
            if total == str(here):
                return 206
            _clear(target, here, count)
            return 503
        if status == 206 and not response.headers.get("Content-Range", "").startswith(
            f"bytes {here}-"
        ):
            _clear(target, here, count)
            return 503
        if status not in (200, 206):
            return status
        if status == 200 and here:
            _clear(target, here, count)
        with files.full_disk_explained(target), target.open("ab") as file:
            for chunk in response.iter_raw(1 << 18):
                file.write(chunk)
                count(len(chunk))
    return status


def _clear(target: Path, here: int, count: Callable[[int], None]) -> None:
    target.unlink(missing_ok=True)
    count(-here)


def _copy(source: Path, target: Path, on_bytes: Callable[[int], None]) -> bool:
    if not source.is_file():
        return False
    with files.full_disk_explained(target), source.open("rb") as reader, target.open("wb") as file:
        _pour(reader, file, on_bytes)
    return True


def _pour(reader: BinaryIO, writer: BinaryIO, on_bytes: Callable[[int], None]) -> None:
    while chunk := reader.read(1 << 20):
        writer.write(chunk)
        on_bytes(len(chunk))
