"""Wheels read in place: every member goes by once, nothing is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from builder.core.audit.file import Examiner, FileFacts, is_kept
from builder.edge.pool import Stop
from builder.edge.zip_stream import BROKEN, stream
from builder.errors import Refused


def read_wheel(path: Path, name: str, stop: Stop) -> tuple[dict[str, FileFacts], dict[str, bytes]]:
    """Examine every file of a wheel; its paths begin with `name`, its file name.

    Returns facts, and the texts that rules want. Raises Refused when it is damaged or no wheel.
    """
    facts: dict[str, FileFacts] = {}
    texts: dict[str, bytes] = {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                place = f"{name}/{entry.filename}"
                kept = bytearray() if is_kept(place, entry.file_size) else None
                examiner = Examiner()
                for piece in stream(file, entry):
                    stop.check()
                    examiner.feed(piece)
                    if kept is not None:
                        kept += piece
                facts[place] = examiner.facts()
                if kept is not None:
                    texts[place] = bytes(kept)
    except BROKEN as error:
        raise Refused(
            f"the wheel cannot be read: {error}",
            subject=f"{name} ({path})",
            action="fetch it again: `nightlock fetch`, or from where this folder was filled",
        ) from error
    return facts, texts


def read_members(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Read single files of a wheel; what it lacks, or cannot be read, is left out."""
    found = {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            there = set(archive.namelist())
            for name in names:
                if name in there:
                    found[name] = b"".join(stream(file, archive.getinfo(name)))
    except (*BROKEN, OSError):
        return found
    return found
