"""Licences of .debs: what copyright files say, where they are, and nothing that they do not say."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from builder.core.deb_licences import copyright_path, deb_licences, spdx
from builder.edge.deb_licences import read_licences

FORMAT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
TINI = f"""{FORMAT}Upstream-Name: tini

Files: *
Copyright: 2015 Somebody
License: Expat

Files: debian/*
Copyright: 2016 Somebody else
License: GPL-2+ or Apache-2.0
 and its first lines, told here

License: Expat
 Permission is hereby granted

License: GPL-3
 A text that no file is under.
"""
PROSE = """This is the Debian package of a compiler.

It is under the GPL, in `/usr/share/common-licenses/GPL-3', and its manual
is under what /usr/share/common-licenses/GFDL-1.2. says.
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (TINI, ("GPL-2+ or Apache-2.0", "MIT")),
        (f"{FORMAT}License: BSD-3-clause\n", ("BSD-3-Clause",)),
        (PROSE, ("GFDL-1.2", "GPL-3")),
        ("Nobody says anything here.\n", ()),
        ("", ()),
    ],
)
def test_a_copyright_file_is_read(text: str, named: tuple[str, ...]) -> None:
    """Licences of files, not the texts of licences; of prose the texts that it points at."""
    assert named == deb_licences(text)


@pytest.mark.parametrize(
    ("short", "identifier"),
    [
        ("GPL-2", "GPL-2.0-only"),
        ("GPL-2+", "GPL-2.0-or-later"),
        ("LGPL-2.1+", "LGPL-2.1-or-later"),
        ("AGPL-3", "AGPL-3.0-only"),
        ("GFDL-1.3", "GFDL-1.3-only"),
        ("Expat", "MIT"),
        ("BSD-2-clause", "BSD-2-Clause"),
        ("GPL", "GPL"),
        ("GPL-3+ with Bison exception", "GPL-3+ with Bison exception"),
        ("public-domain", "public-domain"),
    ],
)
def test_a_short_name_is_an_identifier_where_it_means_one(short: str, identifier: str) -> None:
    """A name without a version, or with an exception, is left as it is."""
    assert identifier == spdx(short)


@pytest.mark.parametrize(
    ("package", "path"),
    [
        ("tini", "usr/share/doc/tini/copyright"),
        ("cpp-14", "usr/share/doc/gcc-14-base/copyright"),
        ("binutils-x86", "usr/share/doc/binutils-common/copyright"),
        ("perl-base", "usr/share/doc/perl/copyright"),
        ("absolute", "usr/share/doc/perl/copyright"),
        ("itself", "usr/share/doc/itself/copyright"),
    ],
)
def test_packages_of_one_source_share_a_file(package: str, path: str) -> None:
    """By links of folders, of several steps, or of the file; a circle ends."""
    doc = "usr/share/doc"
    links = {
        f"{doc}/cpp-14": "gcc-14-base",
        f"{doc}/binutils-x86": "libbinutils",
        f"{doc}/libbinutils": "binutils-common",
        f"{doc}/perl-base/copyright": "../perl/copyright",
        f"{doc}/absolute": "/usr/share/doc/perl",
        f"{doc}/itself": "itself",
    }
    assert path == copyright_path(package, links)


@pytest.mark.parametrize("prefix", ["", "./"])
def test_they_are_read_out_of_a_root_file_system(prefix: str, tmp_path: Path) -> None:
    """Of the packages that were asked for, once; what is damaged there is read anew."""
    base = tmp_path / "base.tar"
    with tarfile.open(base, "w") as archive:
        for name, text in {"tini": TINI, "libc6": PROSE, "bare": "nothing", "other": TINI}.items():
            member = tarfile.TarInfo(f"{prefix}usr/share/doc/{name}/copyright")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo(f"{prefix}usr/share/doc/libc-bin")
        link.type, link.linkname = tarfile.SYMTYPE, "libc6"
        archive.addfile(link)
    expected = {
        "tini": ("GPL-2+ or Apache-2.0", "MIT"),
        "libc6": ("GFDL-1.2", "GPL-3"),
        "libc-bin": ("GFDL-1.2", "GPL-3"),
    }
    kept, asked = tmp_path / "kept.json", ["tini", "libc6", "libc-bin", "bare", "absent"]
    assert expected == read_licences(base, asked, kept)
    base.rename(tmp_path / "away.tar")
    assert expected == read_licences(base, asked, kept)
    (tmp_path / "away.tar").rename(base)
    kept.write_text("[1]")
    assert expected == read_licences(base, asked, kept)
