"""Tree: files with their facts, and the packages that own them, wherever both came from.

A wheel is a site directory called by its file name; an image has its real ones. So one path of the
tree is one file, and every rule is written once.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from builder.core.audit.file import FileFacts
from builder.core.audit.layer import Image
from builder.core.audit.record import Row, parse_record
from builder.core.contents import Contents, contents, installed_path
from builder.core.distribution import Content, Distribution, of_metadata
from builder.core.labels import BASE, LOCK_DIGEST
from builder.core.wheel import VERSION_FILE, commit_in, cuda_in
from builder.errors import BadInput

Kind = Literal["lock", "wheels", "image"]
_INFO = re.compile(r"(?P<site>.+)/(?P<info>[^/]+\.dist-info)/METADATA")


@dataclass(frozen=True, kw_only=True)
class Package:
    """One package in a tree."""

    distribution: Distribution
    site: str
    """Its site directory, a path of the tree; of a wheel, its file name."""
    info: str
    """Name of its dist-info folder."""
    rows: tuple[Row, ...]
    """RECORD; empty where it has none, as packages of Debian."""
    entry_points: str = ""

    @property
    def name(self) -> str:
        """Normalised (PEP 503)."""
        return self.distribution.name

    @property
    def is_wheel(self) -> bool:
        """Whether it is not installed yet."""
        return bool(self.distribution.file)

    @cached_property
    def paths(self) -> dict[str, Row]:
        """Path in the tree → its row."""
        return {self.path_of(row.path): row for row in self.rows}

    def path_of(self, recorded: str) -> str:
        """Translate a path of RECORD into one of the tree."""
        return posixpath.normpath(posixpath.join("/" + self.site, recorded)).lstrip("/")

    def spelled(self, path: str) -> str:
        """Spell a path of the tree as it is below the site directory, installed or not."""
        inside = path.removeprefix(self.site + "/")
        return installed_path(inside) if self.is_wheel else inside

    @cached_property
    def contents(self) -> Contents:
        """What it fills where, by RECORD; two packages compare by it."""
        if self.is_wheel:
            rows = [(row.path, 0, 0) for row in self.rows]
            marks = {installed_path(row.path): row.sha256 for row in self.rows}
            return tuple(
                (path, marks.get(path, mark)) for path, mark in contents(rows, self.entry_points)
            )
        return tuple(sorted((path, row.sha256) for path, row in self.paths.items()))


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Everything that was read."""

    kind: Kind
    subject: str
    """What a person called it."""
    files: Mapping[str, FileFacts]
    """Path → facts; no leading slash."""
    packages: tuple[Package, ...]
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Path → bytes of the few files whose text the rules want (`file.is_kept`)."""
    image: Image | None = None
    """Of an image: its layers and its config."""

    def text(self, path: str) -> str:
        """Text of a kept file; empty where there is none."""
        return self.texts.get(path, b"").decode(errors="replace")

    @cached_property
    def owners(self) -> dict[str, Package]:
        """Path → the package whose RECORD names it; of several, the last by name."""
        return {path: package for package in self.packages for path in package.paths}

    @cached_property
    def site(self) -> str:
        """The site directory that holds most packages; empty where there is none."""
        sites = [package.site for package in self.packages if package.rows]
        return max(sorted(set(sites)), key=sites.count, default="")

    @cached_property
    def environment(self) -> str:
        """Folder of the virtual environment around it, as `opt/venv`."""
        return re.sub(r"/lib/python3(?:\.\d+)?/(?:site|dist)-packages$", "", self.site)

    @cached_property
    def base_layers(self) -> int:
        """How many layers are the base of an image that nightlock built; 0: nobody knows."""
        if self.image is None or LOCK_DIGEST not in self.image.labels:
            return 0
        if BASE in self.image.labels:
            return 1
        start = f"{self.environment}/"
        return next(
            (
                number
                for number, layer in enumerate(self.image.layers)
                if any(path.startswith(start) for path in layer.files)
            ),
            0,
        )

    @cached_property
    def imported(self) -> tuple[Package, ...]:
        """Packages that its Python finds: an environment of its own hides the system's."""
        alone = "include-system-site-packages = true"
        settings = self.text(f"{self.environment}/pyvenv.cfg")
        if self.kind == "image" and settings and alone not in settings:
            return tuple(one for one in self.packages if one.site == self.site)
        return self.packages


def grow(
    kind: Kind,
    subject: str,
    files: Mapping[str, FileFacts],
    texts: Mapping[str, bytes],
    *,
    indexes: Mapping[str, str] | None = None,
    image: Image | None = None,
) -> Tree:
    """Make a tree of files: find the packages, and measure what the rules ask of each.

    `indexes`: wheel file → name of the index it came from, where that is known.

    Raises BadInput when a METADATA names no package.
    """
    found: list[Package] = []
    for path in sorted(texts):
        match = _INFO.fullmatch(path)
        if match is not None and (kind == "image" or "/" not in match["site"]):
            found.append(_package(kind, match["site"], match["info"], files, texts, indexes or {}))
    return Tree(
        kind=kind,
        subject=subject,
        files=files,
        packages=_installed(found),
        texts=texts,
        image=image,
    )


def _installed(found: Sequence[Package]) -> tuple[Package, ...]:
    """Leave out what other packages carry inside themselves, as setuptools does."""
    carried = {
        path
        for package in found
        for path in package.paths
        if path.endswith(".dist-info/METADATA")
        and posixpath.dirname(posixpath.dirname(path)) != package.site
    }
    return tuple(
        package for package in found if f"{package.site}/{package.info}/METADATA" not in carried
    )


def _package(
    kind: Kind,
    site: str,
    info: str,
    files: Mapping[str, FileFacts],
    texts: Mapping[str, bytes],
    indexes: Mapping[str, str],
) -> Package:
    def text(name: str) -> str:
        return texts.get(f"{site}/{name}", b"").decode(errors="replace")

    wheel = "" if kind == "image" else site
    try:
        named = of_metadata(
            text(f"{info}/METADATA"),
            file=wheel,
            index=indexes.get(wheel, ""),
            origin=f"/{site}" if kind == "image" else "",
        )
    except BadInput as error:
        raise BadInput(error.what, subject=f"{site}/{info}/METADATA", action=error.action) from None
    package = Package(
        distribution=named,
        site=site,
        info=info,
        rows=parse_record(text(f"{info}/RECORD")),
        entry_points=text(f"{info}/entry_points.txt"),
    )
    content = _content(package, files, text)
    return replace(package, distribution=replace(named, content=content))


def _content(
    package: Package, files: Mapping[str, FileFacts], text: Callable[[str], str]
) -> Content:
    """Measure a package: its libraries, the glibc it needs, the CUDA and commit it names."""
    users: dict[str, str] = {}
    floor, floor_user = "0", ""
    measured = False
    for path in package.paths:
        facts = files.get(path)
        if facts is None or facts.elf is None:
            continue
        measured = True
        for library in facts.elf.needed:
            users.setdefault(library, package.spelled(path))
        if _glibc(facts.elf.glibc) > _glibc(floor):
            floor, floor_user = facts.elf.glibc, package.spelled(path)
    return Content(
        cuda=cuda_in(package.name, text),
        libraries=tuple(sorted(users)) if measured else None,
        users=tuple(sorted(users.items())),
        glibc=floor if measured else None,
        glibc_user=floor_user,
        commit=commit_in(text(VERSION_FILE)) or None,
    )


def _glibc(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
