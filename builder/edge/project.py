"""The project on disk: images/, lock/ and the settings around them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from builder.core.lock import Lock
from builder.core.places import Places
from builder.core.sets import parse_sets
from builder.core.settings import Settings, from_environment, merge
from builder.core.spec import ImageSpec, parse_spec
from builder.edge import files
from builder.edge.files import Change
from builder.errors import BadInput, LockFileError, SpecError


def find_project(start: Path, flag: Path | None = None) -> Path:
    """Return the folder that holds images/: `flag`, or the nearest one at or above `start`.

    Raises BadInput when there is none.
    """
    candidates = [flag] if flag is not None else [start, *start.parents]
    for folder in candidates:
        if (folder / "images").is_dir():
            return folder.resolve()
    raise BadInput(
        "no nightlock project here: there is no folder images/",
        subject=str(flag or start),
        action="change into a clone of the project, or name it with --project DIR",
    )


def read_settings(project: Path | None, places: Places, environment: Mapping[str, str]) -> Settings:
    """Merge the user's config.toml, the project's `[tool.nightlock]` and `NIGHTLOCK_*`."""
    user = places.config / "config.toml"
    layers: list[Mapping[str, object]] = [_toml(user)]
    if project is not None:
        tool = _toml(project / "pyproject.toml").get("tool")
        table = tool.get("nightlock") if isinstance(tool, dict) else None
        layers.append(table if isinstance(table, dict) else {})
    layers.append(from_environment(environment))
    try:
        return Settings.model_validate(merge(*layers))
    except ValidationError as error:
        rows = [
            f"{'.'.join(str(part) for part in row['loc'])}: {row['msg']}"
            for row in error.errors(include_url=False)
        ]
        raise SpecError(
            "; ".join(rows),
            subject=f"{user}, [tool.nightlock] of pyproject.toml, NIGHTLOCK_*",
            action="correct the named settings; the README lists them",
        ) from None


def image_names(project: Path) -> list[str]:
    """Names of all images, sorted."""
    return sorted(path.parent.name for path in (project / "images").glob("*/image.toml"))


def read_sets(project: Path) -> dict[str, dict[str, str]]:
    """Read images/sets.toml: set → platform → image; none where there is no such file."""
    path = project / "images" / "sets.toml"
    if not path.is_file():
        return {}
    text = files.read_text(path, SpecError, "restore it from git")
    return parse_sets(text, str(path), image_names(project))


def read_spec(project: Path, name: str) -> ImageSpec:
    """Read images/NAME/image.toml; an unknown name says which there are."""
    path = project / "images" / name / "image.toml"
    if name not in image_names(project):
        raise BadInput(
            f"there is no image {name!r}",
            subject=str(path),
            action=f"images here: {', '.join(image_names(project)) or 'none'}",
        )
    spec = parse_spec(files.read_text(path, SpecError, "restore it from git"), str(path))
    if spec.name != name:
        raise SpecError(
            f"image.name: {spec.name!r}: the folder is called {name!r}",
            subject=str(path),
            action="give both the same name",
        )
    return spec


def lock_folder(project: Path, name: str) -> Path:
    """Where the lock of an image lies."""
    return project / "lock" / name


def read_lock(project: Path, name: str) -> Lock:
    """Read lock/NAME/; see `Lock.parse` for what is refused."""
    return read_lock_folder(lock_folder(project, name))


def read_lock_folder(folder: Path) -> Lock:
    """Read a lock from any folder."""
    if not folder.is_dir():
        raise LockFileError(
            "there is no lock here", subject=str(folder), action="make it with `nightlock lock`"
        )
    content = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return Lock.parse(content, str(folder))


def write_lock(project: Path, lock: Lock, out: Path | None = None) -> Change:
    """Write a lock into lock/IMAGE/ (or `out`), and nothing else stays there."""
    folder = out or lock_folder(project, lock.header.image)
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder.parent / f".{folder.name}.lock", remove=True):
        return files.write_folder(folder, lock.files())


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(
            f"not TOML: {error}", subject=os.fspath(path), action="correct that line"
        ) from None
