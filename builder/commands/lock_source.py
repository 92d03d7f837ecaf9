"""Where a lock can come from: a folder, a git revision, or an image."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from builder.commands.context import Context
from builder.core.lock import Lock
from builder.core.reference import ImageRef
from builder.edge import git
from builder.edge.project import find_project, read_lock_folder
from builder.errors import BadInput, LockFileError, Outside

FORMS = (
    "name a lock folder (lock/cpu), a git revision of one (HEAD~1:lock/cpu, or HEAD~1 with "
    "--image cpu), or an image (registry/repository:tag)"
)

LAYOUT = "oci:"
"""Before the folder of an OCI layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A lock and where it was found."""

    lock: Lock
    name: str
    """As it was typed; a bare revision with its folder."""
    revision: str = ""
    """The git commit, 40 hex digits."""


def read_source(context: Context, text: str, image: str = "") -> Source:
    """Read the lock that `text` names; `image` is for revisions that name no folder.

    A lock folder wins over a revision of the same name, a revision over an image.

    Raises:
        BadInput: it is none of the three, or a revision leaves open which lock is meant.
        LockFileError: there is a lock, but it is damaged.

    """
    if text.startswith(LAYOUT):
        raise LockFileError(
            "the lock of an OCI layout is not read",
            subject=text,
            action="push the image to a registry and name it there",
        )
    places = (Path(text), context.project / text) if text else ()
    folders = [place for place in places if place.is_dir()]
    for folder in folders:
        if (folder / "lock.toml").is_file():
            return Source(lock=read_lock_folder(folder), name=text)
    if commit := git.find_commit(context.project, text):
        return _bare_revision(context, text, commit, image)
    revision, _, path = text.partition(":")
    if path and (commit := git.find_commit(context.project, revision)):
        return _revision(context.project, text, commit, path)
    if folders:
        # No lock.toml in it: the reader says so.
        return Source(lock=read_lock_folder(folders[0]), name=text)
    return Source(lock=_image_lock(context, _reference(text)), name=text)


def is_image(context: Context, text: str) -> bool:
    """Whether `read_source` would look for an image of that name; an OCI layout is one too."""
    if text.startswith(LAYOUT):
        return True
    if not text or any(place.is_dir() for place in (Path(text), context.project / text)):
        return False
    revision, _, path = text.partition(":")
    known = git.find_commit(context.project, text)
    if known or (path and git.find_commit(context.project, revision)):
        return False
    try:
        _reference(text)
    except BadInput:
        return False
    return True


def _image_lock(context: Context, reference: ImageRef) -> Lock:
    """Read it from the registry, else from an engine that pulled or loaded the image.

    The registry comes first: there a tag names what it names now.
    """
    # Imported late: folders and revisions need no HTTP, which costs 150 ms.
    from builder.edge.engine import find_engine  # noqa: PLC0415
    from builder.edge.image_lock import read_image_lock  # noqa: PLC0415

    try:
        return read_image_lock(reference, os.environ)
    except LockFileError:
        raise
    except (BadInput, Outside) as error:
        from builder.edge.engine_lock import read_engine_lock  # noqa: PLC0415

        try:
            engine = find_engine(context.places, context.settings, os.environ)
            found = read_engine_lock(engine, str(reference)) if engine else None
        except Outside:
            found = None
        if found is None:
            raise error from None
        context.output.note(f"{reference}: {error.what}; read from the engine's copy")
        return found


def _revision(repository: Path, text: str, commit: str, path: str) -> Source:
    files = git.read_folder(repository, commit, path)
    if "lock.toml" not in files:
        parent, _, _ = path.rstrip("/").rpartition("/")
        there = git.list_folder(repository, commit, parent or ".")
        raise BadInput(
            f"there is no lock in {path} at that revision",
            subject=text,
            action=f"entries of {parent or 'the top folder'} there: {', '.join(there) or 'none'}",
        )
    return Source(lock=Lock.parse(files, text), name=text, revision=commit)


def _bare_revision(context: Context, text: str, commit: str, image: str) -> Source:
    project = find_project(context.project)
    images = git.list_folder(project, commit, "./lock")
    if image and image not in images:
        raise BadInput(
            f"that revision has no lock of {image!r}",
            subject=text,
            action=f"locks there: {', '.join(images) or 'none'}",
        )
    if not image and len(images) != 1:
        choice = f", as {text}:lock/{images[0]} or --image {images[0]}" if images else ""
        raise BadInput(
            f"that revision has {len(images)} locks" if images else "that revision has no lock",
            subject=text,
            action=f"say which: {', '.join(images)}{choice}" if images else FORMS,
        )
    name = image or images[0]
    return _revision(project, f"{text}:./lock/{name}", commit, f"./lock/{name}")


def _reference(text: str) -> ImageRef:
    """Read an image reference; its registry must be written, so that no typo asks Docker Hub."""
    reference: ImageRef | None = None
    with suppress(BadInput):
        reference = ImageRef.parse(text)
    if reference is None or text.partition("/")[0] != reference.registry:
        raise BadInput(
            "neither a lock folder, a git revision nor an image", subject=text, action=FORMS
        )
    return reference
