"""`nightlock outdated FILE…`: which run files lag behind the tag they follow, and by what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from builder.commands.context import Context, Outcome
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.labels import PREFIX
from builder.core.manifest import ImageConfig
from builder.core.reference import ImageRef
from builder.core.runfile.pins import Pin, find_pins
from builder.edge import runfiles
from builder.edge.registry import Registry
from builder.errors import BadInput, NightlockError

State = Literal["current", "behind", "gone", "untagged"]
_SAID = ("vllm.version", "vllm.commit", "cuda", "python", "lock.digest")
"""Labels that a line of difference is made of, most telling first."""


class FollowedImage(BaseModel):
    """One pinned image of one file."""

    model_config = ConfigDict(extra="forbid")

    file: str
    line: int
    name: str
    tag: str
    """Empty where the file does not say what it follows."""
    digest: str
    newest: str
    """Digest the tag names now."""
    state: State
    difference: str
    """What the images say of themselves, old → new."""


class OutdatedResult(Result):
    """Every pinned image of the files."""

    images: list[FollowedImage]


def run(context: Context, *paths: Path) -> Outcome[OutdatedResult]:
    """Ask each image's registry; exit 1 when one lags behind or is gone.

    Raises BadInput for a file that is missing or pins nothing, NetworkError when a registry cannot
    be asked.
    """
    rows: list[FollowedImage] = []
    for path in paths:
        text = runfiles.read(path)
        pins = find_pins(text or "")
        if not pins:
            raise BadInput(
                "no image is pinned in the file",
                subject=str(path),
                action="`nightlock lint` says how to write one: name@sha256:…  # tag",
            )
        rows += [_look(context, path, pin) for pin in pins]
    found = tuple(one for row in rows if (one := _finding(row)) is not None)
    return Outcome(
        result=OutdatedResult(images=rows),
        text="\n".join(_line(row) for row in rows),
        ok=not found,
        findings=found,
    )


def _look(context: Context, path: Path, pin: Pin) -> FollowedImage:
    ref = ImageRef.parse(pin.name)
    with Registry.open(ref.registry, os.environ) as registry:
        newest = registry.find_digest(ref.with_tag(pin.tag)) if pin.tag else ""
        present = newest == pin.digest or bool(registry.find_digest(ref.with_digest(pin.digest)))
        state: State = "current"
        difference = ""
        if not present:
            state = "gone"
        elif not pin.tag:
            state = "untagged"
        elif newest != pin.digest:
            state = "behind"
            try:
                difference = _difference(
                    _config(registry, ref, pin.digest), _config(registry, ref, newest)
                )
            except NightlockError as error:
                # What moved is still told; only by what is not known.
                context.output.detail(str(error))
    return FollowedImage(
        file=str(path),
        line=pin.lines[0],
        name=pin.name,
        tag=pin.tag,
        digest=pin.digest,
        newest=newest,
        state=state,
        difference=difference,
    )


def _config(registry: Registry, ref: ImageRef, digest: str) -> ImageConfig:
    pinned = ref.with_digest(digest)
    return registry.config(pinned, registry.manifest(pinned))


def _difference(old: ImageConfig, new: ImageConfig) -> str:
    rows = []
    for name in _SAID:
        before, after = old.labels.get(PREFIX + name, ""), new.labels.get(PREFIX + name, "")
        if before != after:
            label = name.partition(".")[0] if name.endswith("version") else name
            rows.append(f"{label} {_short(before)} → {_short(after)}")
    return ", ".join(rows)


def _short(text: str) -> str:
    value = text.removeprefix("sha256:")
    return (value[:12] if len(value) >= 40 else value) or "none"


def _finding(row: FollowedImage) -> Finding | None:
    place = f"{row.file}:{row.line}"
    if row.state == "behind":
        return finding(
            "run-file-behind",
            subject=place,
            evidence=f"{row.name}:{row.tag} is {row.newest[:19]}…, the file has "
            f"{row.digest[:19]}…" + (f" ({row.difference})" if row.difference else ""),
        )
    if row.state == "gone":
        return finding("run-file-gone", subject=place, evidence=f"{row.name}@{row.digest}")
    return None


def _line(row: FollowedImage) -> str:
    words = {
        "current": f"as {row.tag}",
        "behind": f"behind {row.tag}: {row.difference or row.newest[:19] + '…'}",
        "gone": "gone from the registry",
        "untagged": "follows no tag that the file names",
    }
    return f"{row.file}:{row.line}: {row.name}@{row.digest[:19]}…: {words[row.state]}"
