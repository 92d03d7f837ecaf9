"""Files on disk: whole or not at all, locks between processes, free space."""

from __future__ import annotations

import ctypes
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
_SCRATCH = ".fresh"
_MORE_ROOM = "free some space there, or point XDG_CACHE_HOME, XDG_STATE_HOME and TMPDIR elsewhere"


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
    """Make `folder` hold exactly these files (names without folders); nothing else stays.

    Readers find the old files or the new ones, never some of each; the caller keeps other writers
    away. Folders inside are left alone, and then the files are written one by one.

    Raises DiskFull when there is no room; the old files stay.
    """
    restore(folder)
    whole = folder.resolve()
    entries = list(whole.iterdir()) if whole.is_dir() else []
    before = {path.name: path.read_bytes() for path in entries if path.is_file()}
    if before == files:
        return "unchanged"
    if not _write_at_once(whole, files, others=len(entries) > len(before)):
        for name, data in files.items():
            write(whole / name, data)
        for name in before.keys() - files.keys():
            (whole / name).unlink()
    return "updated" if before else "created"


def _write_at_once(folder: Path, files: Mapping[str, bytes], *, others: bool) -> bool:
    if others:
        return False
    try:
        with fresh_folder(folder) as fresh:
            for name, data in files.items():
                write(fresh / name, data)
    except OSError as error:
        # A mount point, or a folder of an image's lower layer: it cannot be renamed.
        if error.errno not in (errno.EXDEV, errno.EBUSY):
            raise
        return False
    return True


def read_folder(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder that `write_folder` may be writing: the old ones or the new ones.

    Raises FileNotFoundError, NotADirectoryError.
    """
    while True:
        restore(folder)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not (folder.is_dir() or _aside(folder.resolve()).is_dir()):
                raise
            continue
        try:
            content = _read_all(handle)
            if content is not None and _is_still(folder, handle):
                return content
        finally:
            os.close(handle)


def _read_all(folder: int) -> dict[str, bytes] | None:
    """Read the files of an open folder; None when one of them went away meanwhile."""
    content = {}
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_file()]
    for name in names:
        try:
            with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
                content[name] = file.read()
        except FileNotFoundError:
            return None
    return content


@contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` that becomes `path` when all went well.

    Whenever it is killed, `path` is the old folder or the new one, at the latest after the next
    `fresh_folder`, `read_folder` or `restore` of the same path.

    Raises DiskFull when there is no room.
    """
    path = path.resolve()
    with full_disk_explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        restore(path)
        _sweep(path)
        scratch, held = _claim(path)
        try:
            yield scratch
            scratch.chmod(0o755)
            _put(scratch, path)
        finally:
            # The half-made folder, or the one that stood at `path` before.
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(held)


def restore(path: Path) -> None:
    """Put back a folder that a killed nightlock had moved aside and not yet replaced."""
    path = path.resolve()
    if _aside(path).is_dir():
        # Whoever replaces it right now holds the lock; the kernel dropped that of the killed.
        with locked(_swap_lock(path), remove=True):
            _end_swap(path)


def _end_swap(path: Path) -> None:
    old = _aside(path)
    if not old.is_dir():
        return
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(path)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _swap_lock(path: Path) -> Path:
    return path.with_name(f".{path.name}.swap")


def _put(scratch: Path, path: Path) -> None:
    """Make `scratch` be `path`; what was there before is at `scratch` afterwards, or gone."""
    if not path.is_dir():
        # An empty folder that somebody made meanwhile is replaced by this as well.
        scratch.rename(path)
        return
    try:
        _exchange(scratch, path)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            raise
        with locked(_swap_lock(path), remove=True):
            path.rename(_aside(path))
            try:
                scratch.rename(path)
            finally:
                _end_swap(path)


def _exchange(first: Path, second: Path) -> None:
    """Exchange two names at once: renameat2(2) with RENAME_EXCHANGE, Linux 3.15."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    at_cwd, exchange = -100, 2
    if call(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(second))


def _claim(path: Path) -> tuple[Path, int]:
    """Make a scratch folder beside `path`, held by an open file until we end."""
    while True:
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SCRATCH))
        with suppress(FileNotFoundError):
            held = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(held, fcntl.LOCK_EX)
            if _is_still(scratch, held):
                return scratch, held
            os.close(held)  # somebody's `_sweep` was faster


def _sweep(path: Path) -> None:
    """Remove the scratch folders of killed owners."""
    for left in path.parent.iterdir():
        if not (left.name.startswith(f".{path.name}.") and left.name.endswith(_SCRATCH)):
            continue
        with suppress(OSError):
            held = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(held)


@contextmanager
def locked(
    path: Path, waiting: Callable[[str], None] | None = None, *, remove: bool = False
) -> Iterator[None]:
    """Hold the lock file `path`; another nightlock waits and is told who holds it.

    The kernel drops the lock with the process, so a killed owner leaves nothing to clean. `remove`
    takes the file away at the end, for locks of which there are many.

    Raises DiskFull when there is no room for the file.
    """
    told = False
    while True:
        with full_disk_explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told and waiting is not None:
                    owner = os.pread(held, 100, 0).decode(errors="replace").strip()
                    waiting(f"waiting for {path.name}, held by {owner or 'another process'}")
                told = True
                time.sleep(0.2)
                continue
            if not _is_still(path, held):
                continue  # its owner took the file away between our opening and locking it
            os.ftruncate(held, 0)
            with suppress(OSError):
                # Only a name for those who wait: on a full disk the lock holds all the same.
                os.pwrite(held, f"pid {os.getpid()}\n".encode(), 0)
            try:
                yield
            finally:
                os.ftruncate(held, 0)
                if remove:
                    path.unlink(missing_ok=True)
            return
        finally:
            os.close(held)


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
            action=_MORE_ROOM,
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


def disk_full(path: Path, said: str = "") -> DiskFull:
    """Say that there is no room left where `path` is; `said` is what a program said of it."""
    what = f"the disk is full: {said}" if said else "the disk is full"
    return DiskFull(what, subject=str(path), action=_MORE_ROOM)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there; raises DiskFull."""
    with full_disk_explained(path):
        path.mkdir(parents=True, exist_ok=True)


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
    except OSError as bad:
        what = f"the file cannot be read: {bad.strerror or bad}"
        raise error(what, subject=str(path), action=action) from None
    except UnicodeDecodeError as bad:
        raise error(f"the file is not UTF-8: {bad}", subject=str(path), action=action) from None
