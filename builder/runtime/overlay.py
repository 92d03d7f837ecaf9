"""A folder that stands for a checkpoint, with a corrected config: whether it is still true.

`nightlock model check DIR --overlay OUT` writes it; the note in it says what it was made from.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOTE = "nightlock-overlay.json"


def stat_of(path: str) -> list[int]:
    """Size in bytes and time of the last change in ns, through links: what a note keeps."""
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns]


def read(folder: str) -> dict[str, Any] | None:
    """Return the note; None when the folder is no overlay. Raises ValueError for a damaged one."""
    try:
        with open(f"{folder}/{NOTE}", encoding="utf-8") as file:
            note = json.load(file)
    except FileNotFoundError:
        return None
    if not isinstance(note, dict) or not isinstance(note.get("files"), dict):
        raise ValueError(f"{NOTE} is damaged")  # noqa: TRY004 - as a file that is no JSON
    return note


def stale(folder: str, note: dict[str, Any]) -> str:
    """Say what has changed under an overlay since it was made; empty when nothing has.

    Linked files show a change by themselves; the others when the source can be seen from here,
    which is so on the host and in a container that has it at the same place.
    """
    linked, source = set(note.get("linked", [])), str(note.get("source", ""))
    for name, kept in sorted(note["files"].items()):
        places = [f"{folder}/{name}"] if name in linked else []
        if os.path.isdir(source):
            places.append(f"{source}/{name}")
        for path in places:
            try:
                now = stat_of(path)
            except OSError:
                return f"{path} is gone"
            if now != kept:
                return f"{path} was changed"
    return ""
