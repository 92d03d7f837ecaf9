"""Lines of a lock: one wheel, one .deb; what each field may be made of."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from builder.errors import LockFileError

RELOCK = (
    "`nightlock lock` writes this file; it is never edited by hand: restore it from git, "
    "or lock again"
)
_SIZE = r"(?P<size>0|[1-9][0-9]{0,14})"
"""Less than a petabyte."""
_SHA256 = r"(?P<sha256>[0-9a-f]{64})"


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
        """Read one line; its inverse is `line`.

        Raises LockFileError when the line has another form, or its file is another package's.
        """
        match = _WHEEL_LINE.fullmatch(line)
        if match is None:
            raise LockFileError(f"not a wheel line: {line[:160]!r}", subject=subject, action=RELOCK)
        try:
            # The file's name is what installers go by.
            name, version, _, _ = parse_wheel_filename(match["file"])
            agree = (name, version) == (match["name"], Version(match["version"]))
        except ValueError as error:
            raise LockFileError(
                f"not a wheel line: {line[:160]!r}: {error}", subject=subject, action=RELOCK
            ) from None
        if not agree:
            raise LockFileError(
                f"not a wheel line: {line[:160]!r}: the file is {name} {version}",
                subject=subject,
                action=RELOCK,
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
    r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)==(?P<version>[A-Za-z0-9][A-Za-z0-9._+!-]{0,127}) "
    rf"--hash=sha256:{_SHA256}  # "
    rf"(?P<file>[A-Za-z0-9][A-Za-z0-9._+!-]{{0,250}}\.whl) {_SIZE} "
    r"(?P<index>[a-z0-9-]{1,64})",
    re.ASCII,
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
        """Read one line; its inverse is `line`.

        Raises LockFileError when the line has another form.
        """
        match = _DEB_LINE.fullmatch(line)
        if match is None:
            raise LockFileError(f"not a .deb line: {line[:160]!r}", subject=subject, action=RELOCK)
        return cls(
            name=match["name"],
            version=match["version"],
            architecture=match["architecture"],
            sha256=match["sha256"],
            size=int(match["size"]),
            path=match["path"],
            suite=match["suite"],
            source=match["source"],
        )


_DEB_NAME = r"[a-z0-9][a-z0-9+.-]{1,127}"
"""Debian policy, 5.6.1 and 5.6.7."""
_DEB_LINE = re.compile(
    rf"(?P<name>{_DEB_NAME}) "
    # Debian policy, 5.6.12.
    r"(?P<version>(?:[0-9]{1,9}:)?[0-9][A-Za-z0-9.+~-]{0,127}) "
    rf"(?P<architecture>amd64|arm64|all) sha256:{_SHA256} {_SIZE} "
    # No part begins with a dot, so none of them leads out of the archive.
    r"(?P<path>(?:[A-Za-z0-9_][A-Za-z0-9._+~-]{0,127}/)*[A-Za-z0-9][A-Za-z0-9._+~-]{0,250}\.deb) "
    rf"(?P<suite>[a-z][a-z0-9]*(?:-[a-z0-9]+)*) (?P<source>{_DEB_NAME})",
    re.ASCII,
)


def is_package(name: str) -> bool:
    """Whether a name is one that PEP 503 normalises to itself; images have such names too."""
    return re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name, re.ASCII) is not None
