"""The root file system below an image, made a function of the .debs it was installed from.

What a bootstrap leaves behind of its host, its folder, its clock and its own version is taken out
or replaced, and every member is spelled in one way (POSIX.1-2001 pax, numeric owners).
ld.so.cache stays: ctypes and Triton look libraries up in it, and it follows from the libraries
alone; its auxiliary cache holds inodes and goes.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from builder.core.control import parse_stanzas
from builder.core.lock import DebPin
from builder.errors import Refused

VERSION = 1
"""Raised whenever the same .debs give other bytes."""

EPOCH = 315532800
"""The one time of every member, 1980-01-01T00:00:00Z: zip files know no earlier one."""

RECORD = tarfile.RECORDSIZE
"""The tar is padded to a multiple of this many bytes."""

SOURCES_LIST = b"""\
# Every package of this image comes from its lock; no archive is configured.
# Debian's keyring is installed: name a mirror here to install more.
"""

REPLACED = {
    "etc/apt/sources.list": SOURCES_LIST,
    "etc/hostname": b"",
    "etc/machine-id": b"",
    "etc/resolv.conf": b"",
}
"""Files that stand in every base with these bytes, whatever the bootstrap wrote."""

_PARTIAL = ("var/cache/apt/archives/partial", "var/lib/apt/lists/partial")
"""apt gives them to the id that the host's _apt has; in the image apt does so again."""

_GONE = re.compile(
    r"""
      (.*/)?__pycache__(/.*)? | .*\.pyc          # compiled at install time, with times inside
    | (dev|proc|sys|tmp|var/tmp)/.*              # the engine mounts or makes these
    | run/(?!lock$).*
    | etc/(passwd|group|shadow|gshadow|subuid|subgid)- | etc/\.pwd\.lock
    | etc/apt/sources\.list\.d/.* | etc/(apt/apt\.conf|dpkg/dpkg\.cfg)\.d/99mmdebstrap
    | var/lib/apt/lists/(?!partial$).* | var/lib/apt/extended_states
    | var/lib/dpkg/(lock|lock-frontend|triggers/Lock|available|.*-old|updates/.*)
    | var/lib/dbus/machine-id
    """,
    re.VERBOSE,
)
_GONE_FILES = re.compile(r"var/(log|cache)/.*")
"""Gone unless they are folders: packages own those."""

# Labels of the host's SELinux and overlay file system say nothing about a package.
_KEPT_ATTRIBUTES = re.compile(r"SCHILY\.xattr\.(security\.capability|user\..*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member as it will be written."""

    header: tarfile.TarInfo
    """All but the size of edited content is final."""
    source: tarfile.TarInfo | None = None
    """The member whose bytes it has."""
    data: bytes | None = None
    """Its bytes, when they come from nowhere else."""
    edit: Callable[[bytes], bytes] | None = None
    """What is done to the bytes of `source`."""


def normalise(members: Iterable[tarfile.TarInfo]) -> tuple[Entry, ...]:
    """Choose, spell and order the members of a normalised tar.

    Raises Refused on a device, socket or pipe outside /dev: no package of ours brings one.
    """
    found: dict[str, tarfile.TarInfo] = {}
    for member in members:
        path = _path(member.name)
        if path and not is_gone(path, folder=member.isdir()):
            found[path] = member
    entries = [Entry(header=_header(".", tarfile.DIRTYPE, 0o755))]
    first_of: dict[str, str] = {}
    for path in sorted({*found, *REPLACED}, key=str.encode):
        if path in REPLACED:
            header = _header(path, tarfile.REGTYPE, 0o644)
            header.size = len(REPLACED[path])
            entries.append(Entry(header=header, data=REPLACED[path]))
        else:
            entries.append(_entry(path, found, first_of))
    return tuple(entries)


def is_gone(path: str, *, folder: bool) -> bool:
    """Whether a path (without a leading slash) is left out."""
    return bool(_GONE.fullmatch(path) or (not folder and _GONE_FILES.fullmatch(path)))


def _path(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _header(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.type = kind
    header.mode = mode
    header.mtime = EPOCH
    return header


def _entry(path: str, found: dict[str, tarfile.TarInfo], first_of: dict[str, str]) -> Entry:
    member = found[path]
    if member.issym():
        header = _header(path, tarfile.SYMTYPE, 0o777)
        header.linkname = member.linkname
        _own(header, member)
        return Entry(header=header)
    if member.isdir():
        header = _header(path, tarfile.DIRTYPE, 0o755)
        if path not in _PARTIAL:
            header.mode = member.mode & 0o7777
            _own(header, member)
        return Entry(header=header)
    source = _data_of(path, found)
    # Of names for one file the first in order has the bytes, wherever the bootstrap put them.
    first = first_of.setdefault(_path(source.name), path)
    header = _header(path, tarfile.REGTYPE, source.mode & 0o7777)
    _own(header, source)
    if first != path:
        header.type = tarfile.LNKTYPE
        header.linkname = first
        return Entry(header=header)
    header.size = source.size
    return Entry(header=header, source=source, edit=_EDITS.get(path))


def _data_of(path: str, found: dict[str, tarfile.TarInfo]) -> tarfile.TarInfo:
    member = found[path]
    if member.islnk():
        target = found.get(_path(member.linkname))
        if target is None or not target.isreg():
            raise Refused(
                f"/{path} is a hard link to {member.linkname}, which is left out",
                subject=path,
                action="take the package that owns it out of `[base] packages`",
            )
        return target
    if not member.isreg():
        raise Refused(
            f"/{path} is a device, socket or pipe: a base holds files, links and folders",
            subject=path,
            action="take the package that makes it out of `[base] packages`",
        )
    return member


def _own(header: tarfile.TarInfo, member: tarfile.TarInfo) -> None:
    header.uid, header.gid = member.uid, member.gid
    header.pax_headers = {
        name: value
        for name, value in sorted(member.pax_headers.items())
        if _KEPT_ATTRIBUTES.fullmatch(name)
    }


def _undated(shadow: bytes) -> bytes:
    """Give the day of the last password change (shadow(5), third field) the one time."""
    lines = []
    for line in shadow.decode().splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2]:
            fields[2] = str(EPOCH // 86400)
        lines.append(":".join(fields) + "\n")
    return "".join(lines).encode()


_EDITS: dict[str, Callable[[bytes], bytes]] = {"etc/shadow": _undated}


def not_as_locked(status: str, pins: Iterable[DebPin]) -> tuple[str, ...]:
    """Compare dpkg's status with the locked .debs; say each difference, sorted."""
    installed = {}
    wrong = []
    for stanza in parse_stanzas(status):
        name = stanza["Package"]
        installed[name] = (stanza.get("Version", ""), stanza.get("Architecture", ""))
        if stanza.get("Status") != "install ok installed":
            wrong.append(f"{name}: {stanza.get('Status', 'no status')}")
    wanted = {pin.name: (pin.version, pin.architecture) for pin in pins}
    for name in installed.keys() | wanted.keys():
        if installed.get(name) != wanted.get(name):
            is_there = " ".join(installed.get(name, ("nothing",)))
            wrong.append(
                f"{name}: locked {' '.join(wanted.get(name, ('nothing',)))}, is {is_there}"
            )
    return tuple(sorted(wrong))
