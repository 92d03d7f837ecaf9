"""Locked wheels into the store: from find-links, their index, further indexes; by sha256 alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from builder.core.hash_change import Answer, Expected, arrived_from, classify, refusal
from builder.core.indexes import Place, mismatch
from builder.core.lock import WheelPin
from builder.core.simple import Candidate
from builder.edge.download import download, path_of
from builder.edge.index import Indexes, local_path
from builder.edge.pool import Stop, each
from builder.edge.store import Store, copy
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
                        foreign = place.name != pin.index
                        wrong.append(
                            mismatch(
                                offer, offer.sha256, pin.sha256, self._relock(pin), foreign=foreign
                            )
                        )
                        continue
                    try:
                        self._take(offer, place, pin, scratch, tick)
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
        self,
        offer: Candidate,
        place: Place,
        pin: WheelPin,
        scratch: Path,
        tick: Callable[[int], None],
    ) -> None:
        expected = Expected(file=pin.file, sha256=pin.sha256, size=pin.size, index=pin.index)
        for last in (False, True):
            resumed = scratch.exists()
            answer = self._bring(offer, pin, scratch, tick)
            try:
                self._store.keep(scratch, pin.sha256, offer.url)
            except HashMismatch as error:
                arrived = arrived_from(error, offer, answer, foreign=place.name != pin.index)
                tick(-arrived.size)
                # What lay there may have come from elsewhere, and a cut is worth another try.
                cut = classify(expected, arrived) == "truncated" and not offer.local
                if last or not (resumed or cut):
                    raise refusal(
                        expected, arrived, self._relock(pin), subject=offer.url
                    ) from error
            else:
                return

    def _bring(
        self, offer: Candidate, pin: WheelPin, scratch: Path, tick: Callable[[int], None]
    ) -> Answer:
        if not offer.local:
            client = self._indexes.client
            return download(client, offer.url, scratch, size=pin.size, on_bytes=tick)
        copy(path_of(offer.url), scratch)
        tick(scratch.stat().st_size)
        return Answer()

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
        what = "; ".join(error.what for error in (first, *down, *wrong) if error is not first)
        what = f"{first.what}; {what}" if what else first.what
        error: NightlockError
        if isinstance(first, NetworkError):
            error = NetworkError(f"{pin.file}: {what}", subject=first.subject, action=action)
        else:
            error = HashMismatch(what, subject=first.subject, action=first.action)
        error.findings = tuple(row for one in wrong for row in one.findings)
        return error
