"""The step of `lock` that chooses vLLM: one version, a wheel for every image and platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from packaging.utils import canonicalize_name

from builder.commands.lock_workshop import Bound, Workshop, read_links, read_offers
from builder.core.finding import Finding
from builder.core.indexes import Place
from builder.core.lock import Lock
from builder.core.nightly import is_commit
from builder.core.nightly_set import Skip, Want
from builder.core.releases import asked_of, newest_release
from builder.core.simple import Candidate
from builder.core.spec import GENERAL, ImageSpec
from builder.core.wheel_target import WheelTarget
from builder.edge import nightly
from builder.edge.history import Forge
from builder.errors import NetworkError, NotOffered, SpecError

VLLM_INDEX = "vllm"
"""Name of vLLM's own index, where its nightlies are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The vLLM that all images of a group get."""

    version: str
    """Without the variant, which may differ between images."""
    commit: str
    """40 hex digits where the channel names it; else empty."""
    wheels: Mapping[tuple[str, str], Bound]
    """Image and platform → the one wheel."""
    skipped: tuple[Skip, ...] = ()
    findings: tuple[Finding, ...] = ()


def on_channel(spec: ImageSpec, channel: str) -> ImageSpec:
    """Put an image on another channel than image.toml says; nightlies are bound to their index."""
    sources = dict(spec.lock.sources)
    chosen = channel or spec.lock.channel
    if chosen == "nightly":
        sources.setdefault(canonicalize_name(spec.lock.package), VLLM_INDEX)
    table = spec.lock.model_copy(update={"channel": chosen, "sources": sources})
    return spec.model_copy(update={"lock": table})


def choose_vllm(
    workshop: Workshop,
    specs: Sequence[ImageSpec],
    targets: Mapping[tuple[str, str], WheelTarget],
    previous: Mapping[str, Lock | None],
    *,
    upgrade: bool,
    commit: str,
    forge: Forge,
    now: datetime,
) -> Chosen:
    """Choose the newest vLLM of the channel that is complete for all images and platforms.

    `targets` has each image and platform, `previous` the lock of each image; `upgrade` lets a file
    of the same version be replaced by a better one. `now` has a time zone.

    Raises Refused, NotOffered, NetworkError with what is missing; SpecError when the images do not
    ask for the same vLLM.
    """
    first = _alike(specs)
    wants = wants_of(specs, targets)
    locks = [lock for name in sorted(previous) if (lock := previous[name]) is not None]
    name = canonicalize_name(first.lock.package)
    keep = frozenset(
        pin.file
        for lock in locks
        for content in lock.platforms.values()
        for pin in content.wheels
        if pin.name == name and not upgrade
    )
    place = workshop.indexes.place(first.index_of(name))
    if first.lock.channel == "nightly":
        return _nightly(workshop, place, name, wants, locks, keep, commit, forge, now)
    rows = _listed(workshop, place, name)
    found = newest_release(
        rows,
        list(wants.values()),
        asked_of(first.lock.requirements, name),
        place=str(place),
        keep=keep,
    )
    wheels = {key: _bound(place, rows, found.wheels[want]) for key, want in wants.items()}
    chosen = [found.wheels[want] for want in dict.fromkeys(wants.values())]
    return Chosen(
        version=found.version,
        commit=_release_commit(workshop, chosen, [] if upgrade else locks, forge),
        wheels=wheels,
        skipped=found.skipped,
    )


def wants_of(
    specs: Sequence[ImageSpec], targets: Mapping[tuple[str, str], WheelTarget]
) -> dict[tuple[str, str], Want]:
    """Say which wheel each image needs on each of its platforms, whose `targets` are known."""
    return {
        (spec.name, platform): Want(
            variant=spec.lock.variant, platform=platform, target=targets[spec.name, platform]
        )
        for spec in specs
        for platform in spec.image.platforms
    }


def _release_commit(
    workshop: Workshop, wheels: Sequence[Candidate], locks: Sequence[Lock], forge: Forge
) -> str:
    """Give a release's commit in full, where it can be learnt; empty: as the wheels have it.

    The wheels name it themselves, abbreviated; a forge completes that. What a lock already says of
    the same commit stays, so that nobody's bytes depend on whom the next one can ask.
    """
    named = {workshop.reader.look(wheel).commit for wheel in wheels}
    short = named.pop() if len(named) == 1 else ""
    if not short:
        return ""
    known = [lock.header.vllm.commit for lock in locks]
    if mine := [commit for commit in known if commit.startswith(short)]:
        return max(mine, key=len)
    found = [commit for commit in forge.commits(short) if commit.startswith(short)]
    return found[0] if len(found) == 1 else ""


def _listed(workshop: Workshop, place: Place, package: str) -> list[Candidate]:
    """List what the channel's index has; find-links count only for a package that is bound."""
    if place.name != GENERAL:
        offers = read_offers(workshop, package, place)
        return [*offers.own, *offers.links]
    try:
        return workshop.indexes.offers(place, package)
    except NotOffered:
        raise
    except NetworkError as error:
        raise NetworkError(
            f"the index {place} cannot be reached: {error.what}",
            subject=error.subject,
            action=f"{error.action}; a mirror is named with --index {place.name}=URL-or-folder, or "
            "PIP_INDEX_URL",
        ) from error


def _alike(specs: Sequence[ImageSpec]) -> ImageSpec:
    first = specs[0]
    for spec in specs[1:]:
        for field, mine, its in (
            ("lock.channel", first.lock.channel, spec.lock.channel),
            ("lock.package", first.lock.package, spec.lock.package),
            (
                "lock.requirements",
                asked_of(first.lock.requirements, first.lock.package),
                asked_of(spec.lock.requirements, spec.lock.package),
            ),
        ):
            if mine != its:
                raise SpecError(
                    f"{field}: {mine} in {first.name}, {its} in {spec.name}: images of one set get "
                    "one vLLM",
                    subject=f"images/{spec.name}/image.toml",
                    action="give both the same, or lock them one by one",
                )
    return first


def _bound(place: Place, rows: Sequence[Candidate], wheel: Candidate) -> Bound:
    """Offer one file alone, with every place that has it."""
    same = [row for row in rows if row.file == wheel.file]
    return Bound(
        index=place,
        own=tuple(row for row in same if row.place == str(place)),
        links=tuple(row for row in same if row.place != str(place)),
    )


def _nightly(
    workshop: Workshop,
    place: Place,
    package: str,
    wants: Mapping[tuple[str, str], Want],
    locks: Sequence[Lock],
    keep: frozenset[str],
    commit: str,
    forge: Forge,
    now: datetime,
) -> Chosen:
    index = nightly.NightlyIndex(
        client=workshop.indexes.client,
        index=place.where,
        package=package,
        threads=workshop.threads,
    )
    known = next((lock.header.vllm for lock in locks if is_commit(lock.header.vllm.commit)), None)
    found = nightly.discover(
        index,
        list(dict.fromkeys(wants.values())),
        forge=forge,
        now=now,
        before=nightly.Before(
            commit=known.commit if known else "", version=known.version if known else "", files=keep
        ),
        commit=commit,
        reader=workshop.reader,
    )
    links = read_links(workshop, package)
    wheels = {}
    for key, want in wants.items():
        mine = replace(found.wheels[want].candidate, place=str(place))
        same = tuple(row for row in links if row.file == mine.file)
        wheels[key] = Bound(index=place, own=(mine,), links=same)
    return Chosen(
        version=str(found.public),
        commit=found.commit,
        wheels=wheels,
        skipped=found.skipped,
        findings=found.findings,
    )
