"""Layers laid upon each other: what is seen, what is hidden, and how many bytes that wastes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.audit.file import FileFacts
from builder.core.audit.layer import Layer, removal, stack, tidy
from builder.edge.layer_files import read_layer, read_some
from builder.edge.pool import Stop
from builder.errors import Refused
from tests.support.layout import Entry, Link, Packing, packed, tar


def read(
    entries: Mapping[str, Entry], packing: Packing = "tar", piece: int = 1 << 16
) -> tuple[Layer, dict[str, bytes]]:
    """Pack and read a layer."""
    blob = packed(tar(entries), packing)
    pieces = [blob[start : start + piece] for start in range(0, len(blob), piece)]
    return read_layer(iter(pieces), "sha256:x", len(blob), Stop())


@pytest.mark.parametrize("packing", ["tar", "gzip", "zstd"])
@pytest.mark.parametrize("piece", [3, 1000, 1 << 20])
def test_a_layer_is_read_whatever_it_is_packed_with(packing: Packing, piece: int) -> None:
    """Files, folders, links and texts; paths are spelled one way."""
    layer, texts = read(
        {
            "./opt": None,
            "opt/data": b"x" * 70_000,
            "/etc/ld.so.conf.d/cuda.conf": b"/opt/lib\n",
            "opt/soft": Link("data"),
            "opt/hard": Link("opt/data", hard=True),
        },
        packing,
        piece,
    )
    assert {"opt/data", "opt/soft", "opt/hard", "etc/ld.so.conf.d/cuda.conf"} == set(layer.files)
    assert frozenset({"opt"}) == layer.folders
    assert 70_000 == layer.files["opt/data"].size
    assert layer.files["opt/data"] == layer.files["opt/hard"]
    assert "data" == layer.files["opt/soft"].link
    assert {"etc/ld.so.conf.d/cuda.conf": b"/opt/lib\n"} == texts


def test_single_files_are_read_again() -> None:
    """Of those that are wanted only the ones that are small enough."""
    blob = packed(tar({"a": b"1", "b": b"22", "c": b"333"}), "zstd")
    assert {"a": b"1", "b": b"22"} == read_some([blob], "x", frozenset("abc"), 2)


@pytest.mark.parametrize("blob", [b"\x28\xb5\x2f\xfdbroken", b"\x1f\x8bbroken", b"x" * 1000])
def test_what_is_no_layer_is_refused(blob: bytes) -> None:
    """In words, with the digest."""
    with pytest.raises(Refused, match="cannot be read"):
        read_layer(iter([blob]), "sha256:abc", len(blob), Stop())


def test_a_layer_that_was_cut_off_is_refused() -> None:
    """Half a layer is not taken for one."""
    blob = packed(tar({"a": bytes(100_000)}), "zstd")
    with pytest.raises(Refused):
        read_layer(iter([blob[:50]]), "sha256:abc", len(blob), Stop())


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./opt/x", "opt/x"),
        ("/opt/x", "opt/x"),
        ("opt//x/", "opt/x"),
        (".", ""),
        ("../../etc/passwd", "etc/passwd"),
    ],
)
def test_names_in_a_tar_become_paths(name: str, path: str) -> None:
    """None of them leads out of the tree."""
    assert path == tidy(name)


def test_whiteouts_are_told_from_files() -> None:
    """OCI's two kinds."""
    assert ("opt/x", False) == removal("opt/.wh.x")
    assert ("opt", True) == removal("opt/.wh..wh..opq")
    assert removal("opt/x.wh.") is None


def test_later_layers_hide_earlier_ones() -> None:
    """Replaced, deleted, a folder deleted, a folder emptied, a file in a folder's place."""
    layers = [
        read({"a": b"1", "b": b"22", "d": None, "d/x": b"333", "e/x": b"4444", "f/x": b"5"})[0],
        read({"a": b"one", ".wh.b": b"", ".wh.d": b"", "e/.wh..wh..opq": b"", "e/y": b"new"})[0],
        read({"f": None, "a": b"one"})[0],
    ]
    files, origin, hidden = stack(layers)
    assert {"a": 2, "e/y": 1, "f/x": 0} == origin
    assert 3 == files["a"].size
    assert {("a", 0, 1), ("b", 0, 1), ("d/x", 0, 1), ("e/x", 0, 1), ("a", 1, 2)} == {
        (one.path, one.layer, one.by) for one in hidden
    }
    assert 1 + 2 + 3 + 4 + 3 == sum(one.facts.size for one in hidden)


def test_a_file_takes_the_place_of_a_folder() -> None:
    """And all that was in it goes."""
    layers = [read({"d": None, "d/x": b"1"})[0], read({"d": b"file"})[0]]
    files, _, hidden = stack(layers)
    assert ({"d"}, ["d/x"]) == (set(files), [one.path for one in hidden])


NAMES = st.sampled_from(["a", "b", "d/x", "d/y", "e/z"])


@given(
    layers=st.lists(
        st.tuples(
            st.dictionaries(NAMES, st.binary(min_size=1, max_size=3), max_size=4),
            st.lists(st.sampled_from(["a", "d", "d/x", "e"]), max_size=2),
        ),
        max_size=5,
    )
)
def test_a_naive_second_implementation_agrees(
    layers: list[tuple[dict[str, bytes], list[str]]],
) -> None:
    """Files by path, removals first: what unpacking one layer after the other would leave."""
    seen: dict[str, bytes] = {}
    written = 0
    for files, gone in layers:
        for path in gone:
            seen = {
                name: data
                for name, data in seen.items()
                if name != path and not name.startswith(f"{path}/")
            }
        seen |= files
        written += sum(map(len, files.values()))
    made = [
        Layer(
            digest="",
            size=0,
            files={
                path: FileFacts(size=len(data), sha256=data.hex()) for path, data in one.items()
            },
            gone=tuple(gone),
        )
        for one, gone in layers
    ]
    found, _, hidden = stack(made)
    assert {path: data.hex() for path, data in seen.items()} == {
        path: facts.sha256 for path, facts in found.items()
    }
    assert written == sum(map(len, seen.values())) + sum(one.facts.size for one in hidden)
