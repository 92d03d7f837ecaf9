"""Wheel indexes, find-links pages and folders: what each offers of one package.

Order and meaning are decided elsewhere; this only reads. `file:` trees and folders are indexes too.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
from packaging.utils import canonicalize_name

from builder.core import resolve
from builder.core.indexes import Place, place_of
from builder.core.lock import VllmTable
from builder.core.nightly import commit_index, is_commit
from builder.core.settings import Settings
from builder.core.simple import (
    ACCEPT,
    Candidate,
    as_folder,
    package_page,
    parse_page,
    render_page,
    wheel_name,
)
from builder.edge import files
from builder.edge.download import get
from builder.edge.userconfig import UserConfig
from builder.errors import BadInput, NotOffered

NIGHTLY = "vllm"
"""Name of the index that rolls."""


class Indexes:
    """All places that wheels may come from; flat pages are read once."""

    def __init__(
        self,
        client: httpx.Client,
        config: UserConfig,
        settings: Settings,
        nightlies: Iterable[VllmTable] = (),
    ) -> None:
        self.client = client
        self.nightlies = tuple(nightlies)
        self.config = config
        self._settings = settings
        self._pages: dict[str, list[Candidate]] = {}
        self._lock = threading.Lock()

    def place(self, index: str) -> Place:
        """Where an index is; raises SpecError for an unknown name."""
        return place_of(index, self._settings.indexes, self.config.general.value)

    @staticmethod
    def below(place: Place, path: str) -> Place:
        """Return what lies at `path` below an index; of a flat folder the folder itself."""
        if not path:
            return place
        folder = local_path(place.where)
        if folder is None:
            return replace(place, where=f"{place.where.rstrip('/')}/{path}")
        inside = folder / path
        return replace(place, where=str(inside)) if inside.is_dir() else place

    def homes(self, index: str) -> list[Place]:
        """Where files of an index are: for `vllm` first in the folders of the locked commits.

        `nightly/` shows the newest commit alone; what is locked stays in the commit's own (C08).
        """
        home = self.place(index)
        variants = {
            (vllm.commit, variant)
            for vllm in self.nightlies
            if index == NIGHTLY and is_commit(vllm.commit)
            for variant in ("", vllm.variant)
        }
        return [
            *(
                replace(home, where=commit_index(home.where, *pair), optional=True)
                for pair in sorted(variants)
            ),
            home,
        ]

    @property
    def find_links(self) -> tuple[Place, ...]:
        """Folders and pages that may hold any file."""
        own = [
            Place(name="find_links in config.toml", where=where, flat=True, optional=True)
            for where in self._settings.find_links
        ]
        theirs = [
            Place(name=f"find-links of {entry.origin}", where=entry.value, flat=True, optional=True)
            for entry in self.config.find_links
        ]
        return (*own, *theirs)

    @property
    def extra(self) -> tuple[Place, ...]:
        """Further indexes, to find a file by its sha256 only."""
        return tuple(
            Place(name=f"extra index of {entry.origin}", where=entry.value, optional=True)
            for entry in self.config.extra_indexes
        )

    def offers(self, place: Place, package: str, only: str = "") -> list[Candidate]:
        """Wheels of one package at one place, as it lists them; none when it does not know it.

        `only` is the one file that is asked about.

        Raises NetworkError when the place is out of reach, BadInput when its folder is not there.
        """
        path = local_path(place.where)
        if path is not None:
            return _local(path, place, package)
        if not place.flat:
            try:
                return self._read(package_page(place.where, package), place, package, only)
            except NotOffered as error:
                # Object stores say 403 for what they do not have.
                if error.status in (401, 407):
                    raise
        try:
            rows = self._flat(place)
        except NotOffered as error:
            if error.status in (401, 407):
                raise
            return []
        return [row for row in rows if row.name == canonicalize_name(package)]

    def resolver_url(self, place: Place, snapshots: Path) -> str:
        """URL of the general index for a resolver; a flat folder or page gets a tree of pages."""
        path = local_path(place.where)
        if path is None:
            return place.where
        if not path.is_dir():
            raise _no_folder(place)
        if any(path.glob("*/index.html")):
            return path.as_uri()
        groups: dict[str, list[Candidate]] = {}
        for row in _local(path, place, None):
            groups.setdefault(row.name, []).append(row)
        return write_pages(groups, snapshots)

    def _flat(self, place: Place) -> list[Candidate]:
        with self._lock:
            if place.where not in self._pages:
                self._pages[place.where] = self._read(as_folder(place.where), place, None)
            return self._pages[place.where]

    def _read(self, url: str, place: Place, package: str | None, only: str = "") -> list[Candidate]:
        response = get(self.client, url, {"Accept": ACCEPT})
        kind = response.headers.get("Content-Type", "")
        return parse_page(response.content, kind, str(response.url), str(place), package, only)


def local_path(where: str) -> Path | None:
    """Path of a place on this machine; None for one on the network."""
    if where.startswith("file:"):
        return Path(unquote(urlsplit(where).path))
    return None if "://" in where else Path(where).expanduser()


def write_pages(groups: Mapping[str, Iterable[Candidate]], folder: Path) -> str:
    """Write simple pages for a resolver, below a name that is a function of their content.

    Files without a sha256 get a stand-in (see `resolve.placeholder`). Returns the tree's URL.
    """
    pages = {}
    for name, group in sorted(groups.items()):
        rows = list(group)
        fragments = {row.file: row.sha256 or resolve.placeholder(row) for row in rows}
        pages[name] = render_page(rows, fragments)
    digest = hashlib.sha256(b"\0".join(name.encode() + page for name, page in pages.items()))
    root = folder.absolute() / digest.hexdigest()[:16]
    for name, page in pages.items():
        files.write(root / name / "index.html", page)
    return root.as_uri()


def _local(path: Path, place: Place, package: str | None) -> list[Candidate]:
    if path.suffix in (".html", ".htm") and path.is_file():
        return parse_page(path.read_bytes(), "text/html", path.as_uri(), str(place), package)
    if path.is_file():
        return _wheels([path], place, package)
    if not path.is_dir():
        if place.optional:
            return []
        raise _no_folder(place)
    if not place.flat and package is not None:
        tree = path / canonicalize_name(package)
        page = tree / "index.html"
        if page.is_file():
            base = tree.as_uri() + "/"
            return parse_page(page.read_bytes(), "text/html", base, str(place), package)
        if tree.is_dir():
            return _wheels(tree.iterdir(), place, package)
    return _wheels(path.iterdir(), place, package)


def _wheels(paths: Iterable[Path], place: Place, package: str | None) -> list[Candidate]:
    rows = [
        Candidate(
            file=path.name, url=path.absolute().as_uri(), place=str(place), size=path.stat().st_size
        )
        for path in sorted(paths)
        if path.suffix == ".whl" and wheel_name(path.name) and path.is_file()
    ]
    return [row for row in rows if package is None or row.name == canonicalize_name(package)]


def _no_folder(place: Place) -> BadInput:
    return BadInput(
        "there is no such folder", subject=str(place), action=f"correct {place.name}, or make it"
    )
