"""The project on disk: images/, lock/ and the settings around them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from builder.core.lock import Lock
from builder.core.lock_check import SIBLING
from builder.core.places import Places
from builder.core.sets import parse_sets
from builder.core.settings import Settings, from_environment, merge, source_of
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
    layers: list[tuple[str, Mapping[str, object]]] = [(str(user), _toml(user))]
    if project is not None:
        own = project / "pyproject.toml"
        layers.append((f"{own}: [tool.nightlock]", _own_table(own)))
    layers += [(name, from_environment({name: environment[name]})) for name in sorted(environment)]
    layers = [(name, values) for name, values in layers if values]
    try:
        return Settings.model_validate(merge(*(values for _, values in layers)))
    except RecursionError:
        raise SpecError(
            "the settings are nested too deep",
            subject=", ".join(name for name, _ in layers),
            action="correct them; the README lists them",
        ) from None
    except ValidationError as error:
        rows = error.errors(include_url=False)
        sources = [source_of(row["loc"], layers) for row in rows]
        raise SpecError(
            "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in rows),
            subject=", ".join(dict.fromkeys(sources)),
            action="correct it there; the README lists the settings",
        ) from None


def image_names(project: Path) -> list[str]:
    """Names of all images, sorted."""
    return sorted(path.parent.name for path in (project / "images").glob("*/image.toml"))


def read_sets(project: Path) -> dict[str, dict[str, str]]:
    """Read images/sets.toml: set → platform → image; none where there is no such file."""
    path = project / "images" / "sets.toml"
    if not os.path.lexists(path):
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


def image_files(project: Path, name: str) -> dict[str, bytes]:
    """Read what one image needs of images/, by its name there: its folder, templates, rules."""
    images = project / "images"
    found = [
        *(images / name).rglob("*"),
        *(images / "_shared").rglob("*"),
        *(images / "profiles").glob("*.toml"),
        images / "policy.toml",
    ]
    return {
        path.relative_to(images).as_posix(): path.read_bytes()
        for path in sorted(found)
        if path.is_file() and "__pycache__" not in path.parts
    }


def lock_folder(project: Path, name: str) -> Path:
    """Where the lock of an image lies."""
    return project / "lock" / name


def read_lock(project: Path, name: str) -> Lock:
    """Read lock/NAME/; see `Lock.parse` for what is refused."""
    return read_lock_folder(lock_folder(project, name), name)


def read_lock_folder(folder: Path, image: str = "") -> Lock:
    """Read a lock from any folder; when `image` is given, it is the lock of that image.

    Raises LockFileError.
    """
    try:
        content = files.read_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise LockFileError(
            "there is no lock here", subject=str(folder), action="make it with `nightlock lock`"
        ) from None
    except (OSError, RuntimeError) as error:
        # RuntimeError: how pathlib says before Python 3.13 that links go in circles.
        raise LockFileError(
            f"the lock cannot be read: {_reason(error)}",
            subject=str(folder),
            action="make it a folder of files that you may read",
        ) from None
    lock = Lock.parse(content, str(folder))
    if image and lock.header.image != image:
        raise LockFileError(
            f"this is the lock of image {lock.header.image!r}, not of {image!r}",
            subject=str(folder / "lock.toml"),
            action=f"make that one with `nightlock lock {image}`",
        )
    return lock


def write_lock(project: Path, lock: Lock, out: Path | None = None) -> Change:
    """Write a lock into lock/IMAGE/ (or `out`); the files of an older one go, all others stay.

    Raises BadInput when the folder holds something else than a lock.
    """
    folder = out or lock_folder(project, lock.header.image)
    with files.locked(folder.parent / f".{folder.name}.lock", remove=True):
        return files.write_folder(folder, _foreign(folder) | lock.files())


def _foreign(folder: Path) -> dict[str, bytes]:
    """Read what is no part of the lock in `folder`; raises BadInput when no lock is there."""
    files.restore(folder)
    if not os.path.lexists(folder):
        return {}
    try:
        entries = [path for path in folder.iterdir() if not _is_ours(path.name)]
        if entries and not (folder / "lock.toml").is_file():
            raise BadInput(
                "the folder holds something else than a lock",
                subject=str(folder),
                action="name a new folder, or an empty one",
            )
        return {path.name: path.read_bytes() for path in entries if path.is_file()}
    except OSError as error:
        raise BadInput(
            f"no lock can be written there: {_reason(error)}",
            subject=str(folder),
            action="name a new folder, or an empty one",
        ) from None


def _is_ours(name: str) -> bool:
    return name == "lock.toml" or SIBLING.fullmatch(name) is not None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _own_table(path: Path) -> Mapping[str, object]:
    """Read `[tool.nightlock]`; none when it is not there."""
    tool = _toml(path).get("tool", {})
    table = tool.get("nightlock", {}) if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise SpecError(
            "tool.nightlock is not a table",
            subject=os.fspath(path),
            action="write it as [tool.nightlock], with settings below",
        )
    return table


def _toml(path: Path) -> dict[str, object]:
    try:
        # Some editors begin a file with a byte order mark.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SpecError(
            f"the file cannot be read: {_reason(error)}",
            subject=os.fspath(path),
            action="make it a file that you may read",
        ) from None
    except (ValueError, RecursionError) as error:
        # Beside its own errors, tomllib lets through those of endless numbers and deep nesting.
        raise SpecError(
            f"not TOML: {error}", subject=os.fspath(path), action="correct that line"
        ) from None
