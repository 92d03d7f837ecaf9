"""Why a file is not the one the lock names: the error text is one, the causes are four (C13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.core.finding import Finding
from builder.core.keys import finding

Cause = Literal["same", "web-page", "truncated", "metadata-hash", "other-index", "replaced"]
"""`same`: nothing is wrong. `web-page`: a proxy's or login page came instead of the file."""

_MARKUP = (b"<!doctype", b"<html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the lock names, and where such a file should come from."""

    file: str
    sha256: str
    """64 hex digits."""
    size: int
    """Bytes; 0: unknown."""
    hosts: frozenset[str] = frozenset()
    """Hosts that serve files of its index; empty: not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What came."""

    sha256: str
    size: int
    host: str = ""
    """Host that sent it, after redirects."""
    announced: int | None = None
    """Content-Length of the whole file; None: the server did not say."""
    metadata_sha256: str = ""
    """Hash of METADATA that the index gives (`data-core-metadata`, PEP 714)."""
    modified: str = ""
    """Last-Modified, as sent."""
    head: bytes = b""
    """First bytes."""


def classify(expected: Expected, arrived: Arrived) -> Cause:
    """Tell the causes apart, in the order in which they can be told."""
    if arrived.sha256 == expected.sha256:
        return "same"
    if arrived.head.lstrip().lower().startswith(_MARKUP):
        return "web-page"
    if expected.size != arrived.size and arrived.size < (arrived.announced or expected.size):
        return "truncated"
    if arrived.metadata_sha256 == expected.sha256:
        return "metadata-hash"
    if expected.hosts and arrived.host and arrived.host not in expected.hosts:
        return "other-index"
    return "replaced"


def explain(expected: Expected, arrived: Arrived, relock: str) -> Finding | None:
    """Say what happened; None when the bytes are right.

    `relock` is the command that locks this one package again, for the case that it is meant.
    """
    cause = classify(expected, arrived)
    if cause == "same":
        return None
    evidence, reason, action = _words(cause, expected, arrived, relock)
    return finding(
        "hash-mismatch",
        subject=expected.file,
        evidence=f"{evidence} (the lock names sha256 {expected.sha256}, what came has "
        f"{arrived.sha256})",
        cause=reason,
        action=action,
    )


def _words(cause: Cause, expected: Expected, arrived: Arrived, relock: str) -> tuple[str, str, str]:
    """Evidence, cause and action."""
    deliberate = f"If the new file is right, lock this one package again: `{relock}`."
    if cause == "web-page":
        return (
            "a web page came instead of the file",
            "A proxy or a login page answered for the index.",
            "Check the proxy variables and the credentials for this host.",
        )
    if cause == "truncated":
        whole = arrived.announced or expected.size
        return (
            f"the file is cut short: {arrived.size} of {whole} bytes",
            "The download stopped early.",
            "Try again; what has arrived is taken up.",
        )
    if cause == "metadata-hash":
        return (
            "the lock holds the hash of the file's METADATA, not of the file",
            "Whoever wrote the lock took `data-core-metadata` for the hash of the wheel.",
            f"Lock this package again: `{relock}`.",
        )
    if cause == "other-index":
        hosts = ", ".join(sorted(expected.hosts))
        return (
            f"another file of that name came from {arrived.host}, its index is at {hosts}",
            "Two indexes carry different files of one name.",
            f"Take the file from its own index. {deliberate}",
        )
    sizes = "other bytes of the same length"
    if expected.size and arrived.size != expected.size:
        sizes = f"{arrived.size} bytes instead of {expected.size}"
    when = f", last modified {arrived.modified}" if arrived.modified else ""
    return (
        f"the file was replaced: {sizes}{when}",
        "Upstream put another file under the same name, or somebody tampered with it.",
        f"Find out why before anything else; it is never locked again by itself. {deliberate}",
    )
