"""What is learnt of a base from its layers, and what makes it fit for an image."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
import zstandard

from builder.core.base_facts import BaseFacts, is_wanted, read_facts
from builder.core.image_base import ImageBase
from builder.core.lock import DebPin
from builder.edge.image_layers import read_tree
from builder.errors import Refused
from tests.support.base_images import STATUS, dist_info, layer, libc, system
from tests.support.small_lock import AMD64


def facts(folder: Path, *layers: dict[str, str], **config: object) -> BaseFacts:
    """Read layers as they come from a registry."""
    paths = []
    for number, content in enumerate(layers):
        paths.append(folder / str(number))
        paths[-1].write_bytes(layer(content))
    return read_facts(read_tree(paths, is_wanted), config, AMD64)


def deb(name: str, version: str) -> DebPin:
    """Make up an extra package."""
    return DebPin(
        name=name,
        version=version,
        architecture="amd64",
        sha256="0" * 64,
        size=1,
        path=f"pool/main/{name[0]}/{name}/{name}.deb",
        suite="bookworm",
        source=name,
    )


def test_a_debian_base(tmp_path: Path) -> None:
    """Release, glibc by its own words, Python by its link, dpkg's status, Python packages."""
    found = facts(tmp_path, system(), dist_info("flashinfer-cubin", "0.6.13"))
    assert ("debian", "bookworm", "2.36") == (found.release, found.codename, found.glibc)
    assert {"/usr/bin": "3.11"} == found.pythons
    assert STATUS == found.status
    (cubin,) = found.distributions()
    assert ("flashinfer-cubin", "0.6.13") == (cubin.name, cubin.version)
    assert "the base image, /usr/lib/python3/dist-packages" == cubin.origin


def test_eggs_and_damaged_metadata(tmp_path: Path) -> None:
    """Old packages count; what names no package is left out."""
    folder = "usr/lib/python3/dist-packages"
    found = facts(
        tmp_path,
        {
            f"{folder}/six-1.16.0.egg-info": "Name: six\nVersion: 1.16.0\n",
            f"{folder}/old.egg-info/PKG-INFO": "Name: old\nVersion: 1\n",
            f"{folder}/bad.dist-info/METADATA": "no headers",
            f"{folder}/half.dist-info/METADATA": "Name: half\n",
        },
    )
    assert {("six", f"/{folder}"), ("old", f"/{folder}")} == {
        (one.name, one.origin.partition(", ")[2]) for one in found.distributions()
    }


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"usr/lib64/libc.so.6": libc("2.34")}, "2.34"),
        ({"lib64/libc.so.6": "->libc-2.28.so", "lib64/libc-2.28.so": libc("2.28")}, "2.28"),
        ({"usr/lib/i386-linux-gnu/libc.so.6": libc("2.31")}, ""),
        ({"lib/ld-musl-x86_64.so.1": "musl"}, ""),
    ],
)
def test_glibc_lies_where_the_loader_looks(
    tmp_path: Path, places: dict[str, str], expected: str
) -> None:
    """Other distributions' places; another machine's library and musl are none."""
    assert expected == facts(tmp_path, places).glibc


def test_the_python_that_path_finds_first(tmp_path: Path) -> None:
    """As python:3.13 has it: its own before Debian's, also where a .deb brings one."""
    own = {"usr/local/bin/python3": "->python3.13", "usr/local/bin/python3.13": "#!"}
    path = "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin"
    both = facts(tmp_path, {**system(), **own}, Env=[path])
    assert "3.13" == ImageBase(digest="", facts=both).python
    extra = (deb("python3-minimal", "3.11.2-1+b1"), deb("libc6", "2.36-9+deb12u10"))
    assert "3.13" == ImageBase(digest="", facts=both, debs=extra).python
    bare = facts(tmp_path, {"usr/lib/os-release": "ID=debian"}, Env=[path])
    assert ("", "") == (ImageBase(digest="", facts=bare).python, bare.glibc)
    made = ImageBase(digest="", facts=bare, debs=extra)
    assert ("3.11", "2.36") == (made.python, made.glibc)


def test_programs_of_base_and_packages(tmp_path: Path) -> None:
    """Found on the base's own PATH, or brought by a .deb."""
    found = facts(
        tmp_path, {"usr/local/cuda/bin/nvcc": "#!"}, Env=["PATH=/usr/local/cuda/bin:/usr/bin"]
    )
    made = ImageBase(digest="", facts=found, debs=(deb("g++", "4:12.2.0"),))
    assert {"nvcc", "c++"} == made.programs


def test_layers_plain_gzip_and_zstd(tmp_path: Path) -> None:
    """By their bytes, whatever the media type says; anything else is an error with its digest."""
    plain = gzip.decompress(layer({"etc/os-release": "ID=a\n"}))
    for data in (plain, gzip.compress(plain), zstandard.compress(plain)):
        (tmp_path / "layer").write_bytes(data)
        assert b"ID=a\n" == read_tree([tmp_path / "layer"], is_wanted).read("etc/os-release")
    for data in (b"no tar at all" * 99, gzip.compress(plain)[:-30], b"\x28\xb5\x2f\xfdxxxx"):
        (tmp_path / "layer").write_bytes(data)
        with pytest.raises(Refused, match="cannot be read"):
            read_tree([tmp_path / "layer"], is_wanted)


def test_a_tar_with_every_kind_of_member(tmp_path: Path) -> None:
    """Devices and pipes are there, and have no bytes."""
    path = tmp_path / "layer"
    with tarfile.open(path, "w") as tar:
        for name, kind in (("dev/null", tarfile.CHRTYPE), ("run/pipe", tarfile.FIFOTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type = kind
            tar.addfile(entry)
        folder = tarfile.TarInfo("./srv")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    tree = read_tree([path], is_wanted)
    assert {"dev", "dev/null", "run", "run/pipe", "srv"} == tree.nodes.keys()
