"""Systemd units and quadlets: sections, keys, values with lines, and systemd's own quoting."""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.core.lint.place import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One `Key=value` line, continuations joined by a space (systemd.syntax(7))."""

    section: str
    key: str
    value: str
    line: int
    breaks: tuple[tuple[int, int], ...] = ()
    """Where in the value a continuation begins, and its line in the file."""

    def line_at(self, place: int) -> int:
        """Line in the file of a place in the value."""
        return max((line for at, line in self.breaks if at <= place), default=self.line)

    def words(self) -> list[Word]:
        """Split the value as systemd does, each word with its own line."""
        return split(self)[0]


def entries(text: str) -> list[Entry]:
    """Read a unit file; lines that are neither section, comment nor entry are left out."""
    found: list[Entry] = []
    section = ""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        begin, line = at, lines[at].strip()
        at += 1
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        breaks: list[tuple[int, int]] = []
        while value.endswith("\\") and at < len(lines):
            # Comments between continued lines are skipped, as systemd does.
            part = lines[at].strip()
            at += 1
            if not part.startswith(("#", ";")):
                value = value[:-1].rstrip() + " "
                breaks.append((len(value), at))
                value += part
        if equals:
            found.append(
                Entry(section=section, key=key, value=value, line=begin + 1, breaks=tuple(breaks))
            )
    return found


_UNITS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def seconds(text: str) -> float | None:
    """Read a time span (systemd.time(7), Compose's durations alike): `15m`, `1h 30min`, `90`.

    `infinity` and `0`, which switches a limit off, are without end. None when it is no time span.
    """
    wanted = text.strip().lower()
    if wanted in ("infinity", "0"):
        return float("inf")
    total, at = 0.0, 0
    while at < len(wanted):
        match = _SPAN.match(wanted, at)
        if match is None or match.group(2) not in _UNITS:
            return None
        total += float(match.group(1)) * _UNITS[match.group(2)]
        at = match.end()
    return total if wanted else None


_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_NUMBERED = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}


def split(entry: Entry) -> tuple[list[Word], list[tuple[str, int]]]:
    r"""Split a value as systemd does (systemd.service(5), "Command lines").

    Quotes group at the start of a word and within it, escapes are C's. Specifiers and variables
    stay as they are written. Returns the words, and the escapes that systemd does not know with
    their lines.
    """
    value = entry.value
    found: list[Word] = []
    unknown: list[tuple[str, int]] = []
    at = 0
    while at < len(value):
        if value[at].isspace():
            at += 1
            continue
        begin, quote = at, ""
        out: list[str] = []
        while at < len(value):
            char = value[at]
            if char == "\\":
                text, behind = _escape(value, at)
                if text is None:
                    unknown.append((value[at:behind], entry.line_at(at)))
                out.append(value[at:behind] if text is None else text)
                at = behind
                continue
            if quote:
                if char == quote:
                    quote = ""
                else:
                    out.append(char)
            elif char in "'\"":
                quote = char
            elif char.isspace():
                break
            else:
                out.append(char)
            at += 1
        found.append(Word(text="".join(out), line=entry.line_at(begin), raw=value[begin:at]))
    return found, unknown


def _escape(value: str, at: int) -> tuple[str | None, int]:
    """Read one escape; gives what it stands for, None if unknown, and the place behind it."""
    char = value[at + 1 : at + 2]
    if char in _ESCAPES:
        return _ESCAPES[char], at + 2
    if char in _NUMBERED:
        size, base = _NUMBERED[char]
        digits = value[at + 2 : at + 2 + size]
        if len(digits) == size and all(one in "0123456789abcdefABCDEF" for one in digits):
            code = int(digits, base)
            return (chr(code) if code < 0x110000 else ""), at + 2 + size
    octal = value[at + 1 : at + 4]
    if len(octal) == 3 and all(one in "01234567" for one in octal):
        return chr(int(octal, 8)), at + 4
    return None, at + 2
