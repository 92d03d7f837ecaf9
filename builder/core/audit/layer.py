"""Layers of an image: what each brings and what it hides (OCI image-spec, layer.md)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from builder.core.audit.file import FileFacts

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one layer's tar holds."""

    digest: str
    """Of the blob."""
    size: int
    """Bytes of the blob."""
    files: Mapping[str, FileFacts]
    """Path → facts, of files and symbolic links; no leading slash."""
    folders: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()
    """Paths it deletes, with all below them."""
    emptied: tuple[str, ...] = ()
    """Folders whose lower content it hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A file that is shipped and cannot be seen: a later layer replaced or deleted it."""

    path: str
    layer: int
    """Which brought it; 0 is the lowest."""
    by: int
    """Which hides it."""
    facts: FileFacts
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What is known of an image beside its files."""

    layers: tuple[Layer, ...]
    hidden: tuple[Hidden, ...]
    origin: Mapping[str, int]
    """Path → the layer that brought what can be seen there."""
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    """Commands, as the config tells them."""
    platform: str = ""

    @property
    def wasted(self) -> int:
        """Bytes, unpacked, that no container can see."""
        return sum(one.facts.size for one in self.hidden)


def tidy(name: str) -> str:
    """Spell a tar's member name as a path of the tree; empty for the root and what leaves it."""
    path = posixpath.normpath("/" + name).lstrip("/")
    return "" if path == "." else path


def removal(path: str) -> tuple[str, bool] | None:
    """Read a whiteout's path: what it hides, and whether it is that folder's content alone."""
    folder, _, name = path.rpartition("/")
    if name == _OPAQUE:
        return folder, True
    if name.startswith(_WHITEOUT):
        return posixpath.join(folder, name.removeprefix(_WHITEOUT)), False
    return None


def stack(layers: Sequence[Layer]) -> tuple[dict[str, FileFacts], dict[str, int], list[Hidden]]:
    """Lay layers upon each other: what can be seen, which layer brought it, and what is hidden."""
    files: dict[str, FileFacts] = {}
    origin: dict[str, int] = {}
    hidden: list[Hidden] = []
    folders: set[str] = set()

    def hide(path: str, by: int, *, deleted: bool) -> None:
        facts, layer = files.pop(path), origin.pop(path)
        hidden.append(Hidden(path=path, layer=layer, by=by, facts=facts, deleted=deleted))

    for number, layer in enumerate(layers):
        # A file where a folder was takes all below it away.
        gone = {*layer.gone, *(folders & layer.files.keys())}
        if gone or layer.emptied:
            for path in [path for path in files if _is_gone(path, gone, layer.emptied)]:
                hide(path, number, deleted=True)
            folders -= gone
        for path, facts in layer.files.items():
            if path in files:
                hide(path, number, deleted=False)
            files[path], origin[path] = facts, number
        for path in layer.folders:
            if path in files and origin[path] < number:
                hide(path, number, deleted=True)
        folders |= layer.folders
    return files, origin, hidden


def _is_gone(path: str, gone: set[str], emptied: Iterable[str]) -> bool:
    if path in gone:
        return True
    parents = set(_parents(path))
    return not (parents.isdisjoint(gone) and parents.isdisjoint(emptied))


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
