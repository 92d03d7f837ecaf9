"""`nightlock export IMAGE`: one platform of a lock, for tools that do not know nightlock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from packaging.pylock import is_valid_pylock_path

from builder.commands.context import Context, Outcome
from builder.core import export
from builder.core.document import Result
from builder.core.lock import Lock
from builder.core.sources import Sighting
from builder.edge import files
from builder.edge.project import read_lock_folder, read_spec
from builder.errors import BadInput, NetworkError, NotOffered

Format = Literal["requirements", "pylock", "cyclonedx"]


class ExportResult(Result):
    """What was written."""

    image: str
    lock: str
    """Lock digest."""
    platform: str
    format: Format
    packages: int
    """Wheels; for cyclonedx .debs as well."""
    path: str
    """Where it was written; empty: it is `text`."""
    text: str
    """The file; empty when it was written to `path`."""


def run(
    context: Context,
    image: str,
    *,
    style: Format = "requirements",
    urls: bool = False,
    platform: str = "",
    out: Path | None = None,
) -> Outcome[ExportResult]:
    """Export one platform; `urls` looks every file up, as a pylock always does, an SBOM never.

    Raises BadInput for a platform the lock lacks or a file name no tool takes, NotOffered and
    NetworkError when a file's address cannot be found.
    """
    if style == "pylock" and out is not None and not is_valid_pylock_path(out):
        raise BadInput(
            "no installer takes a pylock of that name (PEP 751)",
            subject=str(out),
            action=f"call it pylock.toml or pylock.NAME.toml, as pylock.{image}.toml",
        )
    spec = read_spec(context.project, image)
    lock = read_lock_folder(context.lock_folder(spec.name))
    chosen = _platform(lock, platform)
    content = lock.platforms[chosen]
    text = _write(context, lock, chosen, style, urls=urls)
    if out is not None:
        files.write(out, text.encode())
    result = ExportResult(
        image=image,
        lock=lock.digest,
        platform=chosen,
        format=style,
        packages=len(content.wheels) + (len(content.debs) if style == "cyclonedx" else 0),
        path=str(out) if out is not None else "",
        text="" if out is not None else text,
    )
    said = f"{out}: {result.packages} packages of {image}, {chosen}" if out else text.rstrip("\n")
    return Outcome(result=result, text=said)


def _write(context: Context, lock: Lock, platform: str, style: Format, *, urls: bool) -> str:
    if style == "cyclonedx":
        # Imported late: the library costs half a second, and the other formats do not need it.
        from builder.core.sbom import cyclonedx  # noqa: PLC0415

        return cyclonedx(lock, platform).decode()
    known = _addresses(context, lock, platform) if urls or style == "pylock" else None
    if style == "pylock":
        return export.pylock(lock, platform, known or {})
    return export.requirements(lock.platforms[platform], known)


def _platform(lock: Lock, wanted: str) -> str:
    there = sorted(lock.platforms)
    if wanted in there or (not wanted and len(there) == 1):
        return wanted or there[0]
    raise BadInput(
        f"the lock has no platform {wanted!r}"
        if wanted
        else f"the lock has {len(there)} platforms",
        subject=f"lock/{lock.header.image}",
        action=f"name one with --platform: {', '.join(there)}",
    )


def _addresses(context: Context, lock: Lock, platform: str) -> dict[str, str]:
    """Package → address of its file, by the pages of the indexes."""
    # Imported late: HTTP and HTML cost 0.4 s, and the lock's own lines need neither.
    from builder.edge.locate import look_up  # noqa: PLC0415
    from builder.edge.reach import open_indexes  # noqa: PLC0415

    settings = context.settings
    pins = lock.platforms[platform].wheels
    with (
        open_indexes(
            settings,
            os.environ,
            connections=2 * settings.threads,
            nightlies=[lock.header.vllm],
        ) as indexes,
        context.output.bar("looking files up", len(pins), "wheels") as bar,
    ):
        sightings = look_up(
            pins,
            indexes,
            threads=settings.threads,
            on_wheel=lambda: bar.advance(1),
        )
    _refuse_absent(sightings)
    found = {}
    for sighting in sightings:
        offer = sighting.offer
        assert offer is not None  # noqa: S101 - refused above
        found[sighting.pin.name] = offer.url
        if offer.local:
            context.output.note(
                f"  {sighting.pin.name}: only {offer.place} has it, on this machine"
            )
    return found


def _refuse_absent(sightings: Sequence[Sighting]) -> None:
    absent = [sighting for sighting in sightings if sighting.offer is None]
    if not absent:
        return
    names = ", ".join(sighting.pin.file for sighting in absent[:5])
    action = "name a mirror that has it with NIGHTLOCK_INDEX_…=URL or PIP_FIND_LINKS"
    down = [error for sighting in absent for error in sighting.down]
    if down:
        raise NetworkError(
            f"the address of {len(absent)} locked file(s) cannot be found: {down[0].what}",
            subject=down[0].subject or names,
            action=action,
        )
    raise NotOffered(
        f"{len(absent)} locked file(s) are on no index that is configured",
        subject=names,
        action=action,
    )
