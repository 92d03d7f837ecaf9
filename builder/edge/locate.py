"""Locked wheels looked up on the pages of their places; no file is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from builder.core.indexes import Place
from builder.core.lock import WheelPin
from builder.core.simple import Candidate
from builder.core.sources import Sighting
from builder.edge.download import path_of
from builder.edge.index import Indexes
from builder.edge.pool import Stop, each
from builder.edge.store import hash_file
from builder.errors import NetworkError, NotOffered


def look_up(
    pins: Sequence[WheelPin],
    indexes: Indexes,
    *,
    threads: int,
    on_wheel: Callable[[], None] = lambda: None,
) -> list[Sighting]:
    """Look each wheel up: on its own index, then find-links, then further indexes.

    A page that gives no sha256 is believed; a copy on this machine is hashed.
    """

    def look(pin: WheelPin, stop: Stop) -> Sighting:
        stop.check()
        found = _look(pin, indexes)
        on_wheel()
        return found

    return each(look, pins, threads=threads)


def _look(pin: WheelPin, indexes: Indexes) -> Sighting:
    others: list[Candidate] = []
    down: list[NetworkError] = []
    for place in _places(pin, indexes):
        try:
            offers = indexes.offers(place, pin.name, pin.file)
        except NotOffered:
            continue
        except NetworkError as error:
            down.append(error)
            continue
        for row in offers:
            if row.file != pin.file:
                continue
            sha256 = hash_file(path_of(row.url)) if row.local else row.sha256
            if sha256 in ("", pin.sha256):
                return Sighting(pin=pin, offer=row, others=tuple(others), down=tuple(down))
            if place.name == pin.index:
                others.append(row)
    return Sighting(pin=pin, others=tuple(others), down=tuple(down))


def _places(pin: WheelPin, indexes: Indexes) -> Iterable[Place]:
    yield from indexes.homes(pin.index)
    yield from indexes.find_links
    yield from indexes.extra
