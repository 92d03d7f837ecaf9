"""vLLM's nightly index: its addresses, and its pages as records.

    <root>/nightly/                   folders, the commit, the time it was made; rolls
    <root>/nightly/vllm/              wheels without a suffix (the default variant)
    <root>/nightly/cu130/vllm/        a variant, or an alias of the default; may be left over
    <root>/<40 hex>/…                 the same of one commit; stays, and holds the wheels

Made by vLLM's `.buildkite/scripts/generate-nightly-index.py`: links relative with `%2B`, no hashes,
a `metadata.json` beside each page whose versions are not to be trusted; file names are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit, urlunsplit

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from builder.core.identity import commit_of
from builder.core.simple import Candidate, as_folder, file_of, parse_page, wheel_name
from builder.errors import NetworkError

ROLLING = "nightly"
"""Folder that shows the newest commit."""
METADATA = "metadata.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMMENT = re.compile(
    r"<!--\s*(?:Generated on (?P<when>[^()<>]+?)\s*\(\s*)?"
    r"commit (?P<commit>[0-9a-fA-F]{40})\s*\)?\s*-->"
)
_DIRTY = re.compile(r"d\d{8}")
_FOLDER = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+%-]*)/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyWheel:
    """One wheel that a page lists."""

    candidate: Candidate
    commit: str
    """Full commit whose folder holds it, else of the page; empty when neither says."""
    page_commit: str = ""
    """Commit the page says it is of; empty when it does not."""
    variant: str | None = None
    """Folder it is listed in (`cu129`; empty: the root); None in a folder without such folders."""
    page: str = ""
    """URL of the page."""

    @property
    def file(self) -> str:
        """File name, decoded."""
        return self.candidate.file

    @property
    def version(self) -> Version:
        """Version in the file name, which is the only right one."""
        return self.candidate.version

    @property
    def public(self) -> Version:
        """Version without commit and variant."""
        return Version(self.version.public)

    @property
    def short(self) -> str:
        """Abbreviated commit in the version; empty without one."""
        return commit_of(str(self.version))

    @property
    def build(self) -> tuple[int, str] | tuple[()]:
        """Build tag (PEP 427)."""
        return parse_wheel_filename(self.file)[2]

    @property
    def platform_tags(self) -> tuple[str, ...]:
        """As `manylinux_2_28_x86_64`, sorted."""
        return tuple(sorted({tag.platform for tag in parse_wheel_filename(self.file)[3]}))

    @property
    def label(self) -> str:
        """Variant in the version (`cu129`); empty for the default build."""
        parts = (self.version.local or "").split(".")
        named = [part for part in parts if part and not is_dirty(part)]
        return ".".join(part for part in named if part != f"g{self.short}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of the index."""

    path: str
    """Below the index's root, as it was asked for: `nightly/cu130/vllm/`."""
    url: str
    """Where the answer came from."""
    commit: str = ""
    """Full commit it says it is of."""
    generated: datetime | None = None
    """When it was made; with a time zone."""
    folders: tuple[str, ...] = ()
    """Folders it lists: variants and packages, sorted."""
    wheels: tuple[NightlyWheel, ...] = ()


def read_page(
    body: bytes, content_type: str, url: str, path: str, place: str, package: str
) -> Page:
    """Read a list of folders or of wheels; `url` is where the answer came from, after redirects.

    Raises NetworkError when it is no such page.
    """
    base = as_folder(url)
    found = parse_page(body, content_type, base, place, package)
    text = body.decode("utf-8", errors="replace")
    comment = _COMMENT.search(text)
    commit = comment["commit"].lower() if comment else ""
    return Page(
        path=path,
        url=base,
        commit=commit,
        generated=_time(comment["when"]) if comment and comment["when"] else None,
        folders=tuple(sorted(set(_folders(text, base)))),
        wheels=tuple(_wheel(one, path, base, commit) for one in found),
    )


def read_metadata(body: bytes, url: str, path: str, place: str, package: str) -> Page:
    """Read a `metadata.json`: file names and paths, nothing else of it is believed.

    Raises NetworkError when it is none.
    """
    try:
        rows = json.loads(body)
        found = [
            Candidate(file=file, url=_plain(urljoin(url, row["path"])), place=place)
            for row in rows
            if (file := wheel_name(row["filename"]))
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise NetworkError(
            f"this is no list of wheels: {error}",
            subject=url,
            action="check the address of the nightly index",
        ) from error
    wanted = canonicalize_name(package)
    wheels = tuple(_wheel(one, path, url, "") for one in found if one.name == wanted)
    return Page(path=path, url=url, wheels=wheels)


def flat_page(candidates: tuple[Candidate, ...], url: str) -> Page:
    """Take a plain folder of wheels for a page; nothing in it says which commit they are of."""
    wheels = tuple(NightlyWheel(candidate=one, commit="", page=url) for one in candidates)
    return Page(path="", url=url, wheels=wheels)


def folder(base: str, variant: str) -> str:
    """Path of the page that lists what a commit (or `nightly`) has of a variant."""
    return f"{base}/{variant}/" if variant else f"{base}/"


def package_folders(page: Page, package: str) -> list[str]:
    """Paths of the pages with a package's wheels that a list of folders names.

    Upstream takes a wheel with a build tag for a package of its own: `vllm-0.33.0-2-…` lies in
    `vllm-0-33-0/`, or with its dots.
    """
    known = re.compile(rf"{re.escape(package)}(?:-\d[\w.+%-]*)?")
    # Upstream does not quote these, and a bare `+` would lead nowhere.
    return [
        escaped(f"{page.path}{name}/") for name in page.folders if known.fullmatch(name.lower())
    ]


def is_dirty(text: str) -> bool:
    """Whether this part of a version (or folder) is the date of a tree with local changes."""
    return _DIRTY.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Whether this is a full commit, 40 hex digits in lower case."""
    return _COMMIT.fullmatch(text) is not None


def root_of(index: str) -> str:
    """Root of the index that an address leads into: without `nightly/…` or `<commit>/…`."""
    parts = index.rstrip("/").split("/")
    for number in range(len(parts) - 1, 0, -1):
        if parts[number] == ROLLING or is_commit(parts[number]):
            return "/".join(parts[:number])
    return "/".join(parts)


def commit_index(index: str, commit: str, variant: str) -> str:
    """Address of the simple index of one commit, which stays when `nightly` moves on."""
    return f"{root_of(index)}/{folder(commit, variant)}"


def escaped(url: str) -> str:
    """URL with `+` as `%2B` in its path: object stores take a bare one for a space."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.replace("+", "%2B")))


def _wheel(one: Candidate, path: str, page: str, commit: str) -> NightlyWheel:
    return NightlyWheel(
        candidate=one,
        commit=_commit_in(one.url) or commit,
        page_commit=commit,
        variant=_variant(path),
        page=page,
    )


def _commit_in(url: str) -> str:
    """Commit whose folder a URL leads into; the innermost one."""
    parts = urlsplit(url).path.split("/")[:-1]
    return next((part for part in reversed(parts) if is_commit(part)), "")


def _variant(path: str) -> str:
    """`nightly/cu129/vllm/` → `cu129`, `nightly/vllm/metadata.json` → nothing."""
    parts = path.removesuffix(METADATA).strip("/").split("/")
    return parts[1] if len(parts) > 2 else ""


def _plain(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "file") or not file_of(url):
        raise ValueError(f"not a wheel's address: {url[:200]}")
    return urlunsplit(parts._replace(fragment="", netloc=parts.netloc.rpartition("@")[2]))


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _folders(text: str, base: str) -> Iterator[str]:
    """Names of the folders directly below a page that it links to."""
    inside = base.rpartition("/")[0] + "/"
    for href in _Links.of(text):
        target = urljoin(base, href)
        match = _FOLDER.fullmatch(target.removeprefix(inside))
        if match and target.startswith(inside) and not target.endswith((".whl", ".html", ".json")):
            yield match[1]


class _Links(HTMLParser):
    """The href of each link."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]

    @classmethod
    def of(cls, text: str) -> list[str]:
        """Read a page."""
        links = cls()
        links.feed(text)
        links.close()
        return links.found
