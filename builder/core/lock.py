"""The lock of one image: `lock/IMAGE/`, every byte of an image named once.

    lock.toml               header; its sha256 is the lock digest
    <os>-<arch>.txt         one wheel a line, a requirements file for `pip --require-hashes`
    <os>-<arch>.debs.txt    one .deb a line
    <os>-<arch>.meta.json   what the wheels say of themselves (canonical JSON)

No clock, no path, no host: the same inputs give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import tomli_w
from packaging.utils import canonicalize_name

from builder.core.lock_check import (
    SIBLING,
    Content,
    content_problems,
    header_problems,
    parse_meta,
    platforms_of,
)
from builder.core.lock_header import (
    SCHEMA,
    BaseLock,
    Header,
    ResolverTable,
    TargetTable,
    VllmTable,
    digest_of,
    parse_header,
)
from builder.core.pins import RELOCK, DebPin, WheelPin
from builder.errors import LockFileError

__all__ = [
    "SCHEMA",
    "BaseLock",
    "DebPin",
    "Header",
    "Lock",
    "PlatformLock",
    "ResolverTable",
    "TargetTable",
    "VllmTable",
    "WheelPin",
    "canonical_json",
    "data_lines",
    "digest_of",
]

_TOLD = 20
"""Problems of a lock that are told; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformLock:
    """What one platform installs."""

    wheels: tuple[WheelPin, ...]
    debs: tuple[DebPin, ...]
    meta: Mapping[str, object]
    """Package → `requires_dist`, `requires_python`, `licence`, `hash_from`, `wins`."""

    @property
    def wins(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Winner → loser → paths that several wheels ship and the winner's file fills."""
        rows = {name: row for name, row in self.meta.items() if isinstance(row, Mapping)}
        return {
            name: {loser: tuple(paths) for loser, paths in row["wins"].items()}
            for name, row in rows.items()
            if "wins" in row
        }

    def wheel(self, name: str) -> WheelPin | None:
        """Find a package by any spelling of its name."""
        wanted = canonicalize_name(name)
        return next((pin for pin in self.wheels if pin.name == wanted), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A whole lock; `files` and `parse` are each other's inverse."""

    header: Header
    platforms: Mapping[str, PlatformLock]
    """OCI platform → what it installs."""

    @property
    def digest(self) -> str:
        """The lock digest: sha256 of lock.toml's bytes."""
        return digest_of(self.files()["lock.toml"])

    def tools(self, platform: str) -> tuple[WheelPin, ...]:
        """Wheels that builds need and images do not hold."""
        return tuple(WheelPin.parse(line) for line in self.header.tools.get(platform, ()))

    def groups(self, platform: str) -> list[list[WheelPin]]:
        """Wheels by layer, in order."""
        pins = {pin.name: pin for pin in self.platforms[platform].wheels}
        return [[pins[name] for name in group] for group in self.header.layers[platform]]

    def migrated(self) -> Lock:
        """Say the same in today's schema; its digest is another one."""
        return replace(self, header=self.header.migrated())

    def files(self) -> dict[str, bytes]:
        """Write the lock: file name → bytes."""
        files: dict[str, bytes] = {}
        for platform, content in sorted(self.platforms.items()):
            stem = platform.replace("/", "-")
            wheels = sorted(content.wheels)
            files[f"{stem}.txt"] = "".join(pin.line() + "\n" for pin in wheels).encode()
            if content.debs:
                debs = sorted(content.debs)
                files[f"{stem}.debs.txt"] = "".join(pin.line() + "\n" for pin in debs).encode()
            files[f"{stem}.meta.json"] = canonical_json(content.meta)
        header = self.header.model_copy(
            update={"files": {name: digest_of(data) for name, data in sorted(files.items())}}
        )
        # A lock of the schema before keeps its bytes, and so its digest: it has no newer fields.
        tables = header.model_dump(exclude_unset=header.older)
        files["lock.toml"] = tomli_w.dumps(tables).encode()
        return files

    @classmethod
    def parse(cls, files: Mapping[str, bytes], where: str) -> Lock:
        """Read a lock; `where` is the folder or revision, for messages.

        Raises LockFileError, with every problem, when a file is missing, damaged, was edited, or
        does not agree with the others.
        """
        if "lock.toml" not in files:
            raise LockFileError(
                "there is no lock.toml", subject=where, action="make it with `nightlock lock`"
            )
        header = parse_header(files["lock.toml"], where)
        if problems := _damaged(header, files):
            raise _refusal(problems, where)
        problems = list(header_problems(header))
        platforms: dict[str, PlatformLock] = {}
        for platform in platforms_of(header):
            count = len(problems)
            content = _content(platform, files, problems)
            if count == len(problems):
                # Of lines that cannot be read, nothing follows.
                problems += content_problems(header, platform, content)
            platforms[platform] = PlatformLock(
                wheels=tuple(content.wheels), debs=tuple(content.debs), meta=content.meta
            )
        lock = cls(header=header, platforms=platforms)
        if not problems:
            problems += _edited(lock, files)
        if problems:
            raise _refusal(problems, where)
        return lock


def _refusal(problems: list[str], where: str) -> LockFileError:
    more = len(problems) - _TOLD
    rows = [*problems[:_TOLD], *([f"and {more} more"] if more > 0 else [])]
    return LockFileError("; ".join(rows), subject=where, action=RELOCK)


def _damaged(header: Header, files: Mapping[str, bytes]) -> list[str]:
    rows = []
    for name, digest in header.files.items():
        if name not in files:
            rows.append(f"{name} is missing")
        elif digest_of(files[name]) != digest:
            rows.append(f"{name} was edited or damaged")
    strange = sorted(name for name in files.keys() - header.files.keys() if SIBLING.fullmatch(name))
    return rows + [f"{name} is there, and [files] does not name it" for name in strange]


def _edited(lock: Lock, files: Mapping[str, bytes]) -> list[str]:
    """Name the files that hold more than their data, or hold it in another form."""
    try:
        written = lock.files()
    except UnicodeEncodeError as error:
        return [f"meta.json has what no text is made of: {error}"]
    return [
        f"{name} was edited by hand: nightlock would write other bytes"
        for name in sorted(written.keys() | lock.header.files.keys())
        if files.get(name) != written.get(name)
    ]


_P = TypeVar("_P", WheelPin, DebPin)


def _content(platform: str, files: Mapping[str, bytes], problems: list[str]) -> Content:
    """Parse the files of one platform; what is wrong with them joins `problems`."""
    stem = platform.replace("/", "-")
    try:
        meta = parse_meta(files.get(f"{stem}.meta.json", b"{}"))
    except ValueError as error:
        problems.append(f"{stem}.meta.json: {error}")
        meta = {}
    return Content(
        wheels=_pins(WheelPin.parse, f"{stem}.txt", files, problems),
        debs=_pins(DebPin.parse, f"{stem}.debs.txt", files, problems),
        meta=meta,
    )


def _pins(
    parse: Callable[[str], _P], name: str, files: Mapping[str, bytes], problems: list[str]
) -> list[_P]:
    pins: list[_P] = []
    try:
        lines = data_lines(files.get(name, b""))
    except UnicodeDecodeError as error:
        problems.append(f"{name}: not UTF-8: {error}")
        return pins
    for line in lines:
        try:
            pins.append(parse(line))
        except LockFileError as error:
            problems.append(f"{name}: {error.what}")
    return pins


def data_lines(data: bytes) -> list[str]:
    """Lines that carry data: blank lines and lines that are only a comment are noise."""
    lines = (line.rstrip() for line in data.decode().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def canonical_json(value: object) -> bytes:
    """Sorted keys, one space of indent (line diffs stay readable), a newline at the end."""
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()
