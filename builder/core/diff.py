"""Compare two locks: what an operator gets that another one did not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from builder.core.diff_commits import commit_ranges
from builder.core.diff_dropped import dropped_packages
from builder.core.diff_layers import plan_facts, pulls
from builder.core.diff_metadata import (
    metadata_changes,
    parse_requirement,
    requirement_changes,
    requires_of,
)
from builder.core.diff_packages import deb_changes, wheel_changes
from builder.core.diff_result import DiffResult, Fact, PackageChange, Side
from builder.core.image_diff_result import ImageDiff
from builder.core.lock import Lock


def compare(old: Lock, new: Lock, *, names: tuple[str, str] = ("old", "new")) -> DiffResult:
    """Compare two locks; `names` are what the user called them."""
    platforms = sorted(old.platforms.keys() & new.platforms.keys())
    result = DiffResult(
        old=_side(old, names[0]),
        new=_side(new, names[1]),
        same=False,
        platforms=platforms,
        platforms_added=sorted(new.platforms.keys() - old.platforms.keys()),
        platforms_removed=sorted(old.platforms.keys() - new.platforms.keys()),
        facts=[*_facts(old, new, platforms), *plan_facts(old, new, platforms)],
        commits=commit_ranges(old, new),
        packages=_packages(old, new, platforms),
        dropped=dropped_packages(old, new, platforms),
        requirements=requirement_changes(old, new, platforms),
        metadata=metadata_changes(old, new, platforms),
        debs=deb_changes(
            {platform: content.debs for platform, content in old.platforms.items()},
            {platform: content.debs for platform, content in new.platforms.items()},
            platforms,
        ),
        tools=wheel_changes(
            {platform: old.tools(platform) for platform in platforms},
            {platform: new.tools(platform) for platform in platforms},
            platforms,
        ),
        pulls=pulls(old, new, platforms),
    )
    return result.model_copy(update={"same": _same(result)})


def between_images(images: list[ImageDiff], *, names: tuple[str, str]) -> DiffResult:
    """Compare two images that hold no lock of ours: what differs is all in their layers."""
    nothing = {"lock": "", "image": "", "channel": "", "vllm": "", "commit": ""}
    return DiffResult(
        old=Side(name=names[0], **nothing),
        new=Side(name=names[1], **nothing),
        same=all(image.same for image in images),
        platforms=[image.platform for image in images],
        platforms_added=[],
        platforms_removed=[],
        facts=[],
        commits=[],
        packages=[],
        dropped=[],
        requirements=[],
        metadata=[],
        debs=[],
        tools=[],
        pulls=[],
        images=images,
    )


def _same(result: DiffResult) -> bool:
    changed: tuple[Iterable[object], ...] = (
        result.platforms_added,
        result.platforms_removed,
        [fact for fact in result.facts if fact.counts],
        result.commits,
        result.packages,
        result.requirements,
        [change for change in result.metadata if change.counts],
        result.debs,
        result.tools,
    )
    return not any(changed)


def _side(lock: Lock, name: str) -> Side:
    header = lock.header
    return Side(
        name=name,
        lock=lock.digest,
        image=header.image,
        channel=header.channel,
        vllm=header.vllm.version,
        commit=header.vllm.commit,
    )


def _packages(old: Lock, new: Lock, platforms: list[str]) -> list[PackageChange]:
    changes = wheel_changes(
        {platform: content.wheels for platform, content in old.platforms.items()},
        {platform: content.wheels for platform, content in new.platforms.items()},
        platforms,
    )
    vllm = new.header.vllm.package
    companions = {*old.header.companions, *new.header.companions, old.header.vllm.package, vllm}
    marked = [
        change.model_copy(update={"companion": True, "pinned": _pinned(new, vllm, change.name)})
        if change.name in companions
        else change
        for change in changes
    ]
    return sorted(
        marked, key=lambda change: (not change.companion, change.name != vllm, change.name)
    )


def _pinned(lock: Lock, vllm: str, name: str) -> bool | None:
    """Whether vLLM's metadata pins the companion exactly; None for vLLM itself."""
    if name == vllm:
        return None
    for content in lock.platforms.values():
        for line in requires_of(content, vllm):
            if not line.lower().replace("_", "-").startswith(name):
                continue
            requirement = parse_requirement(line)
            if requirement is None or requirement.name.lower().replace("_", "-") != name:
                continue
            if any(clause.operator == "==" for clause in requirement.specifier):
                return True
    return False


def _facts(old: Lock, new: Lock, platforms: list[str]) -> list[Fact]:
    was, now = old.header, new.header
    rows: list[tuple[str, str, object, object]] = [
        ("image", "", was.image, now.image),
        ("channel", "", was.channel, now.channel),
        ("vLLM package", "", was.vllm.package, now.vllm.package),
        # Where it is pinned, the packages say so already.
        *(
            []
            if _has_vllm(old) or _has_vllm(new)
            else [("vLLM", "", was.vllm.version, now.vllm.version)]
        ),
        ("variant", "", was.vllm.variant, now.vllm.variant),
        ("Python", "", was.target.python, now.target.python),
        ("CUDA", "", was.target.cuda, now.target.cuda),
        ("glibc", "", was.target.glibc, now.target.glibc),
        ("base", "", was.base.debian or was.base.image, now.base.debian or now.base.image),
        *(
            ("base image", platform, was.base.images.get(platform), now.base.images.get(platform))
            for platform in platforms
        ),
        ("companions", "", ", ".join(sorted(was.companions)), ", ".join(sorted(now.companions))),
        ("created", "", _moment(was.epoch), _moment(now.epoch)),
        ("spec", "", was.spec, now.spec),
        ("resolver", "", _resolver(old), _resolver(new)),
        ("schema", "", was.schema_version, now.schema_version),
    ]
    return [
        Fact(
            name=name,
            platform=platform,
            old=str(before or ""),
            new=str(after or ""),
            counts=name not in ("spec", "resolver", "schema"),
        )
        for name, platform, before, after in rows
        if before != after
    ]


def _has_vllm(lock: Lock) -> bool:
    return any(content.wheel(lock.header.vllm.package) for content in lock.platforms.values())


def _moment(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _resolver(lock: Lock) -> str:
    return f"{lock.header.resolver.name} {lock.header.resolver.version}"
