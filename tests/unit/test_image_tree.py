"""Layers laid over each other: whiteouts, links, files that were replaced (OCI layer.md)."""

from __future__ import annotations

import re

import pytest

from builder.core.image_tree import ImageTree, Node


def file(text: str = "") -> Node:
    """Return a file with bytes."""
    return Node(kind="file", data=text.encode())


def link(target: str) -> Node:
    """Return a symbolic link."""
    return Node(kind="link", target=target)


def tree(*layers: dict[str, Node]) -> ImageTree:
    """Lay some layers."""
    made = ImageTree()
    for one in layers:
        made.lay(one.items())
    return made


def test_a_whiteout_hides_what_lies_below_it() -> None:
    """A file, and a folder with all in it; names that only begin alike stay."""
    lower = {"a/b": file("1"), "a/bc": file("2"), "d/e/f": file("3"), "de": file("4")}
    made = tree(lower, {"a/.wh.b": file(), ".wh.d": file()})
    assert {"a", "a/bc", "de"} == made.nodes.keys()


def test_an_opaque_folder_keeps_what_its_own_layer_has() -> None:
    """Wherever the marker stands in the layer."""
    made = tree({"a/old": file("1")}, {"a/new": file("2"), "a/.wh..wh..opq": file()})
    assert {"a", "a/new"} == made.nodes.keys()


def test_a_file_replaces_a_folder() -> None:
    """With all that was in it."""
    made = tree({"a/b": file("1")}, {"a": file("2")})
    assert {"a"} == made.nodes.keys()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("lib/x", "usr/lib/x"),
        ("/lib/./../lib/x", "usr/lib/x"),
        ("absolute", "usr/lib/x"),
        ("up/deep", "usr/lib/x"),
        ("loop", ""),
        ("lib/nothing", ""),
        ("dangling", ""),
    ],
)
def test_links_are_followed(path: str, expected: str) -> None:
    """Relative, absolute, of folders on the way; loops and dangling ones lead to nothing."""
    made = tree(
        {
            "usr/lib/x": file("found"),
            "lib": link("usr/lib"),
            "absolute": link("/lib/x"),
            "up/deep": link("../lib/x"),
            "loop": link("loop"),
            "dangling": link("nowhere"),
        }
    )
    assert expected == made.resolve(path)
    assert (b"found" if expected else b"") == made.read(path)


def test_hard_links_share_bytes() -> None:
    """Within a layer, and to a layer below."""
    hard = Node(kind="hard link", target="./a")
    made = tree({"a": file("1"), "b": hard}, {"c": hard})
    assert [("a", b"1"), ("b", b"1"), ("c", b"1")] == list(made.matching(re.compile(".*")))
