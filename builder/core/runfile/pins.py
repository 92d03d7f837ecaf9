"""Pinned references inside any run file: where they stand, the tag they follow, moving them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*(?::\d+)?(?:/[a-z0-9][a-z0-9._-]*)+)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?@(?P<digest>sha256:[0-9a-f]{64})"
    r"(?:[ \t\"']*#[ \t]*(?P<comment>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})\b)?"
)
_HEADER = re.compile(
    r"(?m)^[ \t]*#[ \t]*image[ \t]+(?P<name>\S+):(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})[ \t]*$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One image of a run file."""

    name: str
    """Registry and repository, as written."""
    digest: str
    tag: str
    """What it follows: of `name:tag@digest`, a comment behind it, or the file's header."""
    lines: tuple[int, ...]
    """Where it stands, from 1."""


def find_pins(text: str) -> list[Pin]:
    """Find every pinned image, in order; one that stands several times is one."""
    headers = {match["name"]: match["tag"] for match in _HEADER.finditer(text)}
    found: dict[tuple[str, str], Pin] = {}
    for match in _PINNED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        key = (match["name"], match["digest"])
        tag = match["tag"] or match["comment"] or headers.get(match["name"], "")
        known = found.get(key)
        found[key] = Pin(
            name=match["name"],
            digest=match["digest"],
            tag=(known.tag if known else "") or tag,
            lines=((*known.lines, line) if known else (line,)),
        )
    return list(found.values())


def moved(text: str, pin: Pin, digest: str) -> str:
    """Put another digest in every place of a pin; nothing else changes."""
    return text.replace(f"{pin.name}@{pin.digest}", f"{pin.name}@{digest}").replace(
        f"{pin.name}:{pin.tag}@{pin.digest}", f"{pin.name}:{pin.tag}@{digest}"
    )
