"""What a registry or its token server answered: JSON, errors and waits, read without trust."""

from __future__ import annotations

import json
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from builder.errors import RegistryError

LONGEST_WAIT = 60.0
"""Seconds a Retry-After may ask for; more is an error that says so."""
UNUSABLE = (httpx.HTTPError, httpx.InvalidURL, ValueError, OverflowError)
"""What httpx and the socket module raise for an exchange or an address that cannot be used."""
_LARGEST = 8 << 20
"""Bytes of a manifest or config; distribution-spec asks registries for at least 4 MiB."""
_LONGEST_QUOTE = 500
_QUERY = re.compile(r"\?[^\s'\"<>]+")
_USER = re.compile(r"[^\s/'\"]*:[^\s/'\"]*@|(?<=//)[^\s/'\"]*@")


def quoted(said: object) -> str:
    """Spell what another party said: no user name, password or query, in one line, not too long."""
    text = str(said) or type(said).__name__
    text = _USER.sub("", _QUERY.sub("?…", text))
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def json_table(response: httpx.Response) -> dict[str, Any]:
    """Read a JSON object; ValueError when the body is anything else."""
    try:
        body = json.loads(response.content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(body, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - one kind for bad bytes
    return body


def expect(response: httpx.Response, subject: str, *codes: int) -> None:
    """Raise RegistryError with the registry's own code and message (distribution-spec, errors)."""
    if response.status_code in codes:
        return
    status, said = response.status_code, _said(response)
    raise RegistryError(
        f"the registry answered HTTP {status}" + (f": {said}" if said else ""),
        subject=subject,
        action=_ADVICE.get(status, "look at the registry's log, then try again"),
    )


def _said(response: httpx.Response) -> str:
    try:
        errors = json_table(response).get("errors")
    except ValueError:
        return ""
    rows = [row for row in errors if isinstance(row, dict)] if isinstance(errors, list) else []
    texts = (f"{row.get('code', '')} {row.get('message', '')}".strip() for row in rows)
    said = "; ".join(text for text in texts if text)
    return quoted(said) if said else ""


def bounded(response: httpx.Response, subject: str) -> bytes:
    """Return the body; raises RegistryError when no manifest or config is that large."""
    if len(response.content) > _LARGEST:
        raise RegistryError(
            f"{len(response.content)} bytes where at most {_LARGEST} are expected",
            subject=subject,
            action="check that the reference names an image",
        )
    return response.content


def wanted_wait(response: httpx.Response, subject: str) -> float:
    """Seconds that Retry-After asks for (RFC 9110 10.2.3); 0 when it does not."""
    text = response.headers.get("Retry-After", "")
    if not text:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return 0.0
    if seconds > LONGEST_WAIT:
        raise RegistryError(
            f"the registry asks to wait {seconds:.0f} s (HTTP {response.status_code})",
            subject=subject,
            action="try again then; logging in raises the limit at most registries",
        )
    return max(0.0, seconds)


_ADVICE = {
    401: "log in with `docker login`, and check that this account may do it",
    403: "log in with `docker login`, and check that this account may do it",
    404: "check the repository's name",
    405: "switch deleting on in the registry's configuration",
    429: "wait, or log in: most registries give known users more",
}
