"""Which paths a wheel fills when it is installed, read from its central directory.

Sources: binary distribution format ("The .data directory") and entry points specification.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator

Contents = tuple[tuple[str, str], ...]
"""Path and mark, sorted. Equal marks: equal bytes.

Paths are relative to the site directory; `{scripts}/`, `{headers}/` and `{data}/` stand for the
folders beside it. A mark is CRC-32 and size of a file, or what a generated script calls.
"""

_DATA = re.compile(r"[^/]+\.data/(?P<scheme>[a-z]+)/(?P<rest>.+)")
_SITE = re.compile(r"lib/python3(?:\.\d+)?/site-packages/(?P<rest>.+)")
_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")


def contents(entries: Iterable[tuple[str, int, int]], entry_points: str = "") -> Contents:
    """List what a wheel installs; `entries` are name, CRC-32 and size, `entry_points` its text."""
    found = {
        installed_path(name): f"{crc:08x}:{size}"
        for name, crc, size in entries
        if not name.endswith("/")
    }
    return tuple(sorted({**found, **dict(_scripts(entry_points))}.items()))


def installed_path(name: str) -> str:
    """Translate a name in the archive into the path it is installed to."""
    match = _DATA.fullmatch(name)
    if match is None:
        return name
    scheme, rest = match["scheme"], match["rest"]
    if scheme in ("purelib", "platlib"):
        return rest
    if scheme == "data":
        # The data scheme is the environment's own folder, so these are the same places.
        if rest.startswith("bin/"):
            return "{scripts}/" + rest.removeprefix("bin/")
        if inside := _SITE.fullmatch(rest):
            return inside["rest"]
    return f"{{{scheme}}}/{rest}"


def _scripts(text: str) -> Iterator[tuple[str, str]]:
    """Name the scripts that an installer generates, and what they call."""
    parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(text)
    except configparser.Error:
        # Installers refuse such a file themselves; it generates no script.
        return
    for group in _SCRIPT_GROUPS:
        if parser.has_section(group):
            for name, target in parser.items(group):
                yield f"{{scripts}}/{name}", "calls " + "".join(target.split())
