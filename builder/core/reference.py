"""Image references: `registry/repository:tag@digest`, read and spelled.

Grammar: distribution's `reference` package, with Docker's defaults (`docker.io`, `library/`) as its
`ParseNormalizedNamed` applies them. A missing tag stays missing: nothing is called `latest` here
unless it was written.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import NewType

from builder.errors import BadInput

Digest = NewType("Digest", str)
"""`sha256:` and 64 hex digits."""

DOCKER_HUB = "docker.io"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_HOST_PORT = re.compile(r"(\[.*\]|[^:]*)(?::([0-9]+))?")
_IMMUTABLE = re.compile(r".+-(?P<build>[0-9a-f]{12})")
_LONGEST_NAME = 255
_LAST_PORT = 65_535

_SHAPE = "write registry/repository:tag or registry/repository@sha256:…"


def parse_digest(text: str) -> Digest:
    """Check a digest; raises BadInput for anything but sha256."""
    if _DIGEST.fullmatch(text) is None:
        raise BadInput(
            "not a digest", subject=text, action="write `sha256:` and 64 lower-case hex digits"
        )
    return Digest(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """A name of an image; `str` and `parse` are each other's inverse."""

    registry: str
    """Host, with port where there is one."""
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageRef:
        """Read a reference; raises BadInput with the part that does not fit."""
        rest, at, digest = text.partition("@")
        if at and _DIGEST.fullmatch(digest) is None:
            # What stands before the last `@` may be a user name and a password.
            raise BadInput(
                "what follows `@` is not a digest",
                subject=text.rpartition("@")[2],
                action=f"{_SHAPE}, without user name: `docker login` keeps those",
            )
        tag = ""
        if rest.rfind(":") > rest.rfind("/"):
            rest, _, tag = rest.rpartition(":")
            if _TAG.fullmatch(tag) is None:
                raise BadInput(f"not a tag: {tag!r}", subject=text, action=_SHAPE)
        registry, repository = _split(rest)
        if _REGISTRY.fullmatch(registry) is None:
            raise BadInput(f"not a registry: {registry!r}", subject=text, action=_SHAPE)
        _check_host(registry, text)
        parts = repository.split("/")
        if any(_COMPONENT.fullmatch(part) is None for part in parts):
            raise BadInput(
                f"not a repository: {repository!r} (lower-case letters, digits, `.`, `_`, `-`)",
                subject=text,
                action=_SHAPE,
            )
        if registry == DOCKER_HUB and len(parts) == 1:
            repository = f"library/{repository}"
        if len(registry) + 1 + len(repository) > _LONGEST_NAME:
            raise BadInput(f"a name has at most {_LONGEST_NAME} bytes", subject=text, action=_SHAPE)
        return cls(registry=registry, repository=repository, tag=tag, digest=digest)

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def target(self) -> str:
        """What a registry is asked for: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    @property
    def pinned(self) -> str:
        """Name and digest alone, as an engine boots it."""
        return f"{self.name}@{self.digest}"

    def with_tag(self, tag: str) -> ImageRef:
        """Return the same repository under another tag, without digest."""
        if _TAG.fullmatch(tag) is None:
            raise BadInput(
                f"not a tag: {tag!r}",
                subject=str(self),
                action="tags have at most 128 letters, digits, `_`, `.`, `-`",
            )
        return replace(self, tag=tag, digest="")

    def with_digest(self, digest: str) -> ImageRef:
        """Pin it."""
        return replace(self, digest=parse_digest(digest))

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def _split(name: str) -> tuple[str, str]:
    """Part registry and repository by Docker's rule: the first part is a host if it looks so."""
    first, slash, rest = name.partition("/")
    looks_like_host = first == "localhost" or "." in first or ":" in first or first != first.lower()
    if slash and looks_like_host:
        return (DOCKER_HUB if first == "index.docker.io" else first), rest
    return DOCKER_HUB, name


def _check_host(registry: str, text: str) -> None:
    """Refuse what no connection can be made to: ports and IPv6 addresses that do not exist."""
    match = _HOST_PORT.fullmatch(registry)
    host, digits = match.groups() if match else (registry, None)
    port = digits.lstrip("0") if digits else ""
    if digits and (len(port) > 5 or not 0 < int(port or 0) <= _LAST_PORT):
        raise BadInput(
            f"not a port: {digits}",
            subject=text,
            action=f"write registry:port/repository:tag with a port from 1 to {_LAST_PORT}",
        )
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host.strip("[]"))
        except ValueError as error:
            raise BadInput(f"not an IPv6 address: {error}", subject=text, action=_SHAPE) from None


def is_loopback(registry: str) -> bool:
    """Whether a registry is this machine, so that plain HTTP is right (as Docker decides)."""
    host = registry.rpartition(":")[0] if re.search(r":\d+$", registry) else registry
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def build_of(tag: str) -> str:
    """Return the 12 hex digits an immutable tag ends in; empty for a moving tag."""
    match = _IMMUTABLE.fullmatch(tag)
    return match["build"] if match else ""
