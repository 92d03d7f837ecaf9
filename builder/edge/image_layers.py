"""The files of an image whose layers are in the store, laid over each other, unpacked nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from builder.core.image_tree import ImageTree, Node
from builder.edge.layer_files import members
from builder.edge.store import chunks


def read_tree(layers: Sequence[Path], wanted: Callable[[str], bool]) -> ImageTree:
    """Lay layers over each other, lowest first; only files whose path is `wanted` keep their bytes.

    Raises Refused for one that is no layer.
    """
    tree = ImageTree()
    for path in layers:
        tree.lay(_entries(path, wanted))
    return tree


def _entries(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Node]]:
    with path.open("rb") as blob:
        for member, content in members(chunks(blob), f"sha256:{path.name}"):
            name = member.name.removeprefix("./").strip("/")
            if member.isdir():
                yield name, Node(kind="folder")
            elif member.issym():
                yield name, Node(kind="link", target=member.linkname)
            elif member.islnk():
                yield name, Node(kind="hard link", target=member.linkname)
            else:
                data = b"".join(content) if member.isreg() and wanted(name) else None
                yield name, Node(kind="file", data=data)
