"""What a base image says of itself: its release, glibc, Python, packages; read from its layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.parser import HeaderParser

from pydantic import BaseModel, ConfigDict

from builder.core.distribution import Distribution, of_metadata
from builder.core.image_tree import ImageTree
from builder.core.target import MACHINES
from builder.errors import BadInput

VERSION = 1
"""Raised whenever other things are read from the same bytes."""

_METADATA = re.compile(r".*\.dist-info/METADATA|.*\.egg-info(/PKG-INFO)?")
_DPKG = "var/lib/dpkg/status"
_LIBC = re.compile(r"(.*/)?libc(\.so\.6|-2\.\d+\.so)")
_WANTED = re.compile(rf"(usr/lib|etc)/os-release|{_DPKG}|{_METADATA.pattern}|{_LIBC.pattern}")
_GLIBC = re.compile(rb"GNU C Library \(.{0,200}\) \w+ release version (\d+\.\d+)")
_PYTHON = re.compile(r"python(3\.\d+)")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What a container gets whose image sets no PATH (runc, moby)."""
_PROGRAMS = ("c++", "ninja", "nvcc")
OURS = ("opt/venv", "opt/nightlock")
"""Folders that our own layers fill."""


class Installed(BaseModel):
    """One Python package that lies in the base."""

    model_config = ConfigDict(frozen=True)

    folder: str
    """The folder it is installed in, as `/usr/lib/python3/dist-packages`."""
    metadata: str
    """Headers of its METADATA."""


class BaseFacts(BaseModel):
    """All that a lock must know of one base image."""

    model_config = ConfigDict(frozen=True)

    release: str
    """ID of os-release, as `debian`."""
    codename: str
    """VERSION_CODENAME of os-release, as `trixie`."""
    glibc: str
    """As `2.41`; empty when there is none (musl, or nothing at all)."""
    pythons: dict[str, str]
    """Folder of PATH, in its order → minor version of the `python3` there; empty: unknown."""
    programs: tuple[str, ...]
    """Programs on PATH, of those that FlashInfer's compilation wants."""
    status: str
    """dpkg's status file; empty where the base has no dpkg."""
    installed: tuple[Installed, ...]
    variables: dict[str, str]
    """Environment of its config."""
    triggers: tuple[str, ...]
    """ONBUILD instructions of its config."""
    taken: tuple[str, ...]
    """Folders of ours that it holds already."""

    def distributions(self) -> tuple[Distribution, ...]:
        """Its Python packages, as the companion rules take them; unreadable ones left out."""
        found = []
        for one in self.installed:
            try:
                found.append(of_metadata(one.metadata, origin=f"the base image, {one.folder}"))
            except BadInput:
                continue
        return tuple(found)


def is_wanted(path: str) -> bool:
    """Whether the bytes of a path are needed."""
    return _WANTED.fullmatch(path) is not None


def read_facts(tree: ImageTree, config: Mapping[str, object], platform: str) -> BaseFacts:
    """Read a base whose wanted files are in `tree`; `config` is the config's inner `config`."""
    variables = _variables(config.get("Env"))
    folders = [part.strip("/") for part in variables.get("PATH", _PATH).split(":") if part]
    release = _os_release(tree)
    triggers = config.get("OnBuild")
    return BaseFacts(
        release=release.get("ID", ""),
        codename=release.get("VERSION_CODENAME", ""),
        glibc=_glibc(tree, MACHINES[platform]),
        pythons={
            f"/{folder}": match[1] if (match := _PYTHON.fullmatch(name)) else ""
            for folder in folders
            if (name := tree.resolve(f"{folder}/python3").rpartition("/")[2])
        },
        programs=tuple(
            name for name in _PROGRAMS if any(tree.resolve(f"{one}/{name}") for one in folders)
        ),
        status=tree.read(_DPKG).decode(errors="replace"),
        installed=tuple(
            Installed(folder="/" + re.sub(r"/?[^/]*\.(dist|egg)-info.*", "", path), metadata=text)
            for path, data in tree.matching(_METADATA)
            if (text := _headers(data))
        ),
        variables=variables,
        triggers=tuple(map(str, triggers)) if isinstance(triggers, list) else (),
        taken=tuple(f"/{folder}" for folder in OURS if tree.resolve(folder)),
    )


def _variables(given: object) -> dict[str, str]:
    rows = [str(row).partition("=") for row in given] if isinstance(given, list) else []
    return {name: value for name, equals, value in rows if equals}


def _os_release(tree: ImageTree) -> dict[str, str]:
    """Read os-release(5): values may be quoted."""
    text = tree.read("etc/os-release") or tree.read("usr/lib/os-release")
    rows = (line.partition("=") for line in text.decode(errors="replace").splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, equals, value in rows if equals}


def _glibc(tree: ImageTree, machine: str) -> str:
    """Read the version that the C library itself says, where the loader finds it."""
    triplet = f"{machine}-linux-gnu"
    places = (f"usr/lib/{triplet}", f"lib/{triplet}", "usr/lib64", "lib64", "usr/lib", "lib")
    for place in places:
        if match := _GLIBC.search(tree.read(f"{place}/libc.so.6")):
            return match[1].decode()
    return ""


def _headers(data: bytes) -> str:
    """Keep what the rules read; descriptions are long."""
    message = HeaderParser().parsestr(data.decode(errors="replace"))
    names = ("Name", "Version", "Requires-Python", "Requires-Dist")
    rows = [f"{name}: {value}" for name in names for value in message.get_all(name) or ()]
    return "".join(re.sub(r"\s*\n\s*", " ", row) + "\n" for row in rows)
