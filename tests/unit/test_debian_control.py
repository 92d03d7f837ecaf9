"""Control data: paragraphs, apt's list of addresses, Packages files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builder.core.control import (
    packages_index,
    parse_print_uris,
    parse_stanza,
    parse_stanzas,
    pins_of_index,
    whole_paragraphs,
)
from builder.core.lock import DebPin

ONE = "1" * 64
TWO = "2" * 64
OTHER = "3" * 64
INDEX = f"""\
Package: libc6
Source: glibc (2.36-9)
Version: 2.36-9+deb12u14
Architecture: amd64
Description: GNU C Library
 of the project
Filename: pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb
Size: 2757856
SHA256: {ONE}

Package: unwanted
Version: 1
Architecture: all
Filename: pool/main/u/unwanted/unwanted_1_all.deb
Size: 1
SHA256: {OTHER}

Package: adduser
Version: 1:3.134
Architecture: all
Size: 183272
SHA256: {TWO}
Filename: ./adduser_3.134_all.deb
"""
LIBC = DebPin(
    name="libc6",
    version="2.36-9+deb12u14",
    architecture="amd64",
    sha256=ONE,
    size=2757856,
    path="pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb",
    suite="bookworm",
    source="glibc",
)
ADDUSER = DebPin(
    name="adduser",
    version="1:3.134",
    architecture="all",
    sha256=TWO,
    size=183272,
    path="adduser_3.134_all.deb",
    suite="bookworm",
    source="adduser",
)


def test_a_paragraph_is_read() -> None:
    """Continuation lines, empty values, comments, and lines that are nothing."""
    text = "# c\nA: 1\nB:\n two\n\tthree\n.\nC: x: y\n"
    assert {"A": "1", "B": "\ntwo\nthree", "C": "x: y"} == parse_stanza(text)
    assert {} == parse_stanza(" a continuation of nothing\n")


def test_paragraphs_are_parted_by_blank_lines() -> None:
    """Any number of them, with blanks in them."""
    assert [{"A": "1"}, {"B": "2"}] == list(parse_stanzas("\nA: 1\n\n \t\n\nB: 2\n\n"))


def test_print_uris_is_read() -> None:
    """Only lines that name a file; apt's talk is noise."""
    text = (
        "Reading package lists...\n"
        f"'http://m.example/debian/pool/a%2bb_1_all.deb' a+b_1_all.deb 12 SHA256:{ONE}\n"
        f"'http://m.example/x' x 12 SHA256:{ONE[1:]}\n"
    )
    expected = {ONE: "http://m.example/debian/pool/a%2bb_1_all.deb"}
    assert expected == parse_print_uris(text)


def test_wanted_packages_of_an_index() -> None:
    """First, last, and one whose source is itself; nothing that is not wanted."""
    assert [LIBC, ADDUSER] == list(pins_of_index(INDEX, "bookworm", {ONE, TWO}))
    assert [] == list(pins_of_index(INDEX, "bookworm", ()))


def test_a_flat_index_is_written() -> None:
    """Sorted, own control data first, where the file lies after it; it reads back."""
    text = packages_index(
        [(LIBC, "Package: libc6\nVersion: 2.36-9+deb12u14\n"), (ADDUSER, "Package: adduser\n\n")]
    )
    assert text == (
        "Package: adduser\nFilename: ./adduser_3.134_all.deb\n"
        f"Size: 183272\nSHA256: {TWO}\n\n"
        "Package: libc6\nVersion: 2.36-9+deb12u14\n"
        "Filename: ./libc6_2.36-9+deb12u14_amd64.deb\n"
        f"Size: 2757856\nSHA256: {ONE}\n"
    )
    assert ["adduser", "libc6"] == [stanza["Package"] for stanza in parse_stanzas(text)]


@given(st.integers(1, 40))
def test_pieces_of_an_index_give_the_same_pins(size: int) -> None:
    """Wherever the file is cut, no paragraph is lost or read twice."""
    data = INDEX.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    texts = list(whole_paragraphs(pieces))
    assert INDEX == "".join(texts)
    assert [LIBC, ADDUSER] == [
        pin for text in texts for pin in pins_of_index(text, "bookworm", {ONE, TWO})
    ]
