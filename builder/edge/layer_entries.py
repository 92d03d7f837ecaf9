"""The entries of a layer, with the hash of each file, as its blob streams by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from builder.core.layer_entry import Entry
from builder.edge.layer_files import members
from builder.edge.pool import Stop


def read_entries(pieces: Iterable[bytes], digest: str, stop: Stop) -> list[Entry]:
    """Read a layer's blob (a tar, plain, gzip or zstd) to its end.

    Raises Refused when it is no layer, and what `pieces` raises.
    """
    found = []
    for member, content in members(pieces, digest):
        hashed = hashlib.sha256()
        if member.isreg():
            for piece in content:
                stop.check()
                hashed.update(piece)
        found.append(Entry.of(member, hashed.hexdigest()))
    return found
