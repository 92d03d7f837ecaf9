"""vLLM's nightly index, read over HTTP or from a folder that mirrors it.

What to read, and what it means, is decided in `core/discovery.py`; this reads it, several pages at
once, and looks into the chosen wheels by range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import httpx

from builder.core.discovery import (
    Discovery,
    Pages,
    Query,
    channel_age,
    channel_pages,
    conclude,
    known_commits,
    next_pages,
)
from builder.core.finding import Finding
from builder.core.history import History, full_commits, only_commit
from builder.core.nightly import (
    METADATA,
    NightlyWheel,
    Page,
    escaped,
    flat_page,
    read_metadata,
    read_page,
    root_of,
)
from builder.core.nightly_set import Rules, Skip, Want, check_wheel
from builder.core.simple import Candidate, wheel_name
from builder.core.wheel import WheelFacts
from builder.edge.download import get
from builder.edge.history import Forge
from builder.edge.index import local_path
from builder.edge.pool import Stop, each
from builder.edge.wheels import WheelReader
from builder.errors import NotOffered, Refused

_ACCEPT = {"Accept": "text/html, application/json;q=0.5"}
"""The commit stands in a comment, which only HTML has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyIndex:
    """The index: where it is, and how it is read."""

    client: httpx.Client
    index: str
    """Address or folder of the index `vllm`, with or without `nightly/…` at its end."""
    package: str = "vllm"
    threads: int = 8

    @property
    def place(self) -> str:
        """For messages."""
        return f"the nightly index {self.root}"

    @property
    def root(self) -> str:
        """What holds `nightly/` and the folders of commits."""
        return root_of(self.index)

    def read(self, path: str) -> Page | None:
        """Read one page, `path` below the root; None when there is none.

        Raises NetworkError when the index is out of reach, NotOffered when it wants credentials.
        """
        folder = local_path(self.root)
        if folder is not None:
            return self._open(folder, path)
        try:
            response = get(self.client, f"{self.root}/{path}", _ACCEPT)
        except NotOffered as error:
            # Object stores say 403 for what they do not have.
            if error.status in (401, 407):
                raise
            return None
        return self._page(
            response.content, response.headers.get("Content-Type", ""), str(response.url), path
        )

    def read_all(self, query: Query, pages: Pages) -> Pages:
        """Read all that is needed to decide, on top of `pages`."""
        found = dict(pages)
        while todo := next_pages(query, found):
            read = each(lambda path, _: self.read(path), todo, threads=self.threads)
            found |= dict(zip(todo, read, strict=True))
        return found

    def flat(self) -> Page | None:
        """List a folder that has wheels beside each other instead of upstream's tree."""
        folder = local_path(self.root)
        if folder is None or not folder.is_dir():
            return None
        names = sorted(entry.name for entry in folder.iterdir() if wheel_name(entry.name))
        rows = [
            Candidate(
                file=name,
                url=(folder / name).absolute().as_uri(),
                place=self.place,
                size=(folder / name).stat().st_size,
            )
            for name in names
        ]
        mine = tuple(row for row in rows if row.name == self.package)
        return flat_page(mine, folder.absolute().as_uri()) if mine else None

    def _open(self, folder: Path, path: str) -> Page | None:
        inside = folder / unquote(path)
        file = inside if path.endswith(METADATA) else inside / "index.html"
        try:
            body = file.read_bytes()
        except OSError:
            return None
        return self._page(body, "text/html", file.absolute().as_uri(), path)

    def _page(self, body: bytes, kind: str, url: str, path: str) -> Page:
        if path.endswith(METADATA):
            return read_metadata(body, url, path, self.place, self.package)
        return read_page(body, kind, url, path, self.place, self.package)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What the lock that stands there says of vLLM."""

    commit: str = ""
    """Full commit; an abbreviation is no use and is not looked at."""
    version: str = ""
    files: frozenset[str] = field(default_factory=frozenset)
    """File names of its wheels: kept where the same commit is chosen again."""


def discover(
    index: NightlyIndex,
    wants: Sequence[Want],
    *,
    forge: Forge,
    now: datetime,
    before: Before | None = None,
    commit: str = "",
    reader: WheelReader | None = None,
) -> Discovery:
    """Find the newest nightly that is complete, or the one of `commit` (7 to 40 hex digits).

    With a `reader` the METADATA and `_version.py` of each chosen wheel are read by range, and a
    commit whose wheels are not what their names say is passed over. `now` has a time zone.

    Raises:
        Refused: no commit is complete; findings say what is missing.
        BadInput: `commit` is none, is not known, or is ambiguous.
        NetworkError: the index is out of reach.
        NotOffered: it has nothing, or wants credentials.

    """
    before = before or Before()
    query = Query(
        rules=Rules(package=index.package, wants=tuple(wants), keep=before.files),
        place=index.place,
        now=now,
        previous=before.commit,
        previous_version=before.version,
    )
    flat = index.flat()
    pages: Pages = {} if flat is None else {flat.path: flat}
    full = full_commits(commit, ()) if commit else []
    if full:
        query = replace(query, commit=full[0])
    else:
        query, pages = _opening(index, query, pages, forge)
    if commit and not full:
        known = known_commits(query, pages)
        named = {*full_commits(commit, known), *forge.commits(commit.lower().removeprefix("g"))}
        query = replace(query, commit=only_commit(commit, sorted(named)))
    while True:
        pages = index.read_all(query, pages)
        found = conclude(query, pages)
        bad, warnings = _verify(found, index, reader)
        if not bad:
            return replace(found, findings=(*found.findings, *warnings))
        rejected = {**query.rules.rejected, **{skip.subject: skip for skip in bad}}
        query = replace(query, rules=replace(query.rules, rejected=rejected))


def channel_findings(
    index: NightlyIndex, wants: Sequence[Want], *, forge: Forge, now: datetime
) -> tuple[Finding, ...]:
    """Report what stands still of the channel that `wants` are taken from (C66).

    Lists alone are read; a folder of wheels has no age. Raises as `discover` does when the index is
    out of reach.
    """
    if index.flat() is not None:
        return ()
    query = Query(
        rules=Rules(package=index.package, wants=tuple(wants)),
        place=index.place,
        now=now,
        history=forge.history(),
    )
    pages: Pages = {}
    while todo := channel_pages(query, pages):
        pages = {**pages, **{path: index.read(path) for path in todo}}
    return channel_age(query, pages)


def _opening(index: NightlyIndex, query: Query, pages: Pages, forge: Forge) -> tuple[Query, Pages]:
    """Ask the forge and read the first pages, side by side."""
    first = next_pages(query, pages)

    def work(path: str, _stop: Stop) -> Page | History | None:
        return index.read(path) if path else forge.history()

    *read, history = each(work, [*first, ""], threads=index.threads)
    found = dict(pages) | {
        path: page for path, page in zip(first, read, strict=True) if not isinstance(page, History)
    }
    if isinstance(history, History):
        query = replace(query, history=history)
    return query, found


def _verify(
    found: Discovery, index: NightlyIndex, reader: WheelReader | None
) -> tuple[list[Skip], list[Finding]]:
    """Look into the chosen wheels: those that will not do, and what is worth a warning."""
    if reader is None:
        return [], []
    pairs = list(found.wheels.items())

    def look(pair: tuple[Want, NightlyWheel], _stop: Stop) -> list[Finding] | Skip:
        want, wheel = pair
        try:
            facts = _peek(reader, wheel.candidate)
        except (NotOffered, Refused) as error:
            key = "nightly-missing-for-platform"
            reason = f"is listed and cannot be read: {error.what}"
            return Skip(subject=wheel.file, key=key, reason=reason, commit=wheel.commit)
        return [] if facts is None else check_wheel(wheel, want, facts, index.package)

    bad: list[Skip] = []
    warnings: list[Finding] = []
    for (_, wheel), seen in zip(pairs, each(look, pairs, threads=index.threads), strict=True):
        if isinstance(seen, Skip):
            bad.append(seen)
            continue
        for row in seen:
            if row.severity == "error":
                reason = f"is not what it is called: {row.evidence}"
                bad.append(
                    Skip(subject=wheel.file, key=row.key, reason=reason, commit=wheel.commit)
                )
            else:
                warnings.append(row)
    return bad, warnings


def _peek(reader: WheelReader, wheel: Candidate) -> WheelFacts | None:
    try:
        return reader.peek(wheel)
    except NotOffered:
        if escaped(wheel.url) == wheel.url:
            raise
    return reader.peek(replace(wheel, url=escaped(wheel.url)))
