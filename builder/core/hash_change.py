"""Why a file is not the one the lock names: the error text is one, the causes are four (C13).

Every HashMismatch is made here, so that none is without its finding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.simple import Candidate
from builder.errors import HashMismatch

Cause = Literal["same", "web-page", "truncated", "metadata-hash", "other-index", "replaced"]
"""`same`: nothing is wrong. `web-page`: a proxy's or login page came instead of the file."""

_MARKUP = (b"<!doctype", b"<html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the lock names, and where such a file should come from."""

    file: str
    sha256: str
    """64 hex digits."""
    size: int = 0
    """Bytes; 0: unknown."""
    index: str = ""
    """Name of the index it was locked from."""
    said_by: str = "the lock"
    """Who names this sha256; while locking it is the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What came, or what a page lists."""

    sha256: str
    size: int = 0
    """Bytes; 0: nothing was fetched, a page gave another sha256."""
    place: str = ""
    """Who has it, for messages."""
    foreign: bool = False
    """Whether that place is not the file's own index: find-links, a further index."""
    announced: int | None = None
    """Content-Length of the whole file; None: the server did not say."""
    metadata_sha256: str = ""
    """Hash of METADATA that the index gives (`data-core-metadata`, PEP 714)."""
    modified: str = ""
    """Last-Modified, as sent."""
    head: bytes = b""
    """First bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said of a file it sent; nothing for what lay here already."""

    announced: int | None = None
    """Length of the whole file, bytes; None: it did not say."""
    modified: str = ""
    """Last-Modified, as sent."""


def arrived_from(
    error: HashMismatch, offer: Candidate, answer: Answer, *, foreign: bool = False
) -> Arrived:
    """Join what the store saw of wrong bytes with who offered and sent them."""
    seen = error.arrived or Arrived(sha256="")
    return replace(
        seen,
        place=offer.place,
        foreign=foreign,
        announced=answer.announced,
        modified=answer.modified,
        metadata_sha256=offer.metadata_sha256,
    )


def classify(expected: Expected, arrived: Arrived) -> Cause:
    """Tell the causes apart, in the order in which they can be told."""
    if arrived.sha256 == expected.sha256:
        return "same"
    if arrived.head.lstrip().lower().startswith(_MARKUP):
        return "web-page"
    whole = expected.size if arrived.announced is None else arrived.announced
    if arrived.size and expected.size != arrived.size and arrived.size < whole:
        return "truncated"
    if arrived.metadata_sha256 == expected.sha256:
        return "metadata-hash"
    if arrived.foreign:
        return "other-index"
    return "replaced"


def explain(expected: Expected, arrived: Arrived, relock: str) -> Finding | None:
    """Say what happened; None when the bytes are right.

    `relock` is the command that locks this one package again, for the case that it is meant; empty
    while it is being locked.
    """
    cause = classify(expected, arrived)
    if cause == "same":
        return None
    evidence, reason, action = _words(cause, expected, arrived, relock)
    return finding(
        "hash-mismatch",
        subject=expected.file,
        evidence=f"{evidence} ({expected.said_by} names sha256 {expected.sha256}, "
        f"what came has {arrived.sha256})",
        cause=reason,
        action=action,
    )


def refusal(expected: Expected, arrived: Arrived, relock: str, *, subject: str) -> HashMismatch:
    """Make the error, with its finding; `subject` is the address.

    ValueError when the bytes are right.
    """
    row = explain(expected, arrived, relock)
    if row is None:
        raise ValueError(f"{expected.file} is what the lock names")
    source = f" from {arrived.place}" if arrived.place else ""
    error = HashMismatch(
        f"{expected.file}{source}: {row.evidence}", subject=subject, action=row.action
    )
    error.findings = (row,)
    return error


def other_bytes(
    what: str, *, subject: str, action: str, key: str = "hash-mismatch"
) -> HashMismatch:
    """Make the error, with its finding, where nothing tells the causes apart."""
    error = HashMismatch(what, subject=subject, action=action)
    error.findings = (
        finding(key, subject=error.subject, evidence=error.what, action=error.action),
    )
    return error


def _words(cause: Cause, expected: Expected, arrived: Arrived, relock: str) -> tuple[str, str, str]:
    """Evidence, cause and action."""
    deliberate = (
        f"If the new file is right, lock this one package again: `{relock}`."
        if relock
        else "Ask another mirror of that index with --index."
    )
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
            "Try again, or name another place for the file.",
        )
    if cause == "metadata-hash":
        return (
            f"{expected.said_by} holds the hash of the file's METADATA, not of the file",
            "Somebody took `data-core-metadata` for the hash of the wheel.",
            deliberate,
        )
    if cause == "other-index":
        return (
            f"another file of that name lies at {arrived.place}, not at its own index"
            + (f" {expected.index}" if expected.index else ""),
            "Two indexes carry different files of one name.",
            f"Take the file from its own index. {deliberate}",
        )
    sizes = "other bytes of the same length"
    if not arrived.size:
        sizes = f"{arrived.place or 'its index'} lists another one under the same name"
    elif expected.size and arrived.size != expected.size:
        sizes = f"{arrived.size} bytes instead of {expected.size}"
    when = f", last modified {arrived.modified}" if arrived.modified else ""
    return (
        f"the file was replaced: {sizes}{when}",
        "Upstream put another file under the same name, or somebody tampered with it.",
        f"Find out why before anything else; it is never locked again by itself. {deliberate}",
    )
