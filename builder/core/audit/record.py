"""RECORD: which files a package says it has, and with which bytes (binary distribution format)."""

from __future__ import annotations

import base64
import binascii
import csv
from dataclasses import dataclass

UNLISTED = frozenset({"RECORD.jws", "RECORD.p7s"})
"""Signatures that RECORD may not list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of RECORD."""

    path: str
    """As written: relative to the site directory, or absolute."""
    sha256: str = ""
    """Bare hex; empty where RECORD gives none, or one of another algorithm."""
    size: int | None = None
    """Bytes, where given."""


def parse_record(text: str) -> tuple[Row, ...]:
    """Read a RECORD; lines that are none are left out, as installers do."""
    rows = []
    try:
        for cells in csv.reader(text.splitlines()):
            if cells and cells[0]:
                path, digest, size = (*cells, "", "")[:3]
                rows.append(
                    Row(
                        path=path.replace("\\", "/"),
                        sha256=_hex(digest),
                        size=int(size) if size.isascii() and size.isdigit() else None,
                    )
                )
    except csv.Error:
        # A line no CSV reader takes, as with a zero byte: what came before it counts.
        return tuple(rows)
    return tuple(rows)


def _hex(digest: str) -> str:
    algorithm, _, value = digest.partition("=")
    if algorithm != "sha256":
        return ""
    try:
        return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
    except (binascii.Error, ValueError):
        # Not the hash of anything: the file will differ from it.
        return "0" * 64
