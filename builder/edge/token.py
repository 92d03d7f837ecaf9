"""Answers to a registry that asks who we are: Basic, and tokens from a token server.

Source: distribution `docs/spec/auth/{token,oauth}.md`, RFC 7235 challenges.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

import httpx

from builder.core.reference import is_loopback
from builder.edge.credentials import Credential
from builder.edge.registry_answer import UNUSABLE, json_table, quoted
from builder.errors import RegistryError

_PAIR = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))')
_TOKEN = re.compile(r"[!-~]+")


def parse_challenge(headers: Sequence[str]) -> Mapping[str, str]:
    """Read WWW-Authenticate; `scheme` is `bearer`, `basic` or empty."""
    found: dict[str, dict[str, str]] = {}
    for header in headers:
        scheme, _, rest = header.strip().partition(" ")
        pairs = {m[1].lower(): m[2] if m[2] is not None else m[3] for m in _PAIR.finditer(rest)}
        found.setdefault(scheme.lower(), pairs)
    for scheme in ("bearer", "basic"):
        if scheme in found:
            return {"scheme": scheme, **found[scheme]}
    return {"scheme": ""}


class TokenServer:
    """Remembers what the registry wants to see, per scope."""

    def __init__(
        self, client: httpx.Client, credential: Callable[[], Credential | None], *, local: bool
    ) -> None:
        self._client = client
        self._find = credential
        self._local = local
        self._headers: dict[str, str] = {}

    def header(self, scope: str) -> dict[str, str]:
        """Return the header to send along, if one is known."""
        value = self._headers.get(scope) or self._headers.get("*")
        return {"Authorization": value} if value else {}

    def answer(self, challenge: Mapping[str, str], scope: str, subject: str) -> bool:
        """Get what the challenge asks for; False when there is nothing (new) to show.

        Raises RegistryError when the token server refuses or cannot be trusted with a password.
        """
        credential = self._find()
        if challenge["scheme"] == "basic":
            value = _basic(credential)
            fresh = bool(value) and self._headers.get("*") != value
            if value:
                self._headers["*"] = value
            return fresh
        if challenge["scheme"] != "bearer":
            return False
        self._headers[scope] = f"Bearer {self._token(challenge, scope, credential, subject)}"
        return True

    def _token(
        self,
        challenge: Mapping[str, str],
        scope: str,
        credential: Credential | None,
        subject: str,
    ) -> str:
        realm = challenge.get("realm", "")
        try:
            parts = urlsplit(realm)
            httpx.URL(realm)
        except UNUSABLE as error:
            raise RegistryError(
                f"the registry names a token server with a bad address: {quoted(error)}",
                subject=subject,
                action="correct the `realm` in the registry's configuration",
            ) from None
        server = parts.netloc.rpartition("@")[2]
        safe = parts.scheme == "https" or (self._local and is_loopback(parts.netloc))
        if not safe:
            named = f"{parts.scheme}://{server}" if server else "(none)"
            raise RegistryError(
                f"the registry names a token server that is not https: {named}",
                subject=subject,
                action="give its token server TLS; a password is not sent in the clear",
            )
        fields = {"service": challenge.get("service", ""), "scope": challenge.get("scope", scope)}
        fields = {key: value for key, value in fields.items() if value}
        try:
            response = self._ask(realm, fields, credential)
        except UNUSABLE as error:
            raise RegistryError(
                f"the token server {server} does not answer: {quoted(error)}",
                subject=subject,
                action="check the network, then try again",
            ) from error
        if response.status_code != 200:
            raise RegistryError(
                f"the token server {server} answered HTTP {response.status_code}",
                subject=subject,
                action="log in with `docker login`, and check that this account may do it",
            )
        try:
            return _token_in(response)
        except ValueError as error:
            raise RegistryError(
                f"the answer of the token server {server} cannot be used: {quoted(error)}",
                subject=subject,
                action="check the `realm` in the registry's configuration, and what stands there",
            ) from None

    def _ask(
        self, realm: str, fields: Mapping[str, str], credential: Credential | None
    ) -> httpx.Response:
        if credential is not None and credential.identity_token:
            form = {
                **fields,
                "grant_type": "refresh_token",
                "client_id": "nightlock",
                "refresh_token": credential.identity_token,
            }
            return self._client.post(realm, data=form)
        value = _basic(credential)
        headers = {"Authorization": value} if value else {}
        return self._client.get(realm, params=dict(fields), headers=headers)


def _token_in(response: httpx.Response) -> str:
    body = json_table(response)
    token = body.get("token") or body.get("access_token")
    # Anything else cannot stand in a header, and the error about that would quote it.
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise ValueError("it holds no token")
    return token


def _basic(credential: Credential | None) -> str:
    if credential is None or not credential.user:
        return ""
    pair = f"{credential.user}:{credential.secret}".encode()
    return "Basic " + base64.b64encode(pair).decode()
