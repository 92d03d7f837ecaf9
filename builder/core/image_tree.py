"""The files of an image: layers laid over each other (OCI image-spec 1.1, layer.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MOST_LINKS = 40
"""As the kernel: more in one path are a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One path of an image."""

    kind: Literal["file", "folder", "link", "hard link"]
    target: str = ""
    """Of a link, as it is written."""
    data: bytes | None = None
    """Of a file whose bytes were asked for."""


@dataclass(slots=True)
class ImageTree:
    """What an image holds; paths have no leading slash."""

    nodes: dict[str, Node] = field(default_factory=dict)

    def lay(self, entries: Iterable[tuple[str, Node]]) -> None:
        """Put a layer on top; `entries` are its members in any order, whiteouts among them."""
        gone: set[str] = set()
        emptied: set[str] = set()
        new: dict[str, Node] = {}
        for name, node in entries:
            path = "/".join(part for part in name.split("/") if part not in ("", "."))
            folder, _, last = path.rpartition("/")
            if last == _OPAQUE:
                emptied.add(folder)
            elif last.startswith(_WHITEOUT):
                gone.add(f"{folder}/{last.removeprefix(_WHITEOUT)}".lstrip("/"))
            elif path:
                new[path] = node
                if node.kind != "folder":
                    gone.add(path)
        if gone or emptied:
            for path in [path for path in self.nodes if _hidden(path, gone, emptied)]:
                del self.nodes[path]
        for path, node in new.items():
            self._have_folders(path)
            if node.kind == "hard link":
                target = node.target.lstrip("./")
                found = new.get(target) or self.nodes.get(target)
                self.nodes[path] = found or Node(kind="file")
            else:
                self.nodes[path] = node

    def _have_folders(self, path: str) -> None:
        """Not every tar has members for the folders that its files are in."""
        at = path.rfind("/")
        while at > 0 and path[:at] not in self.nodes:
            self.nodes[path[:at]] = Node(kind="folder")
            at = path.rfind("/", 0, at)

    def resolve(self, path: str) -> str:
        """Follow every link on the way; empty when it leads to nothing."""
        rest = [part for part in path.split("/") if part]
        done: list[str] = []
        links = 0
        while rest:
            part = rest.pop(0)
            if part == ".":
                continue
            if part == "..":
                done = done[:-1]
                continue
            here = "/".join([*done, part])
            node = self.nodes.get(here)
            if node is not None and node.kind == "link":
                links += 1
                if links > _MOST_LINKS:
                    return ""
                if node.target.startswith("/"):
                    done = []
                rest = [*(step for step in node.target.split("/") if step), *rest]
                continue
            done.append(part)
        found = "/".join(done)
        return found if found in self.nodes else ""

    def read(self, path: str) -> bytes:
        """Bytes of a file, through links; empty when it is not there or was not asked for."""
        node = self.nodes.get(self.resolve(path))
        return (node.data or b"") if node is not None else b""

    def matching(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
        """Path and bytes of the files whose whole path matches, sorted."""
        for path, node in sorted(self.nodes.items()):
            if node.data is not None and pattern.fullmatch(path):
                yield path, node.data


def _hidden(path: str, gone: set[str], emptied: set[str]) -> bool:
    """Whether a whiteout covers a path of a lower layer, or something above it."""
    if path in gone or "" in emptied:
        return True
    at = path.rfind("/")
    while at > 0:
        above = path[:at]
        if above in gone or above in emptied:
            return True
        at = path.rfind("/", 0, at)
    return False
