"""Profiles and checkpoints on disk."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path

from builder.core.profile import Profile, parse_profile
from builder.core.release import Policy, parse_policy
from builder.edge import files
from builder.errors import BadInput, SpecError

_WHOLE = 64 << 20
"""Bytes up to which a file of a checkpoint is hashed whole."""
_HEAD = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundProfile:
    """A profile together with the checkpoint it serves."""

    name: str
    profile: Profile
    folder: Path | None
    """The checkpoint, where the profile names one."""
    digest: str
    """Of profile and checkpoint: what a pass was about."""


def read_profile(project: Path, name: str) -> BoundProfile:
    """Read images/profiles/NAME.toml and look at its checkpoint.

    Raises BadInput for an unknown name, SpecError for a bad file or a checkpoint that is not there.
    """
    place = project / "images" / "profiles"
    path = place / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in place.glob("*.toml"))) or "none"
        raise BadInput(
            f"there is no profile {name!r}", subject=str(path), action=f"profiles here: {known}"
        )
    profile = parse_profile(files.read_text(path, SpecError, "restore it from git"), str(path))
    folder = (project / profile.model.folder).resolve() if profile.model.folder else None
    if folder is not None and not folder.is_dir():
        raise SpecError(
            f"model.folder: {profile.model.folder!r}: there is no such folder",
            subject=str(path),
            action="name a folder relative to the project, or an absolute one",
        )
    model = checkpoint_digest(folder) if folder is not None else ""
    return BoundProfile(name=name, profile=profile, folder=folder, digest=profile.digest(model))


def read_policy(project: Path) -> Policy:
    """Read images/policy.toml."""
    path = project / "images" / "policy.toml"
    return parse_policy(files.read_text(path, SpecError, "restore it from git"), str(path))


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
