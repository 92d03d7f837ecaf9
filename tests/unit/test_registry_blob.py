"""Large blobs stream by: taken up where they broke, checked at the end."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from builder.core.lock import digest_of
from builder.core.reference import ImageRef
from builder.edge.registry import Registry
from builder.edge.registry_blob import stream_blob
from builder.edge.registry_connection import ATTEMPTS
from builder.errors import HashMismatch, NetworkError, RegistryError

REF = ImageRef.parse("registry.example/team/cpu:x")
DATA = bytes(range(256)) * 5000


class Breaking(httpx.SyncByteStream):
    """A body that ends early, with an error."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self._data
        raise httpx.ReadError("connection reset")


def read(*answers: httpx.Response, ranges: list[str] | None = None) -> bytes:
    """Stream the blob from a server that gives these answers in turn."""
    waiting = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        if ranges is not None:
            ranges.append(request.headers.get("Range", ""))
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    transport = httpx.MockTransport(answer)
    with Registry(REF.registry, transport=transport, pause=lambda _: None) as registry:
        return b"".join(stream_blob(registry, REF, digest_of(DATA)))


def test_a_blob_arrives_whole() -> None:
    """Byte for byte."""
    assert DATA == read(httpx.Response(200, stream=httpx.ByteStream(DATA)))


def test_a_broken_connection_is_taken_up() -> None:
    """The rest is asked for, and what came is kept."""
    ranges: list[str] = []
    first = httpx.Response(200, stream=Breaking(DATA[:1_200_000]))
    assert DATA == read(
        first, httpx.Response(206, stream=httpx.ByteStream(DATA[1 << 20 :])), ranges=ranges
    )
    assert ["", "bytes=1048576-"] == ranges


def test_a_server_without_ranges_begins_again() -> None:
    """What had come already is passed over."""
    first = httpx.Response(200, stream=Breaking(DATA[:1_200_000]))
    assert DATA == read(first, httpx.Response(200, stream=httpx.ByteStream(DATA)))


def test_other_bytes_are_refused_at_the_end() -> None:
    """A proxy's words are no layer."""
    with pytest.raises(HashMismatch, match="registry sent bytes"):
        read(httpx.Response(200, stream=httpx.ByteStream(b"sorry")))


def test_an_absent_blob_is_told_in_the_registrys_words() -> None:
    """Although its answer is not read as a stream."""
    body = {"errors": [{"code": "BLOB_UNKNOWN", "message": "blob unknown to registry"}]}
    with pytest.raises(RegistryError, match="BLOB_UNKNOWN"):
        read(httpx.Response(404, json=body))


def test_a_server_that_always_breaks_is_given_up() -> None:
    """After a few tries, as a network error."""
    ranges: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        ranges.append(request.url.path)
        raise httpx.ConnectTimeout("too slow")

    transport = httpx.MockTransport(answer)
    with (
        Registry(REF.registry, transport=transport, pause=lambda _: None) as registry,
        pytest.raises(NetworkError),
    ):
        list(stream_blob(registry, REF, digest_of(DATA)))
    assert ATTEMPTS == len(ranges)
