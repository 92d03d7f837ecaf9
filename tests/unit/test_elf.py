"""What a shared object needs, read as it streams by."""

from __future__ import annotations

import io

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from builder.core import elf
from builder.core.elf import ElfFacts, ElfScan, NotReadError
from tests.support.elf import needing


def read(data: bytes, piece: int = 1 << 20) -> ElfFacts | None:
    """Feed a file in pieces."""
    scan = ElfScan()
    for start in range(0, len(data), piece):
        scan.feed(data[start : start + piece])
    return scan.facts()


def test_libraries_name_version_and_machine() -> None:
    """All that an audit asks of an object."""
    data = needing("libcudart.so.13", "libc.so.6", glibc="2.34", soname="libx.so.1")
    expected = ElfFacts(
        machine="x86_64",
        soname="libx.so.1",
        needed=("libcudart.so.13", "libc.so.6"),
        glibc="2.34",
    )
    assert expected == read(data)


def test_another_reader_agrees_on_the_made_file() -> None:
    """What tests make is an ELF file to pyelftools too."""
    data = needing("libcudart.so.13", "libm.so.6", glibc="2.17")
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    found = [getattr(tag, "needed", "") for tag in section.iter_tags("DT_NEEDED")]
    facts = read(data)
    assert facts is not None
    assert found == list(facts.needed)


def test_an_object_without_needs() -> None:
    """Stubs and data need nothing, also no glibc."""
    facts = read(needing(machine=183))
    assert facts is not None
    assert ("aarch64", (), "0") == (facts.machine, facts.needed, facts.glibc)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" * 99, b"\x7fELF\x01\x01\x01" + bytes(99)])
def test_other_files_are_none(data: bytes) -> None:
    """Nothing, a stump, another format, 32 bits."""
    assert read(data) is None


def test_a_dynamic_section_behind_gigabytes_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the kept beginning and before the kept end, as in objects full of GPU code."""
    monkeypatch.setattr(elf, "HEAD", 4096)
    monkeypatch.setattr(elf, "TAIL", 512)
    data = needing("libtorch.so", glibc="2.28", before=bytes(20_000), after=bytes(20_000))
    for piece in (100, 5000, 1 << 20):
        facts = read(data, piece)
        assert facts is not None
        assert (("libtorch.so",), "2.28") == (facts.needed, facts.glibc)


@pytest.mark.parametrize("cut", [70, 130, 180, 230])
def test_a_damaged_table_is_told(cut: int) -> None:
    """Never a guess: whoever reads it says that it could not."""
    data = needing("libcudart.so.13", glibc="2.34")
    with pytest.raises(NotReadError):
        read(data[:cut])


@given(data=st.binary(max_size=600), cut=st.integers(0, 400), piece=st.integers(1, 200))
def test_damage_never_does_worse(data: bytes, cut: int, piece: int) -> None:
    """Whatever the bytes: facts, nothing, or the one error."""
    damaged = bytearray(needing("libc.so.6", glibc="2.34"))
    damaged[cut : cut + len(data)] = data
    try:
        read(bytes(damaged), piece)
    except NotReadError:
        return


def test_a_section_is_found_by_its_name() -> None:
    """Where it is and how long; none where the tables at the end are gone."""
    data = needing("libc.so.6", relocatable=b"x" * 40, after=b"y" * 9)
    for piece in (1, 64, 1 << 20):
        scan = ElfScan()
        for start in range(0, len(data), piece):
            scan.feed(data[start : start + piece])
        assert [(data.index(b"x" * 40), 40)] == scan.sections("__nv_relfatbin")
        assert [] == scan.sections(".text")
    cut = ElfScan()
    cut.feed(data[:-64])
    assert [] == cut.sections("__nv_relfatbin")
