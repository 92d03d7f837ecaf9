"""Profiles and checkpoints on disk."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from builder.core.profile import HostProfile, Profile, parse_host, parse_profile
from builder.core.release import Policy, parse_policy
from builder.edge import files
from builder.errors import BadInput, SpecError

_WHOLE = 64 << 20
"""Bytes up to which a file of a checkpoint is hashed whole."""
_HEAD = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundProfile:
    """A profile together with the checkpoint it serves."""

    name: str
    profile: Profile
    folder: Path | None
    """The checkpoint, where the profile names one."""
    digest: str
    """Of profile and checkpoint: what a pass was about."""


def load_profile(project: Path, name: str) -> tuple[Profile, Path]:
    """Read images/profiles/NAME.toml alone, and say where it lies.

    Raises BadInput for an unknown name, SpecError for a bad file.
    """
    path = _named(project / "images" / "profiles", name)
    return parse_profile(_text(path), str(path)), path


def load_host(project: Path, name: str) -> HostProfile:
    """Read images/profiles/hosts/NAME.toml; raises as `load_profile` does."""
    path = _named(project / "images" / "profiles" / "hosts", name)
    return parse_host(_text(path), str(path))


def _named(place: Path, name: str) -> Path:
    path = place / f"{name}.toml"
    known = f"profiles here: {', '.join(_names(place)) or 'none'}"
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            f"not a profile's name: {name!r} (letters, digits, `.`, `_`, `-`)",
            subject=str(place),
            action=known,
        )
    if not os.path.lexists(path):
        raise BadInput(f"there is no profile {name!r}", subject=str(path), action=known)
    return path


def read_profile(project: Path, name: str) -> BoundProfile:
    """Read images/profiles/NAME.toml and look at its checkpoint.

    Raises BadInput for an unknown name, SpecError for a bad file or a checkpoint that is not there
    or cannot be read.
    """
    profile, path = load_profile(project, name)
    try:
        folder = (project / profile.model.folder).resolve() if profile.model.folder else None
        if folder is not None and not folder.is_dir():
            raise SpecError(
                f"model.folder: {profile.model.folder!r}: there is no such folder",
                subject=str(path),
                action="name a folder relative to the project, or an absolute one",
            )
        model = checkpoint_digest(folder) if folder is not None else ""
    except (OSError, ValueError, RuntimeError) as error:
        # RuntimeError: a link that leads to itself (pathlib before 3.13).
        raise SpecError(
            f"model.folder: {profile.model.folder!r} cannot be read: {error}",
            subject=str(path),
            action="make the folder and all its files readable, or name another one",
        ) from None
    return BoundProfile(name=name, profile=profile, folder=folder, digest=profile.digest(model))


def _names(place: Path) -> list[str]:
    try:
        return sorted(path.stem for path in place.glob("*.toml"))
    except OSError:
        return []


def _text(path: Path) -> str:
    """Read a file a person wrote; an editor's byte order mark is none of its content."""
    action = "make it a readable file, or restore it from git"
    try:
        return files.read_text(path, SpecError, "restore it from git").removeprefix("\ufeff")
    except OSError as error:
        raise SpecError(
            f"the file cannot be read: {error.strerror}", subject=str(path), action=action
        ) from None


def read_policy(project: Path) -> Policy:
    """Read images/policy.toml; raises SpecError when that cannot be done."""
    path = project / "images" / "policy.toml"
    return parse_policy(_text(path), str(path))


def checkpoint_digest(folder: Path) -> str:
    """Digest of a checkpoint: names, sizes and bytes of its files.

    Of a file over 64 MiB only size and the first MiB count (a safetensors header names every
    tensor and its place): hashing hundreds of gigabytes would take longer than serving them.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE if size <= _WHOLE else _HEAD))
    return f"sha256:{digest.hexdigest()}"


def readable_by_all(folder: Path) -> bool:
    """Whether a container's user can read the folder as it lies here (a umask may forbid it)."""
    entries = [folder, *folder.rglob("*")]
    needed = {True: stat.S_IROTH | stat.S_IXOTH, False: stat.S_IROTH}
    return all(
        path.stat().st_mode & needed[path.is_dir()] == needed[path.is_dir()] for path in entries
    )
