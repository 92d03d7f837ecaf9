"""Two images layer by layer: which entry of which layer differs, and in what."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Sequence

import pytest

from builder.core.diff import between_images
from builder.core.diff_alarms import alarms
from builder.core.diff_html import html
from builder.core.diff_markdown import markdown
from builder.core.diff_result import DiffResult
from builder.core.diff_text import text
from builder.core.image_diff import ImageFacts, compare_images, differing, to_read
from builder.core.image_diff_result import MOST_PATHS, ImageDiff
from builder.core.labels import BUILD_ID
from builder.core.layer_entry import Entry
from builder.edge.templates import read_template
from builder.errors import RegistryError
from tests.support.layers import HandMade, Member, tar_of

BASE = tar_of(Member(path="etc", type=tarfile.DIRTYPE, mode=0o755), Member(path="etc/passwd"))
TOOL = Member(path="opt/tool", data=b"one", mode=0o755)


def entries(blob: bytes) -> list[Entry]:
    """Read a layer whole."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob))) as archive:
        found = []
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            data = file.read() if file else b""
            found.append(Entry.of(member, hashlib.sha256(data).hexdigest()))
        return found


def facts(image: HandMade) -> ImageFacts:
    """Read what manifest and config say."""
    return ImageFacts.of(image.manifest, image.config, "x")


def compared(old: HandMade, new: HandMade) -> ImageDiff:
    """Compare, with every layer that has to be read."""
    sides = facts(old), facts(new)
    blobs = {**old.blobs, **new.blobs}
    wanted = {one.digest for pair in to_read(differing(*sides)) for one in pair if one}
    return compare_images(*sides, {digest: entries(blobs[digest]) for digest in wanted})


def fields(old: Member, new: Member) -> dict[str, tuple[str, str]]:
    """Compare two images that differ in one entry; field → old and new."""
    result = compared(HandMade.of([BASE, tar_of(old)]), HandMade.of([BASE, tar_of(new)]))
    (layer,) = result.layers
    assert (2, 2, "files", {"changed": 1}) == (
        layer.old_number,
        layer.new_number,
        layer.reason,
        layer.counts,
    )
    (path,) = layer.paths
    assert (new.path, "changed") == (path.path, path.kind)
    return {value.name: (value.old, value.new) for value in path.fields}


def other(**changes: object) -> Member:
    """Return the tool with something changed."""
    return Member(**({"path": TOOL.path, "data": TOOL.data, "mode": TOOL.mode} | changes))  # type: ignore[arg-type]


def sha256(data: bytes) -> str:
    """As an entry's content says it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}, {len(data)} bytes"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data": b"two"}, {"content": (sha256(b"one"), sha256(b"two"))}),
        ({"mode": 0o4755}, {"mode": ("0755", "4755")}),
        ({"owner": (0, 5)}, {"owner": ("0:0", "0:5")}),
        (
            {"mtime": 315532801},
            {
                "mtime": (
                    "315532800 (1980-01-01 00:00:00)",
                    "315532801 (1980-01-01 00:00:01)",
                )
            },
        ),
        (
            {"mtime": 315532800.25},
            {
                "mtime": (
                    "315532800 (1980-01-01 00:00:00)",
                    "315532800.25 (1980-01-01 00:00:00)",
                )
            },
        ),
        (
            {"pax": {"SCHILY.xattr.user.note": "x"}},
            {"xattr user.note": ("", "x")},
        ),
        (
            {"pax": {"SCHILY.xattr.security.capability": "\x01\x00\x00\x02"}},
            {"xattr security.capability": ("", "01000002")},
        ),
        ({"pax": {"LIBARCHIVE.creationtime": "5"}}, {"pax LIBARCHIVE.creationtime": ("", "5")}),
        (
            {"type": tarfile.SYMTYPE, "target": "tool2", "data": b""},
            {
                "content": (sha256(b"one"), ""),
                "target": ("", "tool2"),
                "type": ("file", "link"),
            },
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_each_kind_of_difference_is_named(
    changes: dict[str, object], expected: dict[str, tuple[str, str]]
) -> None:
    """Content, mode, owner, time to its fraction, extended attributes, records of pax, target."""
    assert expected == fields(TOOL, other(**changes))


def test_added_and_removed_paths() -> None:
    """Whiteouts are entries as any other."""
    old = HandMade.of([BASE, tar_of(TOOL, Member(path="opt/gone"))])
    new = HandMade.of([BASE, tar_of(TOOL, Member(path="opt/.wh.gone"))])
    (layer,) = compared(old, new).layers
    assert [("opt/.wh.gone", "added"), ("opt/gone", "removed")] == [
        (path.path, path.kind) for path in layer.paths
    ]


def test_equal_images_need_no_look() -> None:
    """Nothing is paired, nothing is said."""
    image = HandMade.of([BASE, tar_of(TOOL)])
    assert [] == differing(facts(image), facts(image))
    result = compared(image, image)
    assert (True, [], []) == (result.same, result.layers, result.config)


def test_the_same_tar_compressed_otherwise() -> None:
    """As another version of an exporter does; neither is read."""
    layers = [BASE, tar_of(other(data=b"one" * 5000))]
    old, new = HandMade.of(layers, level=1), HandMade.of(layers, level=9)
    assert [] == to_read(differing(facts(old), facts(new)))
    result = compared(old, new)
    assert {"compression"} == {layer.reason for layer in result.layers}


def test_the_same_entries_in_another_order() -> None:
    """A file system's own order, which a packer took over."""
    two = Member(path="opt/two")
    result = compared(HandMade.of([tar_of(TOOL, two)]), HandMade.of([tar_of(two, TOOL)]))
    assert [("order", {}, [])] == [(one.reason, one.counts, one.paths) for one in result.layers]


def test_a_layer_more_moves_no_other() -> None:
    """The others are found again at their new places."""
    extra = tar_of(Member(path="opt/patch.py"))
    old = HandMade.of([BASE, tar_of(TOOL)], steps=["ADD", "COPY"])
    new = HandMade.of([BASE, extra, tar_of(TOOL)], steps=["ADD", "RUN patch", "COPY"])
    result = compared(old, new)
    assert [(0, 2, "added", "RUN patch", ["opt/patch.py"])] == [
        (
            one.old_number,
            one.new_number,
            one.reason,
            one.made_by,
            [path.path for path in one.paths],
        )
        for one in result.layers
    ]
    (back,) = compared(new, old).layers
    assert ("removed", 2, 0, {"removed": 1}) == (
        back.reason,
        back.old_number,
        back.new_number,
        back.counts,
    )


def test_labels_environment_and_the_rest_of_the_config() -> None:
    """Layers are told as layers, everything else by its name."""
    old = {"Labels": {"a": "1", "b": "1"}, "Env": ["PATH=/bin", "X=1"], "User": "0"}
    new = {"Labels": {"a": "2", "c": "1"}, "Env": ["PATH=/bin", "X=2"], "User": "0", "Cmd": ["x"]}
    found = compared(HandMade.of([BASE], config=old), HandMade.of([BASE], config=new))
    assert [
        ("config Cmd", "", '["x"]'),
        ("env X", "1", "2"),
        ("label a", "1", "2"),
        ("label b", "1", ""),
        ("label c", "", "1"),
    ] == [(value.name, value.old, value.new) for value in found.config]
    assert [] == found.layers


def test_long_lists_are_cut_and_counted() -> None:
    """A whole base that moved does not fill a document."""
    many = tar_of(*(Member(path=f"x/{number:05}") for number in range(MOST_PATHS + 5)))
    (layer,) = compared(HandMade.of([tar_of()]), HandMade.of([many])).layers
    assert (MOST_PATHS, {"added": MOST_PATHS + 5}) == (len(layer.paths), layer.counts)


def planted(build: str = "") -> ImageDiff:
    """Compare two builds of one id, one of which kept a time."""
    config = {"Labels": {BUILD_ID: build}} if build else {}
    old = HandMade.of([BASE, tar_of(TOOL)], config=config, steps=["ADD base", "COPY /out/ /"])
    new = HandMade.of(
        [BASE, tar_of(other(mtime=1e9))], config=config, steps=["ADD base", "COPY /out/ /"]
    )
    return compared(old, new)


def test_not_reproducible() -> None:
    """One build id, two digests: the finding names layer, path and field."""
    result = between_images([planted("sha256:" + "b" * 64)], names=("one", "two"))
    (found,) = alarms(result)
    assert ("not-reproducible", "one, two (linux/amd64)") == (found.key, found.subject)
    assert "COPY /out/ /: ~ /opt/tool: mtime 315532800 (1980-01-01 00:00:00) →" in found.evidence
    assert () == alarms(between_images([planted()], names=("one", "two")))


def as_html(result: DiffResult) -> str:
    """Fill the real template."""
    return html(result, read_template("diff.html.j2"))


@pytest.mark.parametrize("form", [text, markdown, as_html])
def test_every_format_names_layer_and_file(form: Callable[[DiffResult], str]) -> None:
    """Without locks nothing is said of packages and vLLM."""
    result = between_images([planted()], names=("one", "two"))
    said = form(result)
    for words in ("1 of 2 layers differ", "COPY /out/ /", "/opt/tool", "1980-01-01", "2001-09-09"):
        assert words in said.replace("\\", "").replace("\n    ", " ")
    for words in ("vllm", "vLLM", "ackages", "nothing differs"):
        assert words not in said


@pytest.mark.parametrize("config", [b"", b"[]", b'{"os": "linux"}', b'{"os": 1, "history": 5}'])
def test_a_config_that_is_none(config: bytes) -> None:
    """It is told as what it is."""
    with pytest.raises(RegistryError, match="not an image config"):
        ImageFacts.of(HandMade.of([BASE]).manifest, config, "x")


def test_unread_layers_are_told_with_their_sizes() -> None:
    """Two nights differ in gigabytes; nobody asked for the files."""
    old, new = HandMade.of([BASE, tar_of(TOOL)]), HandMade.of([BASE, tar_of(other(mode=0))])
    (layer,) = compare_images(facts(old), facts(new)).layers
    sizes: Sequence[int] = [image.manifest.body.layers[1].size for image in (old, new)]
    assert ("unread", *sizes) == (layer.reason, layer.old_bytes, layer.new_bytes)
