"""Locked .debs into the store: from wherever they still are, in parallel, verified."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import httpx

from builder.core import debian
from builder.core.debs import DebChange, architecture_of, candidates, diff_debs, with_debs
from builder.core.hash_change import other_bytes
from builder.core.keys import finding
from builder.core.lock import DebPin, Lock
from builder.core.settings import DebianSettings
from builder.core.spec import BaseTable
from builder.edge import files
from builder.edge.apt import AptRoot, host_sources, network_configuration
from builder.edge.download import download, is_there, open_client
from builder.edge.pool import Stop, each
from builder.edge.store import Store, hash_file
from builder.edge.userconfig import read_user_config
from builder.errors import AptDrift, BadInput, HashMismatch, NetworkError, NotOffered, worst

_GONE = (0, 404, 410)
"""Statuses that mean `no such file`; 0 is a folder that lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocked:
    """A lock with other .debs, and what moved."""

    lock: Lock
    changes: tuple[DebChange, ...]


def resolve_base(
    base: BaseTable, platform: str, settings: DebianSettings, folder: Path
) -> tuple[DebPin, ...]:
    """Resolve the base of an image for one platform; `folder` keeps private apt roots.

    Raises BadInput, NetworkError, Refused, ToolMissing as `AptRoot` and `host_sources` do.
    """
    if base.debian is None:
        raise BadInput(
            "this base is an image: it has no .debs to resolve in an apt root",
            subject=base.image or "",
            action="name a release under `[base] debian`",
        )
    architecture = architecture_of(platform)
    sources = host_sources(base.debian, settings)
    root = AptRoot(folder / f"{base.debian}-{architecture}", sources, architecture)
    root.update()
    return root.resolve(base.packages, essential=True)


def resolve_onto(
    status: str,
    codename: str,
    packages: Sequence[str],
    platform: str,
    settings: DebianSettings,
    folder: Path,
) -> tuple[DebPin, ...]:
    """Resolve packages on top of a system of that release; `status` is its dpkg's own file.

    What it has already and need not change is left out. Raises as `AptRoot` and `host_sources`.
    """
    architecture = architecture_of(platform)
    sources = host_sources(codename, settings)
    root = AptRoot(folder / f"{codename}-{architecture}", sources, architecture, status)
    root.update()
    return root.resolve(packages, essential=False)


def relock(
    lock: Lock, base: BaseTable, platform: str, settings: DebianSettings, folder: Path
) -> Relocked:
    """Lock the .debs of one platform anew and leave all else as it is.

    Raises as `resolve_base`.
    """
    pins = resolve_base(base, platform, settings, folder)
    changes = diff_debs(lock.platforms[platform].debs, pins)
    return Relocked(lock=with_debs(lock, platform, pins), changes=changes)


def archives(codename: str, settings: DebianSettings) -> Mapping[str, tuple[str, ...]]:
    """Map suites to the addresses of their archives, as `host_sources` finds them."""
    return debian.addresses(host_sources(codename, settings))


def missing(pins: Sequence[DebPin], store: Store) -> tuple[DebPin, ...]:
    """Return those that the store lacks."""
    return tuple(pin for pin in pins if not store.has(pin.sha256, pin.size))


def fetch_debs(
    pins: Sequence[DebPin],
    store: Store,
    where: Mapping[str, Sequence[str]],
    *,
    snapshot: str = "",
    folders: Sequence[Path] = (),
    threads: int = 8,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> None:
    """Bring .debs into the store: from `folders`, their archive, the other ones, the snapshot.

    `where` maps suites to addresses. `on_bytes` hears the bytes of those the store lacked, from
    several threads.

    Raises:
        AptDrift: some are on no source any more; all of them are named.
        HashMismatch: a source gave other bytes than the lock names.
        NetworkError: a source is out of reach, and the others lack the file.
        DiskFull: there is no room.

    """
    wanted = missing(pins, store)
    if not wanted:
        return
    files.require_free(store.root, sum(pin.size for pin in wanted), f"{len(wanted)} .debs")
    stop = threading.Event()

    def count(amount: int) -> None:
        if stop.is_set():
            raise _Stopped
        on_bytes(amount)

    with _client(threads) as client, ThreadPoolExecutor(threads) as pool:

        def bring(pin: DebPin) -> bool:
            urls = [(folder / pin.file).absolute().as_uri() for folder in folders]
            return _bring(client, pin, store, [*urls, *candidates(pin, where, snapshot)], count)

        futures = {pool.submit(bring, pin): pin for pin in wanted}
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            # Ctrl-C or a first failure: the others end at their next piece.
            stop.set()
            pool.shutdown(cancel_futures=True)
    _raise_for(futures)


class _Stopped(Exception):
    """Ends a download that nobody waits for any more."""


def _raise_for(futures: Mapping[Future[bool], DebPin]) -> None:
    gone: list[DebPin] = []
    failures: list[BaseException] = []
    for future, pin in futures.items():
        if future.cancelled():
            continue
        error = future.exception()
        if error is not None and not isinstance(error, _Stopped):
            failures.append(error)
        if error is None and not future.result():
            gone.append(pin)
    if gone:
        failures.append(_drift(sorted(gone)))
    if failures:
        raise worst(failures)


def _drift(gone: Sequence[DebPin]) -> AptDrift:
    names = ", ".join(f"{pin.name} {pin.version}" for pin in gone)
    error = AptDrift(
        f"{len(gone)} locked .deb(s) are on no source any more: {names}",
        subject=", ".join(pin.path for pin in gone),
        action=(
            "lock again with `nightlock lock`, or set NIGHTLOCK_DEBIAN_SNAPSHOT to a "
            "snapshot of Debian's archive that still has them"
        ),
    )
    error.findings = tuple(
        finding(
            "apt-drift",
            subject=f"{pin.name} {pin.version} ({pin.architecture})",
            evidence=f"no source has {pin.path}",
            action=error.action,
        )
        for pin in gone
    )
    return error


def _bring(
    client: httpx.Client,
    pin: DebPin,
    store: Store,
    urls: Sequence[str],
    on_bytes: Callable[[int], None],
) -> bool:
    """Bring one .deb from the first source that has it; False when every one says no."""
    refused: NetworkError | None = None
    with store.partial(pin.sha256) as scratch:
        # Another process may have brought it while we waited for the room.
        if store.has(pin.sha256, pin.size):
            on_bytes(pin.size)
            return True
        for url in urls:
            counted = _Counted(on_bytes)
            resumed = scratch.exists()
            try:
                download(client, url, scratch, size=pin.size, on_bytes=counted)
                if resumed and hash_file(scratch) != pin.sha256:
                    # The half that lay here may be the wrong one: do not blame this source yet.
                    scratch.unlink()
                    counted.take_back()
                    download(client, url, scratch, size=pin.size, on_bytes=counted)
            except NetworkError as error:
                counted.take_back()
                if not (isinstance(error, NotOffered) and error.status in _GONE):
                    refused = error
                continue
            try:
                store.keep(scratch, pin.sha256, url)
            except HashMismatch as error:
                raise other_bytes(
                    f"{pin.file}: {error.what}",
                    subject=url,
                    action=(
                        "try again, or name another mirror in NIGHTLOCK_DEBIAN_MIRROR; if every "
                        "mirror has these bytes, lock again with `nightlock lock`"
                    ),
                ) from error
            return True
    if refused is not None:
        raise refused
    return False


class _Counted:
    """Counts what one source gave, so that the next one can start from nothing again."""

    def __init__(self, on_bytes: Callable[[int], None]) -> None:
        self._on_bytes = on_bytes
        self._sum = 0

    def __call__(self, amount: int) -> None:
        self._sum += amount
        self._on_bytes(amount)

    def take_back(self) -> None:
        self._on_bytes(-self._sum)
        self._sum = 0


def find_gone(
    pins: Sequence[DebPin],
    where: Mapping[str, Sequence[str]],
    *,
    snapshot: str = "",
    threads: int = 8,
    on_deb: Callable[[], None] = lambda: None,
) -> tuple[list[DebPin], list[NetworkError]]:
    """List the .debs that no source has any more, and what could not be asked; by HEAD alone.

    Parameters as `fetch_debs`.
    """
    down: list[NetworkError] = []

    def look(pin: DebPin, stop: Stop) -> bool:
        stop.check()
        refused: NetworkError | None = None
        for url in candidates(pin, where, snapshot):
            try:
                if is_there(client, url):
                    on_deb()
                    return True
            except NetworkError as error:
                refused = error
        on_deb()
        if refused is not None:
            down.append(refused)
        return refused is not None

    with _client(threads) as client:
        there = each(look, pins, threads=threads)
    return [pin for pin, found in zip(pins, there, strict=True) if not found], down


def _client(threads: int) -> httpx.Client:
    """Reach the archives as wheels are reached, through the proxies of this machine's apt."""
    return open_client(
        read_user_config(os.environ),
        connections=2 * threads,
        proxies=debian.proxies(network_configuration()),
    )
