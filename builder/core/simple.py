"""Pages of wheel indexes (PEP 503, 691, 700, 714) and find-links: links in, candidates out."""

from __future__ import annotations

import html
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.utils import (
    InvalidWheelFilename,
    NormalizedName,
    canonicalize_name,
    parse_wheel_filename,
)
from packaging.version import Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT, Link, RepositoryPage, UnexpectedRepoVersionWarning
from pypi_simple.errors import UnsupportedRepoVersionError

from builder.errors import NetworkError

ACCEPT = (
    "application/vnd.pypi.simple.v1+json, "
    "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)
"""What we ask an index for: JSON knows sizes, HTML is what the small ones have (PEP 691)."""
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
DEFAULT_GENERAL = PYPI_SIMPLE_ENDPOINT.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One wheel that some place offers."""

    file: str
    url: str
    """Absolute, as the place spells it, without fragment and credentials; or `file:`."""
    place: str
    """Who offers it, for messages."""
    sha256: str = ""
    """64 hex digits, or empty when the place does not say."""
    size: int | None = None
    metadata_sha256: str = ""
    """sha256 of its METADATA, where the place says (PEP 714); never the file's own."""
    requires_python: str = ""
    yanked: str | None = None
    """Reason of a yanked file (PEP 592), possibly empty; None when it is not."""

    @property
    def name(self) -> NormalizedName:
        """Normalised name of the package."""
        return parse_wheel_filename(self.file)[0]

    @property
    def version(self) -> Version:
        """Version in the file's name, local label included."""
        return parse_wheel_filename(self.file)[1]

    @property
    def local(self) -> bool:
        """Whether it lies on this machine."""
        return self.url.startswith("file:")


def parse_page(
    body: bytes,
    content_type: str,
    url: str,
    place: str,
    package: str | None = None,
    only: str = "",
) -> list[Candidate]:
    """Read the wheels that a page lists; `url` is where the answer came from, after redirects.

    With `package` only that project's files are kept, with `only` that one file (20 times quicker
    on pages of ten thousand files). Links whose file name is not a plain wheel
    name (a folder in it, say) are never candidates.

    Raises NetworkError when the page is not an index page.
    """
    message = Message()
    message["content-type"] = content_type or "text/html"
    kind = message.get_content_type()
    try:
        if kind in (JSON_TYPE, "application/json"):
            found = list(_json(body, url, place, only))
        elif kind in ("application/vnd.pypi.simple.v1+html", "text/html"):
            found = list(_html(body, url, place, message.get_content_charset()))
        else:
            raise ValueError(f"its type is {kind}")  # noqa: TRY301 - one report for all of them
    except (ValueError, TypeError, KeyError, AttributeError, UnsupportedRepoVersionError) as error:
        raise NetworkError(
            f"this is not a package index page: {error}",
            subject=url,
            action="check the address; it should be a simple index (PEP 503) or a find-links page",
        ) from error
    wanted = None if package is None else canonicalize_name(package)
    return [
        entry
        for entry in found
        if (wanted is None or entry.name == wanted) and only in ("", entry.file)
    ]


def wheel_name(text: str) -> str:
    """Return `text` when it is a wheel's file name and nothing else, or an empty string."""
    if not re.fullmatch(r"[A-Za-z0-9_.!+-]+\.whl", text):
        return ""
    try:
        parse_wheel_filename(text)
    except InvalidWheelFilename:
        return ""
    return text


def file_of(url: str) -> str:
    """File name of a wheel's URL, decoded once; empty when it is not a plain one."""
    return wheel_name(unquote(urlsplit(url).path.rpartition("/")[2]))


def wheel_version(file: str) -> str:
    """Version in a wheel's file name; empty for what is none."""
    return str(parse_wheel_filename(file)[1]) if wheel_name(file) else ""


def as_folder(url: str) -> str:
    """Add the slash of a directory page: without it relative links resolve one level too high."""
    parts = urlsplit(url)
    last = parts.path.rpartition("/")[2]
    # Versions have dots too; only a page's own suffix makes a page.
    if parts.query or not last or re.search(r"\.(html?|json)$", last):
        return url
    return urlunsplit(parts._replace(path=parts.path + "/"))


def package_page(index: str, package: str) -> str:
    """URL of one project's page on a simple index."""
    return f"{index.rstrip('/')}/{canonicalize_name(package)}/"


def render_page(candidates: Iterable[Candidate], fragments: dict[str, str]) -> bytes:
    """Write a page for resolvers: absolute links, each with a sha256 (of `fragments`, by file)."""
    rows = []
    for entry in sorted(candidates, key=lambda entry: (entry.file, entry.url)):
        attributes = f'href="{html.escape(entry.url)}#sha256={fragments[entry.file]}"'
        if entry.requires_python:
            attributes += f' data-requires-python="{html.escape(entry.requires_python)}"'
        if entry.yanked is not None:
            attributes += f' data-yanked="{html.escape(entry.yanked)}"'
        rows.append(f"<a {attributes}>{html.escape(entry.file)}</a><br>\n")
    head = '<!DOCTYPE html>\n<html><head><meta name="pypi:repository-version" content="1.0"></head>'
    return f"{head}<body>\n{''.join(rows)}</body></html>\n".encode()


def _json(body: bytes, url: str, place: str, only: str) -> Iterable[Candidate]:
    for entry in json.loads(body)["files"]:
        if only and entry["filename"] != only:
            continue
        file = wheel_name(str(entry["filename"]))
        yanked = entry.get("yanked", False)
        size = entry.get("size")
        if file:
            yield Candidate(
                file=file,
                url=_plain(urljoin(url, entry["url"])),
                place=place,
                sha256=_sha256(entry.get("hashes", {}).get("sha256")),
                size=size if isinstance(size, int) else None,
                metadata_sha256=_sha256(_metadata_hashes(entry).get("sha256")),
                requires_python=entry.get("requires-python") or "",
                yanked=yanked if isinstance(yanked, str) else "" if yanked else None,
            )


def _html(body: bytes, url: str, place: str, charset: str | None) -> Iterable[Candidate]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnexpectedRepoVersionWarning)
        page = RepositoryPage.from_html(body, url, charset)
    for link in page.links:
        file = file_of(link.url)
        yanked = link.get_str_attrib("data-yanked")
        if file:
            name, _, value = urlsplit(link.url).fragment.partition("=")
            yield Candidate(
                file=file,
                url=_plain(link.url),
                place=place,
                sha256=_sha256(value) if name == "sha256" else "",
                metadata_sha256=_metadata_attribute(link),
                requires_python=link.get_str_attrib("data-requires-python") or "",
                yanked=yanked,
            )


def _metadata_hashes(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hashes of a file's METADATA; mirrors write the older key of PEP 658 as well."""
    for key in ("core-metadata", "dist-info-metadata", "data-dist-info-metadata"):
        if isinstance(found := entry.get(key), Mapping):
            return found
    return {}


def _metadata_attribute(link: Link) -> str:
    for key in ("data-core-metadata", "data-dist-info-metadata"):
        kind, _, value = (link.get_str_attrib(key) or "").partition("=")
        if kind == "sha256":
            return _sha256(value)
    return ""


def _plain(url: str) -> str:
    """Without fragment and without credentials; these are kept by host."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "file"):
        raise ValueError(f"a link of the kind {parts.scheme!r}: {url[:200]}")
    return urlunsplit(parts._replace(fragment="", netloc=parts.netloc.rpartition("@")[2]))


def _sha256(value: object) -> str:
    text = str(value or "").lower()
    return text if re.fullmatch(r"[0-9a-f]{64}", text) else ""
