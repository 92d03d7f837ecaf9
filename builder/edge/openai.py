"""The OpenAI API of a server we booted: requests out, replies as they came back.

A broken exchange is a reply that says so, not an exception: what it means is for the judge.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx
from pydantic import JsonValue

from builder.core.answer import Reply

_LARGEST = 16 << 20
"""Bytes of an answer; a server that repeats itself must not fill our memory."""


class OpenAI:
    """One server; use as a context manager. Safe to use from several threads."""

    def __init__(self, address: str) -> None:
        # The server is on loopback or on the engine's machine: a proxy has no part in it.
        self._client = httpx.Client(base_url=address, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def get(self, path: str, seconds: float) -> Reply:
        """Ask with GET; `seconds` is the longest silence."""
        return self._exchange("GET", path, None, seconds)

    def post(self, path: str, body: Mapping[str, JsonValue], seconds: float) -> Reply:
        """Ask with a JSON body; an event stream is read to its end."""
        return self._exchange("POST", path, json.dumps(body, ensure_ascii=False).encode(), seconds)

    def _exchange(self, method: str, path: str, body: bytes | None, seconds: float) -> Reply:
        started = time.monotonic()
        status, first, failure = 0, 0.0, ""
        data = bytearray()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            with self._client.stream(
                method, path, content=body, headers=headers, timeout=seconds
            ) as response:
                status = response.status_code
                for piece in response.iter_bytes():
                    first = first or time.monotonic() - started
                    data += piece
                    if len(data) > _LARGEST:
                        failure = f"more than {_LARGEST} bytes came"
                        break
        except httpx.TimeoutException:
            failure = f"no answer within {seconds:g} s"
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, ValueError) as error:
            failure = str(error) or type(error).__name__
        return Reply(
            status=status,
            body=data.decode(errors="replace"),
            failure=failure,
            seconds=time.monotonic() - started,
            first_seconds=first,
        )
