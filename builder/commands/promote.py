"""promote REF TAG…: check the chain, put the same bytes under each tag, read them back."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from builder.commands.context import Context, Outcome
from builder.core.candidate import Candidate
from builder.core.document import Result
from builder.core.keys import finding
from builder.core.manifest import Manifest
from builder.core.receipt import newest_first
from builder.core.reference import ImageRef
from builder.core.release import Unmet, unmet
from builder.edge import files, journal, profiles, records
from builder.edge.distribution import own_version
from builder.edge.receipts import attached_receipts
from builder.edge.registry import Registry
from builder.errors import NetworkError, Refused


class TagMove(Result):
    """One tag, before and after."""

    tag: str
    old: str
    """Digest it named; empty when it did not exist."""
    new: str
    change: Literal["created", "moved", "unchanged"]


class PromoteResult(Result):
    """Where the tags point now, or would point."""

    reference: str
    """Pinned."""
    digest: str
    dry_run: bool
    tags: list[TagMove]


def run(
    context: Context, ref: str, tags: tuple[str, ...], *, dry_run: bool = False
) -> Outcome[PromoteResult]:
    """Move tags to a digest that was proven; nothing moves unless every condition holds.

    Receipts count that lie here, and those that any host attached to the image.

    Raises Refused with every unmet condition, BadInput, NetworkError, RegistryError.
    """
    source = ImageRef.parse(ref)
    wanted = tuple(dict.fromkeys(tags))
    places = [source.with_tag(tag) for tag in wanted]
    policy = profiles.read_policy(context.project)
    with (
        files.locked(_lock(context, source), context.output.note),
        Registry.open(source.registry, os.environ) as registry,
    ):
        _catch_up(context, registry, source, dry_run=dry_run)
        manifest = registry.manifest(source)
        candidate = Candidate.of(source, manifest, registry.config(source, manifest))
        present = {place.tag: registry.find_digest(place) for place in places}
        own = records.receipts(context.places, candidate.digest)
        attached = attached_receipts(registry, source, candidate.digest)
        proofs = newest_first([*own, *(receipt for _, receipt in attached)])
        _refuse(unmet(candidate, present, proofs, policy), candidate)
        moves = [_planned(tag, old, candidate.digest) for tag, old in present.items()]
        if not dry_run:
            for place, move in zip(places, moves, strict=True):
                _move(context, registry, place, manifest, move)
    result = PromoteResult(
        reference=candidate.ref.pinned, digest=candidate.digest, dry_run=dry_run, tags=moves
    )
    return Outcome(result=result, text=_text(result, source))


def _lock(context: Context, source: ImageRef) -> Path:
    return context.places.state / "locks" / f"promote-{_mark(source)}.lock"


def _mark(place: ImageRef) -> str:
    return hashlib.sha256(place.name.encode()).hexdigest()[:16]


def _catch_up(context: Context, registry: Registry, source: ImageRef, *, dry_run: bool) -> None:
    """Complete the record of a promotion that was killed between its put and its record."""
    begun = journal.unfinished(context.places, _mark(source))
    if not begun:
        return
    place = source.with_tag(begun["tag"])
    now = registry.find_digest(place)
    context.output.note(
        f"an earlier promotion of {place} to {begun['new']} did not end; "
        f"the tag names {now or 'nothing'} now: "
        + ("it moved, and is recorded" if now == begun["new"] else "not recorded as moved")
    )
    if dry_run:
        return
    if now == begun["new"]:
        journal.finish(context.places, _mark(source), begun)
    else:
        journal.forget(context.places, _mark(source))


def _refuse(missing: tuple[Unmet, ...], candidate: Candidate) -> None:
    if missing:
        raise Refused(
            "not promoted: " + "; ".join(condition.what for condition in missing),
            subject=str(candidate.ref),
            action="; ".join(dict.fromkeys(condition.action for condition in missing)),
        )


def _planned(tag: str, old: str, new: str) -> TagMove:
    change: Literal["created", "moved", "unchanged"] = "moved" if old else "created"
    return TagMove(tag=tag, old=old, new=new, change="unchanged" if old == new else change)


def _move(
    context: Context, registry: Registry, place: ImageRef, manifest: Manifest, move: TagMove
) -> None:
    """Put the bytes, read them back, record it; on a difference the tag gets its old bytes back."""
    if move.change == "unchanged":
        return
    before = registry.find_manifest(place) if move.old else None
    record = {
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "repository": place.name,
        "tag": move.tag,
        "old": move.old,
        "new": move.new,
        "nightlock": own_version(),
    }
    journal.begin(context.places, _mark(place), record)
    lost: NetworkError | None = None
    try:
        registry.put_manifest(place, manifest)
    except NetworkError as error:
        # The answer is lost, not necessarily the write: what the tag names now decides.
        lost = error
    found = registry.find_manifest(place)
    if found is None or found.data != manifest.data or found.media_type != manifest.media_type:
        if lost is not None:
            # It may still arrive: the next promotion looks at the tag again.
            raise lost
        if before is not None:
            registry.put_manifest(place, before)
        journal.forget(context.places, _mark(place))
        raise _changed(place, manifest, found)
    journal.finish(context.places, _mark(place), record)
    context.output.note(f"{place}: {move.old or 'new'} → {move.new}")


def _changed(place: ImageRef, manifest: Manifest, found: Manifest | None) -> Refused:
    now = found.digest if found else "nothing"
    error = Refused(
        f"after promotion the tag named {now}, not {manifest.digest}",
        subject=str(place),
        action="look at what stands between here and the registry: it changes manifests",
    )
    error.findings = (
        finding(
            "promotion-changes-digest",
            subject=str(place),
            evidence=f"put {manifest.digest}, read back {now}",
        ),
    )
    return error


def _text(result: PromoteResult, source: ImageRef) -> str:
    rows = []
    for move in result.tags:
        would = "would be " if result.dry_run and move.change != "unchanged" else ""
        path = f"{move.old} → {move.new}" if move.change == "moved" else move.new
        rows.append(f"{source.name}:{move.tag}  {would}{move.change}  {path}")
    return "\n".join(rows)
