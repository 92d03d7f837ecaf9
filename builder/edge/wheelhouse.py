"""Locked wheels into the store: from find-links, their index, further indexes; by sha256 alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.core.indexes import Place, mismatch
from builder.core.lock import WheelPin
from builder.core.simple import Candidate
from builder.edge.download import download, path_of
from builder.edge.index import Indexes, local_path
from builder.edge.pool import Stop, each
from builder.edge.store import Store, copy, other_bytes
from builder.errors import HashMismatch, NetworkError, NightlockError, NotOffered, worst


def fetch_wheels(
    pins: Sequence[WheelPin],
    store: Store,
    indexes: Indexes,
    *,
    image: str,
    threads: int,
    on_bytes: Callable[[int], None],
) -> None:
    """Bring wheels into the store, several at once.

    `image` names the lock in messages. `on_bytes` hears the bytes that have come, from several
    threads.

    Raises:
        HashMismatch: every source that has the file has other bytes than the lock names.
        NotOffered: no source has it.
        NetworkError: no source that is in reach has the right bytes, and some are not.
        DiskFull: there is no room.

    """
    fetcher = _Fetcher(store, indexes, image, on_bytes)
    # Large ones first: the last file then ends with the others.
    order = sorted(pins, key=lambda pin: (-pin.size, pin.name))
    each(fetcher.bring, order, threads=threads)


class _Fetcher:
    def __init__(
        self, store: Store, indexes: Indexes, image: str, on_bytes: Callable[[int], None]
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._image = image
        self._on_bytes = on_bytes

    def bring(self, pin: WheelPin, stop: Stop) -> None:
        def tick(amount: int) -> None:
            stop.check()
            self._on_bytes(amount)

        tick(0)
        with self._store.partial(pin.sha256) as scratch:
            # Another process may have brought it while we waited.
            if self._store.has(pin.sha256, pin.size):
                tick(pin.size)
                return
            self._search(pin, scratch, tick)

    def _search(self, pin: WheelPin, scratch: Path, tick: Callable[[int], None]) -> None:
        """Go through the places in order until one has the right bytes."""
        wrong: list[NightlockError] = []
        down: list[NetworkError] = []
        for place in self._places(pin):
            try:
                for offer in self._offers(place, pin):
                    if offer.sha256 and offer.sha256 != pin.sha256:
                        wrong.append(mismatch(offer, offer.sha256, pin.sha256, self._relock(pin)))
                        continue
                    try:
                        self._take(offer, pin, scratch, tick)
                    except HashMismatch as error:
                        wrong.append(error)
                    else:
                        return
            except NotOffered:
                continue
            except NetworkError as error:
                down.append(error)
        raise self._failure(pin, wrong, down)

    def _places(self, pin: WheelPin) -> Iterable[Place]:
        links = self._indexes.find_links
        yield from (place for place in links if local_path(place.where) is not None)
        yield from self._indexes.homes(pin.index)
        yield from (place for place in links if local_path(place.where) is None)
        yield from self._indexes.extra

    def _offers(self, place: Place, pin: WheelPin) -> list[Candidate]:
        rows = self._indexes.offers(place, pin.name, pin.file)
        return [row for row in rows if row.file == pin.file]

    def _take(
        self, offer: Candidate, pin: WheelPin, scratch: Path, tick: Callable[[int], None]
    ) -> None:
        resumed = scratch.exists()
        while True:
            if offer.local:
                copy(path_of(offer.url), scratch)
                tick(scratch.stat().st_size)
            else:
                download(self._indexes.client, offer.url, scratch, size=pin.size, on_bytes=tick)
            arrived = _Arrived.of(scratch)
            try:
                self._store.keep(scratch, pin.sha256, offer.url)
            except HashMismatch as error:
                tick(-arrived.size)
                if resumed:
                    # What lay there may have come from elsewhere: once more, from the start.
                    resumed = False
                    continue
                raise other_bytes(
                    f"{pin.file} from {offer.place}: {arrived.against(pin)} ({error.what})",
                    subject=offer.url,
                    action=(
                        "try again, or name another place for it; if the other bytes are right, "
                        f"lock this one package again: `{self._relock(pin)}`"
                    ),
                ) from error
            return

    def _relock(self, pin: WheelPin) -> str:
        return f"nightlock lock {self._image} --upgrade-package {pin.name}"

    @staticmethod
    def _failure(
        pin: WheelPin, wrong: Sequence[NightlockError], down: Sequence[NetworkError]
    ) -> NightlockError:
        name = pin.index.upper().replace("-", "_")
        action = (
            "check the network, or say where the file is: a folder in PIP_FIND_LINKS, "
            f"or NIGHTLOCK_INDEX_{name}=URL-or-folder"
        )
        if not (wrong or down):
            return NotOffered(
                f"no place has {pin.file} any more: neither its index ({pin.index}) nor find-links",
                subject=pin.file,
                action=action,
            )
        first = worst([*down, *wrong])
        more = "".join(f"; {error.what}" for error in (*down, *wrong) if error is not first)
        if isinstance(first, NetworkError):
            return NetworkError(
                f"{pin.file}: {first.what}{more}", subject=first.subject, action=action
            )
        return other_bytes(first.what + more, subject=first.subject, action=first.action)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What came instead of the right bytes."""

    size: int
    head: bytes

    @classmethod
    def of(cls, path: Path) -> _Arrived:
        with path.open("rb") as file:
            return cls(path.stat().st_size, file.read(16))

    def against(self, pin: WheelPin) -> str:
        """Say what kind of wrong it is."""
        if self.head.lstrip().lower().startswith((b"<!doctype", b"<html")):
            return "a web page came instead of the file (a proxy's or a login page)"
        if self.size < pin.size:
            return f"the file is cut short: {self.size} of {pin.size} bytes"
        if self.size > pin.size:
            return f"another file: {self.size} bytes, the lock names {pin.size}"
        return "other bytes of the same length: the file was replaced"
