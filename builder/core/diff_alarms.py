"""What a release manager must see first in a diff: findings, worst first."""

from __future__ import annotations

from collections.abc import Iterator

from builder.core import image_diff_words as image_words
from builder.core.diff_result import DiffResult, Dropped, DroppedBy
from builder.core.finding import Finding
from builder.core.keys import finding


def alarms(result: DiffResult) -> tuple[Finding, ...]:
    """Judge a diff: other bytes under one name, missed packages, companions that went back."""
    found = [*_irreproducible(result), *_rehashed(result), *_dropped(result), *_downgraded(result)]
    return tuple(sorted(found, key=lambda alarm: alarm.severity != "error"))


def reason(user: DroppedBy) -> str:
    """Say in words why a package that left is missed."""
    moved = user.new if user.old == user.new else f"{user.old} → {user.new}"
    return {
        "still-required": f"{user.name} {moved} still requires it",
        "no-longer-required": f"{user.name} {moved} no longer requires it",
        "extra-gone": f"{user.name} gets it through {user.through}, an extra that is gone",
        "extra-not-asked": f"{user.name} no longer asks for {user.through}, which brings it",
    }[user.why]


def _irreproducible(result: DiffResult) -> Iterator[Finding]:
    """Find two images of one build id, which covers all that goes into an image."""
    for image in result.images:
        if image.same or not image.build:
            continue
        layer = next(iter(image.layers), None)
        first = image_words.value_line(image.config[0]) if image.config else "nothing in sight"
        if layer is not None:
            path = next(iter(layer.paths), None)
            shown = image_words.path_line(path) if path else image_words.summary(layer)
            first = f"{image_words.layer_title(layer)}: {shown}"
        yield finding(
            "not-reproducible",
            subject=f"{result.old.name}, {result.new.name} ({image.platform})",
            evidence=f"both have build id {image.build}, {image.old} is not {image.new}; {first}",
        )


def _rehashed(result: DiffResult) -> Iterator[Finding]:
    for change in [*result.packages, *result.debs, *result.tools]:
        if change.kind != "re-hashed":
            continue
        for file in change.files:
            if file.old is None or file.new is None:
                continue
            yield finding(
                "file-rehashed",
                subject=f"{change.name} {change.new} ({file.platform})",
                evidence=f"{file.new.file}: sha256 {file.old.sha256}, {file.old.size} bytes, from "
                f"{file.old.index} → sha256 {file.new.sha256}, {file.new.size} bytes, from "
                f"{file.new.index}",
            )


def _dropped(result: DiffResult) -> Iterator[Finding]:
    # Packages that left together for one reason are one thing to look at.
    together: dict[tuple[str, ...], list[Dropped]] = {}
    for package in result.dropped:
        key = (*package.platforms, *(reason(user) for user in package.users))
        together.setdefault(key, []).append(package)
    for packages in together.values():
        first = packages[0]
        broken = any(user.why == "still-required" for user in first.users)
        names = ", ".join(f"{package.name} {package.version}" for package in packages)
        yield finding(
            "dependency-dropped",
            severity="error" if broken else None,
            subject=f"{names} ({', '.join(first.platforms)})",
            evidence="; ".join(dict.fromkeys(reason(user) for user in first.users))
            + "; it came by "
            + ", ".join(
                dict.fromkeys(
                    f"`{user.requirement}`" for package in packages for user in package.users
                )
            ),
        )


def _downgraded(result: DiffResult) -> Iterator[Finding]:
    companions = [change for change in result.packages if change.companion]
    back = [change for change in companions if change.kind == "downgraded"]
    if any(change.pinned is None for change in back):
        # vLLM itself went back, so its companions had to.
        return
    for change in back:
        yield finding(
            "companion-downgraded",
            subject=f"{change.name} ({', '.join(change.platforms)})",
            evidence=f"{change.old} → {change.new}",
        )
