"""Files on disk: whole or not at all, locks between processes, free space."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from builder.errors import DiskFull, NightlockError

Change = Literal["created", "updated", "unchanged"]


def write(path: Path, data: bytes, *, mode: int = 0o644) -> Change:
    """Write a file whole or not at all, and say what that changed.

    Raises DiskFull when there is no room.
    """
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        before = None
    if before == data:
        return "unchanged"
    with full_disk_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    return "created" if before is None else "updated"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Change:
    """Make `folder` hold exactly these files (names without folders); nothing else stays."""
    changes = {write(folder / name, data) for name, data in files.items()}
    stale = [path for path in folder.iterdir() if path.name not in files and path.is_file()]
    for path in stale:
        path.unlink()
    if changes == {"unchanged"} and not stale:
        return "unchanged"
    return "created" if changes == {"created"} and not stale else "updated"


@contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` that becomes `path` when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield scratch
        scratch.chmod(0o755)
        if path.exists():
            old = scratch.with_name(scratch.name + ".old")
            path.rename(old)
            scratch.rename(path)
            shutil.rmtree(old)
        else:
            scratch.rename(path)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


@contextmanager
def locked(
    path: Path, waiting: Callable[[str], None] | None = None, *, remove: bool = False
) -> Iterator[None]:
    """Hold the lock file `path`; another nightlock waits and is told who holds it.

    The kernel drops the lock with the process, so a killed owner leaves nothing to clean. `remove`
    takes the file away at the end, for locks of which there are many.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    told = False
    while True:
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told and waiting is not None:
                    owner = path.read_text().strip() or "another process"
                    waiting(f"waiting for {path.name}, held by {owner}")
                told = True
                time.sleep(0.2)
                continue
            if not _is_still(path, file.fileno()):
                continue  # its owner took the file away between our opening and locking it
            file.truncate(0)
            file.write(f"pid {os.getpid()}\n")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)
                if remove:
                    path.unlink(missing_ok=True)
            return


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def free_bytes(path: Path) -> int:
    """Bytes free for us on the file system that holds (or will hold) `path`."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def require_free(path: Path, needed: int, purpose: str) -> None:
    """Raise DiskFull unless `needed` bytes are free where `path` is."""
    free = free_bytes(path)
    if free < needed:
        raise DiskFull(
            f"{purpose} needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
            subject=str(path),
            action="free some space there, or point XDG_CACHE_HOME and XDG_STATE_HOME elsewhere",
        )


@contextmanager
def full_disk_explained(path: Path) -> Iterator[None]:
    """Turn ENOSPC and EDQUOT into DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise disk_full(path) from error


def disk_full(path: Path) -> DiskFull:
    """Say that there is no room left where `path` is."""
    return DiskFull(
        "the disk is full",
        subject=str(path),
        action="free some space there, or point XDG_CACHE_HOME and XDG_STATE_HOME elsewhere",
    )


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


def read_text(path: Path, error: type[NightlockError], action: str) -> str:
    """Read a file a person wrote; its absence and bad bytes are `error`."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error("the file is not there", subject=str(path), action=action) from None
    except UnicodeDecodeError as bad:
        raise error(f"the file is not UTF-8: {bad}", subject=str(path), action=action) from None
