"""The lock of one image: `lock/IMAGE/`, every byte of an image named once.

    lock.toml               header; its sha256 is the lock digest
    <os>-<arch>.txt         one wheel a line, a requirements file for `pip --require-hashes`
    <os>-<arch>.debs.txt    one .deb a line
    <os>-<arch>.meta.json   what the wheels say of themselves (canonical JSON)

No clock, no path, no host: the same inputs give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

import tomli_w
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError

from builder.errors import LockFileError

SCHEMA = 1

_RELOCK = "`nightlock lock` writes this file; it is never edited by hand"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WheelPin:
    """One line of `<os>-<arch>.txt`."""

    name: str
    """Normalised (PEP 503)."""
    version: str
    """As in the file name, local label included."""
    sha256: str
    """64 hex digits, of the file that will be installed."""
    file: str
    size: int
    """Bytes."""
    index: str
    """Name of the index, by the allow-list."""

    def line(self) -> str:
        """Spell the pin."""
        return (
            f"{self.name}=={self.version} --hash=sha256:{self.sha256}"
            f"  # {self.file} {self.size} {self.index}"
        )

    @classmethod
    def parse(cls, line: str, subject: str = "") -> WheelPin:
        """Read one line; its inverse is `line`."""
        match = _WHEEL_LINE.fullmatch(line)
        if match is None:
            raise LockFileError(
                f"not a wheel line: {line[:160]!r}", subject=subject, action=_RELOCK
            )
        return cls(
            name=match["name"],
            version=match["version"],
            sha256=match["sha256"],
            file=match["file"],
            size=int(match["size"]),
            index=match["index"],
        )


_WHEEL_LINE = re.compile(
    r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)==(?P<version>[^\s;]+) "
    r"--hash=sha256:(?P<sha256>[0-9a-f]{64})  # "
    r"(?P<file>[^\s/]+\.whl) (?P<size>\d+) (?P<index>[a-z0-9-]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DebPin:
    """One line of `<os>-<arch>.debs.txt`, eight fields parted by one space."""

    name: str
    version: str
    architecture: str
    """`amd64`, `arm64` or `all`."""
    sha256: str
    size: int
    path: str
    """Below the archive's root: `pool/main/…`."""
    suite: str
    """`bookworm`, `bookworm-updates`, `bookworm-security`."""
    source: str
    """Source package (Debian security trackers speak of these)."""

    @property
    def file(self) -> str:
        """File name as in the pool."""
        return self.path.rsplit("/", 1)[-1]

    def line(self) -> str:
        """Spell the pin."""
        return (
            f"{self.name} {self.version} {self.architecture} sha256:{self.sha256} {self.size} "
            f"{self.path} {self.suite} {self.source}"
        )

    @classmethod
    def parse(cls, line: str, subject: str = "") -> DebPin:
        """Read one line; its inverse is `line`."""
        parts = line.split(" ")
        if len(parts) != 8 or not re.fullmatch(r"sha256:[0-9a-f]{64}", parts[3]):
            raise LockFileError(f"not a .deb line: {line[:160]!r}", subject=subject, action=_RELOCK)
        name, version, architecture, digest, size, path, suite, source = parts
        if not size.isdigit() or path.startswith("/") or ".." in path.split("/"):
            raise LockFileError(f"not a .deb line: {line[:160]!r}", subject=subject, action=_RELOCK)
        return cls(
            name=name,
            version=version,
            architecture=architecture,
            sha256=digest.removeprefix("sha256:"),
            size=int(size),
            path=path,
            suite=suite,
            source=source,
        )


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VllmTable(_Table):
    """Which vLLM this is."""

    package: str
    version: str
    commit: str
    """40 hex where the index names it, else the abbreviation inside the wheel."""
    variant: str = ""


class TargetTable(_Table):
    """What was resolved for."""

    python: str
    glibc: str
    cuda: str = ""


class BaseLock(_Table):
    """The base, by what determines it."""

    debian: str = ""
    image: str = ""
    debs: dict[str, str] = {}
    """Platform → digest of its .debs.txt (a `debian` base is a function of that file)."""
    images: dict[str, str] = {}
    """Platform → manifest digest (an `image` base)."""


class ResolverTable(_Table):
    """Who resolved; recorded, never makes a lock stale."""

    name: str
    version: str


class Header(_Table):
    """lock.toml."""

    schema_version: int = SCHEMA
    image: str
    spec: str
    """Digest of the spec it was made from."""
    channel: str
    epoch: int
    """`created` of the image, seconds since 1970: the newest date inside vLLM's wheel."""
    vllm: VllmTable
    target: TargetTable
    companions: dict[str, str] = {}
    """Package → version, of those that must match vLLM."""
    base: BaseLock
    tools: dict[str, list[str]] = {}
    """Platform → wheel lines of what builds need and images do not hold."""
    layers: dict[str, list[list[str]]] = {}
    """Platform → ordered groups of package names; vLLM is the last, alone."""
    resolver: ResolverTable
    files: dict[str, str] = {}
    """Sibling file → digest."""


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
        files["lock.toml"] = tomli_w.dumps(header.model_dump(exclude_defaults=False)).encode()
        return files

    @classmethod
    def parse(cls, files: Mapping[str, bytes], where: str) -> Lock:
        """Read a lock; `where` is the folder or revision, for messages.

        Raises LockFileError when a file is missing, damaged or was edited.
        """
        if "lock.toml" not in files:
            raise LockFileError(
                "there is no lock.toml", subject=where, action="make it with `nightlock lock`"
            )
        header = _header(files["lock.toml"], where)
        for name, digest in header.files.items():
            if name not in files or digest_of(files[name]) != digest:
                state = "was edited or damaged" if name in files else "is missing"
                raise LockFileError(f"{name} {state}", subject=where, action=_RELOCK)
        platforms: dict[str, PlatformLock] = {}
        for name in header.files:
            match = re.fullmatch(r"(linux)-(amd64|arm64)\.txt", name)
            if match is None:
                continue
            stem = name.removesuffix(".txt")
            place = f"{where}/{name}"
            debs = files.get(f"{stem}.debs.txt", b"")
            platforms[f"{match[1]}/{match[2]}"] = PlatformLock(
                wheels=tuple(WheelPin.parse(line, place) for line in data_lines(files[name])),
                debs=tuple(
                    DebPin.parse(line, f"{where}/{stem}.debs.txt") for line in data_lines(debs)
                ),
                meta=json.loads(files[f"{stem}.meta.json"]),
            )
        return cls(header=header, platforms=platforms)


def _header(data: bytes, where: str) -> Header:
    try:
        raw = tomllib.loads(data.decode())
        if raw.get("schema_version") not in (SCHEMA, SCHEMA - 1):
            raise LockFileError(
                f"schema_version is {raw.get('schema_version')!r}, this nightlock reads {SCHEMA}",
                subject=f"{where}/lock.toml",
                action="use the nightlock that wrote it, or lock again",
            )
        return Header.model_validate(raw)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise LockFileError(str(error), subject=f"{where}/lock.toml", action=_RELOCK) from None


def data_lines(data: bytes) -> list[str]:
    """Lines that carry data: blank lines and lines that are only a comment are noise."""
    lines = (line.rstrip() for line in data.decode().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def digest_of(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: object) -> bytes:
    """Sorted keys, one space of indent (line diffs stay readable), a newline at the end."""
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()
