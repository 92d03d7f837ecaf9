"""Discovery on a bucket, with and without HTTP, and what tests of it want."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import httpx
import pytest

from builder.core.discovery import Discovery, Query, conclude, next_pages
from builder.core.history import History, Landed
from builder.core.nightly import Page
from builder.core.nightly_set import Rules, Want
from builder.core.wheel_target import WheelTarget
from builder.edge import download
from builder.edge.history import Forge
from builder.edge.nightly import NightlyIndex
from builder.edge.userconfig import Configured, UserConfig
from tests.support.nightly_index import NIGHT, Bucket, both, nightly, sha

NOW = NIGHT + timedelta(hours=9)
OLD, NEW, LATER = sha("4080263bb"), sha("ea5f903f8"), sha("77aa88bb9")
V313, V344, V351 = (
    f"0.33.1rc1.dev{number}+g{commit[:9]}"
    for number, commit in ((313, OLD), (344, NEW), (351, LATER))
)
LANDED = [
    (sha("5555555"), NIGHT + timedelta(hours=1)),
    (LATER, NIGHT),
    (NEW, NIGHT - timedelta(hours=6)),
    (sha("6666666"), NIGHT - timedelta(days=1)),
    (OLD, NIGHT - timedelta(days=23)),
]
"""What a forge says of these, newest first."""
NOBODY = UserConfig(general=Configured(value="http://127.0.0.1:9", origin="the test"))
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


def want(variant: str = "", platform: str = "linux/amd64", glibc: str = "2.41") -> Want:
    """Want one wheel for Python 3.13."""
    target = WheelTarget(python="3.13", glibc=glibc, machine=MACHINES[platform])
    return Want(variant=variant, platform=platform, target=target)


def everywhere(variant: str = "") -> tuple[Want, ...]:
    """Want a variant on both platforms."""
    return tuple(want(variant, platform) for platform in MACHINES)


def history(*commits: str, newest: datetime = NIGHT, hours: int = 1) -> History:
    """Make a history, newest first, some hours apart."""
    return History(
        commits=tuple(
            Landed(sha=sha, when=newest - timedelta(hours=hours * at))
            for at, sha in enumerate(commits)
        )
    )


@dataclass(slots=True)
class Survey:
    """One search: its query, what it read, in order."""

    bucket: Bucket
    wants: tuple[Want, ...]
    keep: frozenset[str] = frozenset()
    history: History = field(default_factory=History)
    previous: str = ""
    version: str = ""
    commit: str = ""
    now: datetime = NOW
    rounds: list[list[str]] = field(default_factory=list)
    pages: dict[str, Page | None] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        """What is asked."""
        return Query(
            rules=Rules(package="vllm", wants=self.wants, keep=self.keep),
            place="the index",
            now=self.now,
            history=self.history,
            previous=self.previous,
            previous_version=self.version,
            commit=self.commit,
        )

    @property
    def asked(self) -> list[str]:
        """Every page, in the order it was read."""
        return [path for row in self.rounds for path in row]

    def find(self) -> Discovery:
        """Read and decide."""
        while todo := next_pages(self.query, self.pages):
            self.rounds.append(todo)
            self.pages |= {path: self.bucket.page(path) for path in todo}
        return conclude(self.query, self.pages)


def find(bucket: Bucket, *wants: Want, **options: object) -> Discovery:
    """Search once; `options` are fields of Survey."""
    return Survey(bucket, wants, **options).find()  # type: ignore[arg-type]


def three_nights() -> Bucket:
    """Publish a whole night, one without 12.9 (whose folder stays), one with aarch64 alone."""
    made = Bucket()
    whole = [*both(V313), *both(f"{V313}.cu129"), nightly(f"{V313}.cpu")]
    made.publish(OLD, *whole, when=NIGHT - timedelta(days=22))
    made.publish(NEW, *both(V344), nightly(f"{V344}.d20261130"), when=NIGHT - timedelta(hours=5))
    made.publish(LATER, nightly(V351, arch="aarch64"))
    return made


@contextmanager
def quick_client(monkeypatch: pytest.MonkeyPatch, home: str) -> Iterator[httpx.Client]:
    """Open a client as recipes do, untouched by this machine's configuration; retries are quick."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(download, "BACKOFF", 0.01)
    with download.open_client(NOBODY) as opened:
        yield opened


def index_at(client: httpx.Client, where: str) -> NightlyIndex:
    """Point at an index."""
    return NightlyIndex(client=client, index=where, threads=4)


def no_forge(client: httpx.Client) -> Forge:
    """Ask nobody."""
    return Forge(place="none", client=client)
