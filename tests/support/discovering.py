"""Discovery on a bucket without a network, and what tests of it want."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from builder.core.discovery import Discovery, Query, conclude, next_pages
from builder.core.history import History, Landed
from builder.core.nightly import Page
from builder.core.nightly_set import Rules, Want
from builder.core.wheel_target import WheelTarget
from tests.support.nightly_index import NIGHT, Bucket

NOW = NIGHT + timedelta(hours=9)
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
