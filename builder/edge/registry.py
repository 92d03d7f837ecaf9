"""A registry over HTTP: manifests and blobs, byte for byte (OCI distribution-spec 1.1).

Reads are tried again while that may help (429, 5xx, broken connections), writes never: the caller
reads back what a write did. What comes is checked against its digest before it is handed out.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import httpx

from builder.core.lock import digest_of
from builder.core.manifest import MEDIA_TYPES, ImageConfig, Manifest
from builder.core.reference import DOCKER_HUB, ImageRef, is_loopback
from builder.edge.credentials import Credential, find_credential
from builder.edge.registry_answer import (
    UNUSABLE,
    bounded,
    expect,
    json_table,
    quoted,
    wanted_wait,
)
from builder.edge.token import TokenServer, parse_challenge
from builder.errors import BadInput, HashMismatch, NetworkError, RegistryError

ATTEMPTS = 5
"""Tries of one read."""
BACKOFF = 0.5
"""Seconds before the second try; doubles with each."""
REFUSALS = 3
"""Tries when nobody listens there: that passes within a second or two, or not at all."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_FINAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""Broken exchanges that break the same way every time."""


class Registry:
    """One registry; use as a context manager."""

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
    def open(cls, host: str, environment: Mapping[str, str]) -> Registry:
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

    def ping(self) -> None:
        """Ask whether it is a registry and lets us in (end-1)."""
        response = self._read("GET", "/v2/", subject=self.host, scope="")
        expect(response, self.host, 200)

    def find_manifest(self, ref: ImageRef) -> Manifest | None:
        """Fetch a manifest or index with its exact bytes; None when there is none (end-3).

        Raises HashMismatch when the bytes are not what was asked for.
        """
        response = self._read(
            "GET",
            f"/v2/{ref.repository}/manifests/{ref.target}",
            subject=str(ref),
            scope=f"repository:{ref.repository}:pull",
            headers={"Accept": ", ".join(MEDIA_TYPES)},
        )
        if response.status_code == 404:
            return None
        expect(response, str(ref), 200)
        data = bounded(response, str(ref))
        found = digest_of(data)
        stated = ref.digest or response.headers.get("Docker-Content-Digest", "")
        if stated.startswith("sha256:") and stated != found:
            raise HashMismatch(
                f"the registry sent bytes with digest {found}, not {stated}",
                subject=str(ref),
                action="a proxy or a damaged registry altered them; push the image again",
            )
        return Manifest.parse(data, response.headers.get("Content-Type", ""), str(ref))

    def manifest(self, ref: ImageRef) -> Manifest:
        """Fetch a manifest or index; raises BadInput when there is none."""
        found = self.find_manifest(ref)
        if found is None:
            raise BadInput(
                "the registry has no such image",
                subject=str(ref),
                action="check repository and tag; `nightlock build IMAGE --push REPO` pushes one",
            )
        return found

    def find_digest(self, ref: ImageRef) -> str:
        """Digest a tag names now, without its bytes; empty when there is none (end-3)."""
        response = self._read(
            "HEAD",
            f"/v2/{ref.repository}/manifests/{ref.target}",
            subject=str(ref),
            scope=f"repository:{ref.repository}:pull",
            headers={"Accept": ", ".join(MEDIA_TYPES)},
        )
        if response.status_code == 404:
            return ""
        expect(response, str(ref), 200)
        stated = response.headers.get("Docker-Content-Digest", "")
        if stated.startswith("sha256:"):
            return str(stated)
        found = self.find_manifest(ref)
        return found.digest if found else ""

    def put_manifest(self, ref: ImageRef, manifest: Manifest) -> None:
        """Put exactly these bytes under a tag or digest (end-7).

        Raises HashMismatch when the registry says that it stored other bytes.
        """
        response = self._write(
            "PUT",
            f"/v2/{ref.repository}/manifests/{ref.target}",
            subject=str(ref),
            scope=f"repository:{ref.repository}:pull,push",
            headers={"Content-Type": manifest.media_type},
            content=manifest.data,
        )
        expect(response, str(ref), 201, 200, 202)
        stated = response.headers.get("Docker-Content-Digest", "")
        if stated.startswith("sha256:") and stated != manifest.digest:
            raise HashMismatch(
                f"the registry stored {stated}, not {manifest.digest}",
                subject=str(ref),
                action="look at what the tag names now, and at what stands before the registry",
            )

    def blob(self, ref: ImageRef, digest: str) -> bytes:
        """Fetch a small blob, as an image config (end-2); raises HashMismatch, RegistryError."""
        subject = f"{ref.name}@{digest}"
        response = self._read(
            "GET",
            f"/v2/{ref.repository}/blobs/{digest}",
            subject=subject,
            scope=f"repository:{ref.repository}:pull",
        )
        expect(response, subject, 200)
        data = bounded(response, subject)
        if digest_of(data) != digest:
            raise HashMismatch(
                f"the registry sent bytes with digest {digest_of(data)}",
                subject=subject,
                action="a proxy or a damaged registry altered them; push the image again",
            )
        return data

    def has_blob(self, ref: ImageRef, digest: str) -> bool:
        """Whether a blob is there (end-2)."""
        response = self._read(
            "HEAD",
            f"/v2/{ref.repository}/blobs/{digest}",
            subject=f"{ref.name}@{digest}",
            scope=f"repository:{ref.repository}:pull",
        )
        if response.status_code == 404:
            return False
        expect(response, f"{ref.name}@{digest}", 200)
        return True

    def config(self, ref: ImageRef, manifest: Manifest, platform: str = "") -> ImageConfig:
        """Fetch the config of an image; of an index, that of `platform` or of its only one.

        Raises BadInput when an index has no such platform.
        """
        if manifest.is_index:
            wanted = platform or (manifest.platforms[0] if len(manifest.platforms) == 1 else "")
            child = manifest.child(wanted)
            if child is None:
                raise BadInput(
                    f"the image has no platform {wanted or '(none asked for)'}",
                    subject=str(ref),
                    action=f"it has: {', '.join(manifest.platforms) or 'none'}",
                )
            manifest = self.manifest(ref.with_digest(child.digest))
        if manifest.body.config is None:
            raise RegistryError(
                "the manifest has no config",
                subject=str(ref),
                action="check that the reference names a container image, not another artifact",
            )
        return ImageConfig.parse(self.blob(ref, manifest.body.config.digest), str(ref))

    def tags(self, ref: ImageRef) -> Iterator[str]:
        """List the tags of a repository, page by page (end-8); none when it is not there."""
        path = f"/v2/{ref.repository}/tags/list?n=1000"
        while path:
            response = self._read(
                "GET", path, subject=ref.name, scope=f"repository:{ref.repository}:pull"
            )
            if response.status_code == 404:
                return
            expect(response, ref.name, 200)
            try:
                yield from _names(response)
                path = self._next_page(response, path)
            except UNUSABLE as error:
                raise RegistryError(
                    f"the registry's list of tags cannot be read: {quoted(error)}",
                    subject=ref.name,
                    action="look at the registry's log, and at what stands before it",
                ) from None

    def delete(self, ref: ImageRef, digest: str) -> bool:
        """Delete a manifest by digest, and so every tag of it; False when it was not there (end-9).

        Raises RegistryError when the registry does not delete.
        """
        subject = f"{ref.name}@{digest}"
        response = self._write(
            "DELETE",
            f"/v2/{ref.repository}/manifests/{digest}",
            subject=subject,
            scope=f"repository:{ref.repository}:pull,delete",
        )
        if response.status_code == 404:
            return False
        expect(response, subject, 202, 200)
        return True

    def _next_page(self, response: httpx.Response, path: str) -> str:
        """Address of the next page; ValueError when it leads away: our token goes with it."""
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

    def _read(
        self, method: str, path: str, *, subject: str, scope: str, headers: Mapping[str, str] = {}
    ) -> httpx.Response:
        refused = 0
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                response = self._send(method, path, subject, scope, headers)
            except httpx.TransportError as error:
                refused += isinstance(error, httpx.ConnectError) and "refused" in str(error)
                if last or refused == REFUSALS:
                    raise self._unreachable(error, subject) from error
                wait = BACKOFF * 2 ** (attempt - 1)
            else:
                if response.status_code not in _AGAIN or last:
                    return response
                wait = wanted_wait(response, subject) or BACKOFF * 2 ** (attempt - 1)
            self._pause(wait)
        raise AssertionError  # the last attempt returns or raises

    def _write(
        self,
        method: str,
        path: str,
        *,
        subject: str,
        scope: str,
        headers: Mapping[str, str] = {},
        content: bytes = b"",
    ) -> httpx.Response:
        try:
            return self._send(method, path, subject, scope, headers, content)
        except httpx.TransportError as error:
            raise self._unreachable(error, subject) from error

    def _send(
        self,
        method: str,
        path: str,
        subject: str,
        scope: str,
        headers: Mapping[str, str],
        content: bytes = b"",
    ) -> httpx.Response:
        """Send once; when asked who we are, say so and send again.

        Raises httpx.TransportError where another try may help, else RegistryError.
        """

        def send() -> httpx.Response:
            return self._client.request(
                method, path, headers={**headers, **self._tokens.header(scope)}, content=content
            )

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

    def _unreachable(self, error: httpx.TransportError, subject: str) -> NetworkError:
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


def _names(response: httpx.Response) -> list[str]:
    # Registries say `null` for a repository whose tags are all gone.
    names = json_table(response).get("tags") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("`tags` is not a list of names")
    return names
