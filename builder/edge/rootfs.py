"""The base's tar: made once from locked .debs, normalised, kept in the store."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.core import rootfs
from builder.core.control import parse_stanza
from builder.core.debs import debs_digest
from builder.core.lock import DebPin, canonical_json
from builder.edge import files, mmdebstrap
from builder.edge.debs import missing
from builder.edge.store import Store
from builder.errors import Outside, Refused

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A root file system as one tar."""

    path: Path
    """In the store, read-only."""
    sha256: str
    """Bare hex; a function of the locked .debs and `core.rootfs.VERSION`."""
    size: int
    made: bool
    """False when an earlier one was found."""


def find_base(debs: Sequence[DebPin], store: Store, records: Path) -> Base | None:
    """Find the tar an earlier `make_base` left for the same .debs."""
    try:
        record = json.loads(_record(debs, records).read_bytes())
        sha256, size = str(record["sha256"]), int(record["size"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    if not store.has(sha256, size):
        return None
    return Base(path=store.path(sha256), sha256=sha256, size=size, made=False)


def make_base(
    codename: str,
    debs: Sequence[DebPin],
    store: Store,
    records: Path,
    program: Path,
    *,
    waiting: Callable[[str], None] | None = None,
) -> Base:
    """Make the base of these .debs, or find it.

    `records` is the folder that remembers what was made (`state/base`); `program` is mmdebstrap.

    Raises:
        Outside: some .debs are not in the store.
        ToolMissing, CommandFailed, DiskFull: as `mmdebstrap.bootstrap`.
        HashMismatch: the disk damaged a .deb in the store.
        Refused: what was installed is not what the lock names.

    """
    name = _record(debs, records).name.removesuffix(".json")
    with files.locked(records / f"{name}.lock", waiting):
        found = find_base(debs, store, records)
        if found is not None:
            return found
        absent = missing(debs, store)
        if absent:
            raise Outside(
                f"{len(absent)} locked .debs are not in the store: "
                + ", ".join(pin.name for pin in absent[:5]),
                subject=str(store.root),
                action="run `nightlock fetch` first",
            )
        controls = mmdebstrap.read_controls(debs, store)
        place, prefix = _work_place(store), f".base-{name[:16]}-"
        for left in place.glob(f"{prefix}*"):
            # A run that was killed; nobody else works on these .debs while we hold the lock.
            shutil.rmtree(left, ignore_errors=True)
        files.require_free(place, _room(controls), "the root file system")
        with (
            files.full_disk_explained(place),
            store.partial(f"base-{name}") as scratch,
            tempfile.TemporaryDirectory(dir=place, prefix=prefix) as folder,
        ):
            work = Path(folder).absolute()
            # mmdebstrap in a user namespace is another user here.
            work.chmod(0o755)
            raw = work / "raw.tar"
            mmdebstrap.bootstrap(program, codename, controls, store, work, raw)
            sha256 = write_normalised(raw, scratch, debs)
            size = scratch.stat().st_size
            store.keep(scratch, sha256, "the root file system")
        remember(debs, records, sha256, size)
    return Base(path=store.path(sha256), sha256=sha256, size=size, made=True)


def remember(debs: Sequence[DebPin], records: Path, sha256: str, size: int) -> None:
    """Note which tar of the store is the base of these .debs; `sha256` is bare hex."""
    record = {"debs": debs_digest(debs), "normaliser": rootfs.VERSION, "sha256": sha256}
    files.write(_record(debs, records), canonical_json({**record, "size": size}))


def _record(debs: Sequence[DebPin], records: Path) -> Path:
    mark = debs_digest(debs).removeprefix("sha256:")
    return records / f"{mark}-{rootfs.VERSION}.json"


def _work_place(store: Store) -> Path:
    """Choose where to unpack: beside the store, or where other users may pass through.

    Without root, mmdebstrap works as a subordinate user, whom a home of mode 0700 keeps out.
    """
    return store.root if os.geteuid() == 0 else Path(tempfile.gettempdir())


def _room(controls: Sequence[tuple[DebPin, str]]) -> int:
    """Bytes needed at the peak: the .debs once more, the tree, the tar of it twice."""
    fields = (parse_stanza(control) for _, control in controls)
    # KiB, rounded up per file by dpkg-gencontrol, so no slack is added.
    installed = 1024 * sum(int(stanza.get("Installed-Size", 0)) for stanza in fields)
    return 3 * installed + sum(pin.size for pin, _ in controls)


def write_normalised(raw: Path, target: Path, debs: Sequence[DebPin]) -> str:
    """Rewrite a bootstrap's tar after checking what it installed; return the new one's sha256.

    Raises Refused when what was installed is not exactly `debs`.
    """
    digest = hashlib.sha256()
    try:
        with (
            files.full_disk_explained(target),
            tarfile.open(raw) as source,
            target.open("wb") as file,
        ):
            members = source.getmembers()
            _check_installed(source, members, debs)
            for piece in _pieces(source, members):
                digest.update(piece)
                file.write(piece)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return digest.hexdigest()


def _pieces(source: tarfile.TarFile, members: list[tarfile.TarInfo]) -> Iterator[bytes]:
    written = 0
    for entry in rootfs.normalise(members):
        header, data = entry.header, entry.data
        if entry.edit is not None and entry.source is not None:
            data = entry.edit(_read(source, entry.source))
            header.size = len(data)
        head = header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        yield head
        if data is not None:
            yield data
        elif entry.source is not None:
            yield from _content(source, entry.source)
        padding = -header.size % tarfile.BLOCKSIZE
        yield bytes(padding)
        written += len(head) + header.size + padding
    end = 2 * tarfile.BLOCKSIZE
    yield bytes(end + -(written + end) % rootfs.RECORD)


def _content(source: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = source.extractfile(member)
    while file is not None and (piece := file.read(_CHUNK)):
        yield piece


def _read(source: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    return b"".join(_content(source, member))


def _check_installed(
    source: tarfile.TarFile, members: list[tarfile.TarInfo], debs: Sequence[DebPin]
) -> None:
    status = next(
        (member for member in members if member.name.endswith("var/lib/dpkg/status")), None
    )
    text = _read(source, status).decode() if status else ""
    wrong = rootfs.not_as_locked(text, debs)
    if wrong:
        raise Refused(
            f"what was installed is not what the lock names: {'; '.join(wrong)}",
            subject="var/lib/dpkg/status",
            action="lock again with `nightlock lock`; the .debs of a lock must be a whole system",
        )
