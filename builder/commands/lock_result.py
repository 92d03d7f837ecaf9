"""What `lock` answers: as data, and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from builder.core.debs import diff_debs
from builder.core.document import Result
from builder.core.lock import Lock, WheelPin


class PlatformCounts(Result):
    """How much one platform of a lock holds."""

    wheels: int
    debs: int
    wheel_bytes: int
    deb_bytes: int
    layers: int
    """Layers of wheels; the base comes on top."""


class LockChange(Result):
    """One package that moved; an empty version means it is not there."""

    platform: str
    kind: Literal["wheel", "deb", "tool"]
    name: str
    old: str
    new: str


Change = Literal["created", "updated", "unchanged", "refused", "checked"]


class ImageLock(Result):
    """The lock of one image: what was written, or with `--check` what stands there."""

    image: str
    digest: str
    """The lock digest; empty when there is no lock."""
    path: str
    change: Change
    channel: str = ""
    vllm: str = ""
    commit: str = ""
    platforms: dict[str, PlatformCounts] = Field(default_factory=dict)
    notes: dict[str, list[str]] = Field(default_factory=dict)
    """Platform → what was added beyond image.toml, and why: companions, the CUDA toolchain."""
    changes: list[LockChange] = Field(default_factory=list)
    """Against the lock that stood there; empty for a first lock."""


class LockResult(Result):
    """All images that were asked for; those of one set have one vLLM."""

    locks: list[ImageLock]
    skipped: list[str] = Field(default_factory=list)
    """Newer versions of vLLM that were not taken, each with its reason."""

    def of(self, image: str) -> ImageLock:
        """Find one image; KeyError for another one."""
        for lock in self.locks:
            if lock.image == image:
                return lock
        raise KeyError(image)


def image_lock(
    lock: Lock,
    folder: Path,
    change: Change,
    *,
    changes: Sequence[LockChange] = (),
    notes: dict[str, list[str]] | None = None,
) -> ImageLock:
    """Describe one lock."""
    header = lock.header
    return ImageLock(
        image=header.image,
        digest=lock.digest,
        path=str(folder),
        change=change,
        channel=header.channel,
        vllm=header.vllm.version,
        commit=header.vllm.commit,
        platforms={
            platform: PlatformCounts(
                wheels=len(content.wheels),
                debs=len(content.debs),
                wheel_bytes=sum(pin.size for pin in content.wheels),
                deb_bytes=sum(pin.size for pin in content.debs),
                layers=len(header.layers[platform]),
            )
            for platform, content in lock.platforms.items()
        },
        notes=notes or {},
        changes=list(changes),
    )


def changes_of(old: Lock | None, new: Lock) -> list[LockChange]:
    """List what moved between two locks of one image; nothing for a first lock."""
    if old is None:
        return []
    rows: list[LockChange] = []
    for platform, content in new.platforms.items():
        before = old.platforms.get(platform)
        if before is None:
            continue
        tools = old.tools(platform), new.tools(platform)
        for kind, pair in (("wheel", (before.wheels, content.wheels)), ("tool", tools)):
            rows += _wheel_changes(platform, kind, *pair)
        rows += [
            LockChange(platform=platform, kind="deb", name=row.name, old=row.old, new=row.new)
            for row in diff_debs(before.debs, content.debs)
        ]
    return rows


def _wheel_changes(
    platform: str, kind: str, old: Sequence[WheelPin], new: Sequence[WheelPin]
) -> list[LockChange]:
    before = {pin.name: pin for pin in old}
    after = {pin.name: pin for pin in new}
    return [
        LockChange.model_validate(
            {
                "platform": platform,
                "kind": kind,
                "name": name,
                "old": before[name].version if name in before else "",
                "new": after[name].version if name in after else "",
            }
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def text(result: LockResult) -> str:
    """Say it for a person."""
    lines = [f"passed over: {skip}" for skip in result.skipped]
    for lock in result.locks:
        lines += _lines(lock)
    return "\n".join(lines)


def _lines(lock: ImageLock) -> Iterable[str]:
    if lock.change == "refused":
        yield f"{lock.image}: not locked, see the findings; {lock.path} stays as it is"
        return
    yield f"{lock.image}: lock {lock.change}, {lock.digest}"
    yield f"  {lock.path}"
    for platform, counts in lock.platforms.items():
        yield (
            f"  {platform}: {counts.wheels} wheels ({counts.wheel_bytes / 1e6:,.0f} MB) in "
            f"{counts.layers} layers, {counts.debs} .debs ({counts.deb_bytes / 1e6:,.0f} MB)"
        )
        yield from (f"    {note}" for note in lock.notes.get(platform, ()))
    several = len(lock.platforms) > 1
    for row in lock.changes:
        mark = "~" if row.old and row.new else "+" if row.new else "-"
        versions = " → ".join(version for version in (row.old, row.new) if version)
        if row.old == row.new:
            versions = f"{row.new}, other bytes"
        place = f" ({row.platform})" if several else ""
        kind = "" if row.kind == "wheel" else f" {row.kind}"
        yield f"  {mark}{kind} {row.name} {versions}{place}"
