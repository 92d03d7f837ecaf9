"""Entry: one member of a layer's tar, with everything that makes a difference (pax(1), ustar)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.CONTTYPE: "file",
    tarfile.GNUTYPE_SPARSE: "file",
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "character device",
    tarfile.BLKTYPE: "block device",
    tarfile.FIFOTYPE: "pipe",
}
_HEADER = {"path", "linkpath", "size", "uid", "gid", "uname", "gname", "mtime"}
"""Records that stand for a header's field, which says the same."""
_XATTR = "SCHILY.xattr."


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One path of a layer."""

    path: str
    """Without `/` or `./` before it."""
    fields: Mapping[str, str]
    """What can differ, as people read it: `type`, `content`, `mode`, `owner`, `mtime` and more."""

    @classmethod
    def of(cls, member: tarfile.TarInfo, sha256: str = "") -> Entry:
        """Read a member; `sha256` is that of a file's bytes, bare hex."""
        kind = _KINDS.get(member.type, f"type {member.type!r}")
        fields = {
            "type": kind,
            "mode": f"{member.mode:04o}",
            "owner": f"{member.uid}:{member.gid}",
            "owner's name": f"{member.uname}:{member.gname}".strip(":"),
            "mtime": _time(member),
        }
        if kind == "file":
            fields["content"] = f"sha256:{sha256}, {member.size} bytes"
        if member.linkname:
            fields["target"] = member.linkname
        if member.ischr() or member.isblk():
            fields["device"] = f"{member.devmajor}:{member.devminor}"
        for key, value in member.pax_headers.items():
            if key.startswith(_XATTR):
                fields[f"xattr {key.removeprefix(_XATTR)}"] = _plain(str(value))
            elif key not in _HEADER:
                fields[f"pax {key}"] = _plain(str(value))
        path = member.name.removeprefix("./").strip("/") or "/"
        return cls(path=path, fields={name: text for name, text in fields.items() if text})


def by_path(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Index a layer; of several members with one path the last one counts, as for tar."""
    return {entry.path: entry for entry in entries}


def _time(member: tarfile.TarInfo) -> str:
    """Spell a time exactly: seconds with the fraction that the tar has, and the date."""
    text = str(member.pax_headers.get("mtime", "")) or str(member.mtime)
    try:
        seconds = Decimal(text)
        date = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (InvalidOperation, ValueError, OverflowError, OSError):
        return text
    return f"{seconds.normalize():f} ({date})"


def _plain(value: str) -> str:
    """Spell a value of any bytes; tarfile reads those that are no UTF-8 as lone surrogates."""
    data = value.encode("utf-8", "surrogateescape")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return text if text.isprintable() else data.hex()
