"""A large blob of a registry, as its bytes stream by (distribution-spec end-2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx

from builder.core.hash_change import other_bytes
from builder.core.reference import ImageRef
from builder.edge.registry_answer import expect
from builder.edge.registry_connection import ATTEMPTS, Connection

_PIECE = 1 << 20


def stream_blob(registry: Connection, ref: ImageRef, digest: str) -> Iterator[bytes]:
    """Yield a blob piece by piece; a broken connection is taken up where it broke.

    After the last piece raises HashMismatch when they are not what the digest says; RegistryError,
    NetworkError as they come up.
    """
    subject = f"{ref.name}@{digest}"
    hashed = hashlib.sha256()
    have = 0
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with registry.stream(
                f"/v2/{ref.repository}/blobs/{digest}",
                subject=subject,
                scope=f"repository:{ref.repository}:pull",
                headers={"Range": f"bytes={have}-"} if have else {},
            ) as response:
                expect(response, subject, 200, 206)
                # A server that does no ranges begins at the beginning.
                again = have if response.status_code == 200 else 0
                for piece in response.iter_raw(_PIECE):
                    fresh, again = piece[again:], max(0, again - len(piece))
                    hashed.update(fresh)
                    have += len(fresh)
                    yield fresh
            break
        except httpx.TransportError as error:
            if attempt == ATTEMPTS:
                raise registry.unreachable(error, subject) from error
            registry.pause(attempt)
    if f"sha256:{hashed.hexdigest()}" != digest:
        raise other_bytes(
            f"the registry sent bytes with digest sha256:{hashed.hexdigest()}",
            subject=subject,
            action="a proxy or a damaged registry altered them; push the image again",
            key="blob-damaged",
        )
