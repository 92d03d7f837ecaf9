"""One registry's HTTP: who we are, what is tried again, what an answer that cannot be used says.

Reads are tried again while that may help (429, 5xx, broken connections), writes never: the caller
reads back what a write did.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import httpx

from builder.core.reference import DOCKER_HUB, is_loopback
from builder.edge.credentials import Credential, find_credential
from builder.edge.registry_answer import UNUSABLE, quoted, wanted_wait
from builder.edge.token import TokenServer, parse_challenge
from builder.errors import BadInput, NetworkError, RegistryError

ATTEMPTS = 5
"""Tries of one read."""
BACKOFF = 0.5
"""Seconds before the second try; doubles with each."""
REFUSALS = 3
"""Tries when nobody listens there: that passes within a second or two, or not at all."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_FINAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""Broken exchanges that break the same way every time."""


class Connection:
    """One registry's HTTP; use as a context manager."""

    def __init__(
        self,
        host: str,
        *,
        credential: Callable[[], Credential | None] = lambda: None,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.host = host
        local = is_loopback(host)
        server = "registry-1.docker.io" if host == DOCKER_HUB else host
        self._pause = pause
        self._client = _client(f"{'http' if local else 'https'}://{server}", local, transport)
        self._tokens = TokenServer(self._client, credential, local=local)

    @classmethod
    def open(cls, host: str, environment: Mapping[str, str]) -> Self:
        """Open a registry with docker's own credentials for it, looked up when it asks."""
        return cls(host, credential=lambda: find_credential(host, environment))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def next_page(self, response: httpx.Response, path: str) -> str:
        """Return the next page's address; ValueError when it leads away: our token goes along."""
        link = response.links.get("next", {}).get("url", "")
        if not link:
            return ""
        following = httpx.URL(urljoin(str(response.url), link))
        base = self._client.base_url
        if (following.scheme, following.netloc) != (base.scheme, base.netloc):
            raise ValueError("its next page is at another host")
        if str(following) == str(self._client.base_url.join(path)):
            raise ValueError("its next page is the same page")
        return str(following)

    def upload_place(self, begun: httpx.Response, digest: str, subject: str) -> str:
        """Return where a begun upload goes to; raises RegistryError when it leads away."""
        location = begun.headers.get("Location", "")
        try:
            place = httpx.URL(urljoin(str(begun.url), location))
            base = self._client.base_url
            if not location or place.netloc != base.netloc:
                raise ValueError(f"it names {location or 'no place'}")
            # Behind a proxy that ends TLS a registry may say http of itself.
            return str(place.copy_with(scheme=base.scheme).copy_merge_params({"digest": digest}))
        except UNUSABLE as error:
            raise RegistryError(
                f"the registry names no place on itself to upload to: {quoted(error)}",
                subject=subject,
                action="check the registry's own address in its configuration (`http.host`)",
            ) from None

    def read(
        self, method: str, path: str, *, subject: str, scope: str, headers: Mapping[str, str] = {}
    ) -> httpx.Response:
        """Ask, again while that may help; raises NetworkError, RegistryError."""
        refused = 0
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                response = self._send(method, path, subject, scope, headers)
            except httpx.TransportError as error:
                refused += isinstance(error, httpx.ConnectError) and "refused" in str(error)
                if last or refused == REFUSALS:
                    raise self.unreachable(error, subject) from error
                wait = BACKOFF * 2 ** (attempt - 1)
            else:
                if response.status_code not in _AGAIN or last:
                    return response
                wait = wanted_wait(response, subject) or BACKOFF * 2 ** (attempt - 1)
            self._pause(wait)
        raise AssertionError  # the last attempt returns or raises

    def write(
        self,
        method: str,
        path: str,
        *,
        subject: str,
        scope: str,
        headers: Mapping[str, str] = {},
        content: bytes = b"",
    ) -> httpx.Response:
        """Send once; raises NetworkError when the answer is lost, RegistryError."""
        try:
            return self._send(method, path, subject, scope, headers, content)
        except httpx.TransportError as error:
            raise self.unreachable(error, subject) from error

    @contextmanager
    def stream(
        self, path: str, *, subject: str, scope: str, headers: Mapping[str, str] = {}
    ) -> Iterator[httpx.Response]:
        """Ask once for something large, whose body the caller reads piece by piece.

        Raises httpx.TransportError where another try may help, else RegistryError.
        """
        response = self._send("GET", path, subject, scope, headers, stream=True)
        try:
            yield response
        finally:
            response.close()

    def pause(self, attempt: int) -> None:
        """Wait before the next try of a read."""
        self._pause(BACKOFF * 2 ** (attempt - 1))

    def _send(
        self,
        method: str,
        path: str,
        subject: str,
        scope: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        stream: bool = False,
    ) -> httpx.Response:
        """Send once; when asked who we are, say so and send again.

        Raises httpx.TransportError where another try may help, else RegistryError.
        """

        def send() -> httpx.Response:
            request = self._client.build_request(
                method, path, headers={**headers, **self._tokens.header(scope)}, content=content
            )
            answer = self._client.send(request, stream=stream)
            if stream and answer.is_error:
                # Short, and whoever refuses reads what it says.
                answer.read()
            return answer

        try:
            response = send()
            if response.status_code != 401:
                return response
            challenge = parse_challenge(response.headers.get_list("WWW-Authenticate"))
            return send() if self._tokens.answer(challenge, scope, subject) else response
        except UNUSABLE as error:
            if isinstance(error, httpx.TransportError) and not isinstance(error, _FINAL):
                raise
            raise RegistryError(
                f"the answer of the registry {self.host} cannot be used: {quoted(error)}",
                subject=subject,
                action="check the registry's address, and what stands between here and it",
            ) from error

    def unreachable(self, error: httpx.TransportError, subject: str) -> NetworkError:
        """Put a broken exchange into words."""
        advice = "check the network and the proxy settings, then try again"
        if is_loopback(self.host):
            advice = (
                "is a registry listening there? `nightlock engine status` names the local one, "
                "`nightlock engine start` starts it"
            )
        elif "CERTIFICATE" in str(error).upper() or "SSL" in str(error).upper():
            advice = "add the registry's CA to the machine, or name it in SSL_CERT_FILE"
        return NetworkError(
            f"the registry {self.host} does not answer: {quoted(error)}",
            subject=subject,
            action=advice,
        )


def _client(address: str, local: bool, transport: httpx.BaseTransport | None) -> httpx.Client:
    try:
        httpx.URL(address)
    except UNUSABLE as error:
        raise BadInput(
            f"not a registry's address: {quoted(error)}",
            subject=address,
            action="write registry/repository:tag with a host name that can exist",
        ) from None
    try:
        return httpx.Client(
            base_url=address,
            transport=transport,
            # The machine's own CA store, as docker uses it; a proxy is never asked for loopback.
            verify=ssl.create_default_context(),
            trust_env=not local,
            follow_redirects=True,
            timeout=httpx.Timeout(60, connect=15),
            headers={"User-Agent": "nightlock"},
        )
    except (*UNUSABLE, ImportError):
        # The words of the cause may hold the proxy's password.
        raise NetworkError(
            "the proxy settings cannot be used",
            subject=address,
            action="correct HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY: http://host:port",
        ) from None
