"""vLLM's wheel bucket on loopback: upstream's pages to the letter, CloudFront's and S3's manners.

Pages as vLLM's `.buildkite/scripts/generate-nightly-index.py` writes them, its faults included:
nothing is ever deleted, versions of variants are cut, build tags are misread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote, unquote_plus

from builder.core.nightly import METADATA, Page, read_metadata, read_page
from tests.support.index import serve
from tests.support.wheels import VLLM_VERSION, Wheel, make_wheel

PAGE = """<!DOCTYPE html>
<html>
  <!-- {comment} -->
  <meta name="pypi:repository-version" content="1.0">
  <body>
{items}
  </body>
</html>
"""
_NAME = re.compile(
    r"^(?P<package_name>.+)-(?P<version>[^-]+?)(-(?P<build_tag>[^-]+))?"
    r"-(?P<python_tag>[^-]+)-(?P<abi_tag>[^-]+)-(?P<platform_tag>[^-]+)\.whl$"
)
NIGHT = datetime(2026, 11, 30, 3, 20, 11, 250317, tzinfo=UTC)
"""When pages are made unless a test says otherwise."""


def sha(short: str) -> str:
    """Make a full commit that begins with some hex digits."""
    return short.ljust(40, "0")


def nightly(
    version: str,
    *,
    arch: str = "x86_64",
    commit: str = "",
    build: str = "",
    glibc: str = "2_28",
    metadata_version: str = "",
    requires: Sequence[str] = ("torch==2.14.0", "flashinfer-python==0.7.2.post1"),
    padding: int = 0,
) -> Wheel:
    """Make a dummy vLLM; `commit` is what `_version.py` says, else what the version does."""
    inside = re.search(r"\+g([0-9a-f]+)", version)
    said = commit or (inside[1] if inside else "")
    tag = f"cp38-abi3-manylinux_{glibc}_{arch}"
    return make_wheel(
        "vllm",
        version,
        requires=requires,
        requires_python=">=3.11,<3.15",
        licence="Apache-2.0",
        tag=f"{build}-{tag}" if build else tag,
        metadata_version=metadata_version,
        contents={"vllm/_version.py": VLLM_VERSION.format(commit=said)},
        padding=padding,
    )


def both(version: str, **options: str) -> list[Wheel]:
    """Make the wheels of both machines."""
    return [nightly(version, arch=arch, **options) for arch in ("x86_64", "aarch64")]  # type: ignore[arg-type]


@dataclass(slots=True)
class Bucket:
    """Objects by key, as S3 has them."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def upload(self, commit: str, *wheels: Wheel) -> None:
        """Put wheels into the folder of a commit."""
        self.objects |= {f"{commit}/{wheel.file}": wheel.data for wheel in wheels}

    def publish(
        self,
        commit: str,
        *wheels: Wheel,
        when: datetime = NIGHT,
        alias: str = "cu130",
        rolling: bool = True,
    ) -> None:
        """Upload, and write the pages of the commit; with `rolling` also those of `nightly`."""
        self.upload(commit, *wheels)
        for base in (commit, "nightly") if rolling else (commit,):
            self.write_pages(base, commit, when, alias)

    def write_pages(self, base: str, commit: str, when: datetime, alias: str) -> None:
        """Do what upstream's script and `aws s3 cp --recursive` do."""
        rows = [
            _parsed(key.rpartition("/")[2])
            for key in sorted(self.objects)
            if re.fullmatch(rf"{commit}/[^/]+\.whl", key)
        ]
        groups: dict[str, list[dict[str, str | None]]] = {}
        for row in rows:
            groups.setdefault(row["variant"] or "", []).append(row)
        if "" in groups and alias:
            if alias in groups:
                raise ValueError(f"Alias variant name '{alias}' already exists among wheel files.")
            groups[alias] = groups[""]
        comment = f"Generated on {when.isoformat()} (commit {commit})"
        top = {name for name in groups if name} | _packages(groups.get("", []))
        for variant, group in groups.items():
            place = f"{base}/{variant}" if variant else base
            if variant:
                self._list(place, sorted(_packages(group)), comment)
            for package in _packages(group):
                self._package(f"{place}/{package}", commit, [*_of(group, package)])
        self._list(base, sorted(top), comment)

    def _list(self, place: str, names: Iterable[str], comment: str) -> None:
        items = "\n".join(f'    <a href="{name}/">{name}/</a><br/>' for name in names)
        self.objects[f"{place}/index.html"] = PAGE.format(comment=comment, items=items).encode()

    def _package(self, place: str, commit: str, rows: list[dict[str, str | None]]) -> None:
        up = "../" * (place.count("/") + 1)
        paths = [quote(f"{up}{commit}/{row['filename']}", safe=":%/") for row in rows]
        items = "\n".join(
            f'    <a href="{path}">{row["filename"]}</a><br/>'
            for path, row in zip(paths, rows, strict=True)
        )
        page = PAGE.format(comment=f"commit {commit}", items=items)
        self.objects[f"{place}/index.html"] = page.encode()
        listed = [{**row, "path": path} for path, row in zip(paths, rows, strict=True)]
        self.objects[f"{place}/{METADATA}"] = json.dumps(listed, indent=2).encode()

    def get(self, path: str) -> bytes | None:
        """Answer as CloudFront and S3 do: `path` without its first slash, still encoded."""
        if path.endswith("/"):
            path += "index.html"
        elif "." not in path.rpartition("/")[2]:
            path += "/index.html"
        # S3 takes a bare `+` for a space.
        return self.objects.get(unquote_plus(path))

    def page(self, path: str, package: str = "vllm") -> Page | None:
        """Read one page without a network."""
        body = self.get(path)
        if body is None:
            return None
        url = f"https://wheels.example/{path}"
        if path.endswith(METADATA):
            return read_metadata(body, url, path, "the index", package)
        return read_page(body, "text/html", url, path, "the index", package)


def _parsed(file: str) -> dict[str, str | None]:
    """Misread a file name as upstream does."""
    match = _NAME.match(file)
    assert match is not None, file
    version, variant = match["version"], None
    if "dev" in version:
        after = version.split("dev")[-1]
        if "." in after:
            variant = after.split(".")[-1]
            version = version.removesuffix("." + variant)
    elif "+" in version:
        version, variant = version.split("+")
    package = match["package_name"].replace(".", "-")
    parts = {**match.groupdict(), "package_name": package, "version": version}
    return {**parts, "variant": variant, "filename": file}


def _packages(rows: Iterable[dict[str, str | None]]) -> set[str]:
    return {str(row["package_name"]) for row in rows}


def _of(rows: Iterable[dict[str, str | None]], package: str) -> Iterator[dict[str, str | None]]:
    return (row for row in rows if row["package_name"] == package)


@dataclass(slots=True)
class NightlyServer:
    """The bucket behind HTTP, its switches, and what it was asked."""

    bucket: Bucket
    host: str = ""
    ranges: bool = True
    missing: int = 403
    """Status for what is not there; S3 says 403 to whoever may not list."""
    moved: bool = False
    """Everything below `/old/` answers with a redirect to the same path without it."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Path, Range header."""
    sent: int = 0
    """Bytes of bodies."""

    @property
    def url(self) -> str:
        """Root of the index."""
        return f"http://{self.host}"

    @property
    def pages(self) -> list[str]:
        """Paths of the pages that were asked for."""
        return [path for path, _ in self.requests if not path.endswith(".whl")]

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path = handler.path.partition("?")[0]
        wanted = handler.headers.get("Range", "")
        self.requests.append((path, wanted))
        if self.moved and path.startswith("/old/"):
            self._send(handler, 301, b"", Location=path.removeprefix("/old"))
            return
        body = self.bucket.get(path.removeprefix("/"))
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
        if body is None:
            self._send(handler, self.missing, b"<Code>NoSuchKey</Code>")
        elif span is None or not self.ranges:
            kind = "text/html" if not path.endswith((".whl", ".json")) else "binary/octet-stream"
            more = {"Accept-Ranges": "bytes"} if self.ranges else {}
            self._send(handler, 200, body, **{"Content-Type": kind, **more})
        else:
            first = int(span[1]) if span[1] else max(0, len(body) - int(span[2]))
            last = min(int(span[2]), len(body) - 1) if span[1] and span[2] else len(body) - 1
            where = f"bytes {first}-{last}/{len(body)}"
            self._send(handler, 206, body[first : last + 1], **{"Content-Range": where})

    def _send(
        self, handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str
    ) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
            self.sent += len(body)


@contextmanager
def nightly_server(bucket: Bucket) -> Iterator[NightlyServer]:
    """Serve a bucket."""
    server = NightlyServer(bucket)
    with serve(server.respond) as host:
        server.host = host
        yield server


@contextmanager
def fake_forge(
    commits: Sequence[tuple[str, datetime]], tags: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Serve a project's commits, newest first, as GitHub's REST interface does; yields its address.

    `tags`: name → full commit.

    Of one commit by abbreviation it says 422 when it knows none or several.
    """

    def row(commit: tuple[str, datetime]) -> dict[str, object]:
        moment = {"name": "x", "date": commit[1].isoformat().replace("+00:00", "Z")}
        inner = {"message": "Title\n\nBody", "author": moment, "committer": moment}
        return {"sha": commit[0], "commit": inner, "parents": []}

    def respond(handler: BaseHTTPRequestHandler) -> None:
        path, _, query = handler.path.partition("?")
        status, answer = 404, json.dumps({"message": "Not Found"})
        if path == "/repos/o/n/commits":
            count = int(query.removeprefix("per_page="))
            status, answer = 200, json.dumps([row(one) for one in commits[:count]])
        elif match := re.fullmatch(r"/repos/o/n/commits/([0-9a-f]+)", path):
            found = [one for one in commits if one[0].startswith(match[1])]
            if len(found) == 1:
                status, answer = 200, json.dumps(row(found[0]))
            else:
                status, answer = 422, json.dumps({"message": "No commit found for SHA"})
        elif path.startswith("/repos/o/n/commits/tags/"):
            named = (tags or {}).get(path.rpartition("/")[2], "")
            status, answer = 422, json.dumps({"message": "No commit found for SHA"})
            if named:
                status, answer = 200, json.dumps(row((named, NIGHT)))
        body = answer.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with serve(respond) as host:
        yield f"http://{host}/repos/o/n"
