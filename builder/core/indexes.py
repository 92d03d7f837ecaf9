"""Indexes by name: where each is by default, and which of several offers of one file to trust."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from builder.core.finding import Finding
from builder.core.hash_change import Arrived, Expected, explain, other_bytes
from builder.core.simple import Candidate
from builder.core.spec import GENERAL, ImageSpec
from builder.errors import HashMismatch, SpecError

DEFAULT_URLS: Mapping[str, str] = {
    "vllm": "https://wheels.vllm.ai/nightly",
    "flashinfer": "https://flashinfer.ai/whl",
    "pytorch-cpu": "https://download.pytorch.org/whl/cpu",
}
"""Where an index is unless settings name another place; `general` is the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Somewhere that wheels are offered."""

    name: str
    """For messages: an index name, or the setting that names the place."""
    where: str
    """URL or path."""
    flat: bool = False
    """A find-links page or folder: no page per project."""
    optional: bool = False
    """A folder that is not there has nothing; else it is an error."""

    def __str__(self) -> str:
        return f"{self.name} at {self.where}"


def place_of(name: str, settings: Mapping[str, str], general: str) -> Place:
    """Find the place of an index: by settings, else its default.

    Raises SpecError for a name that has neither.
    """
    where = settings.get(name) or (general if name == GENERAL else DEFAULT_URLS.get(name))
    if where is None:
        raise SpecError(
            f"there is no index called {name!r}",
            subject="[lock.sources]",
            action=(
                f"use one of {', '.join(sorted(DEFAULT_URLS))}, or say where it is: "
                f"--index {name}=URL-or-folder, or `indexes.{name}` in config.toml"
            ),
        )
    return Place(name=name, where=where)


def check_sources(spec: ImageSpec, settings: Mapping[str, str]) -> None:
    """Raise SpecError when `[lock.sources]` names an index that nobody knows."""
    for name in spec.lock.sources.values():
        place_of(name, settings, general="")


def by_file(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Group offers by file name; the order within a group stays."""
    groups: dict[str, list[Candidate]] = {}
    for entry in candidates:
        groups.setdefault(entry.file, []).append(entry)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A candidate whose sha256 is known."""

    candidate: Candidate
    sha256: str
    given: bool
    """Whether the place said the sha256; else it was computed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Which offer of one file is locked."""

    offer: Offer
    """A local copy where there is one with these bytes."""
    given: bool
    """Whether any place said this sha256."""
    notes: tuple[str, ...] = ()


def settle(
    own: Sequence[Offer],
    links: Sequence[Offer],
    *,
    pinned: str,
    relock: str,
    decided: bool,
) -> Settled:
    """Decide which bytes of one file are locked, of those that its index and find-links offer.

    `pinned` is the sha256 the lock has for this file, empty when it holds no such file or when it
    may change. `decided` says that the person asked for the index's file (`--upgrade-package`).
    `relock` is the command that asks for it, for messages.

    Raises HashMismatch when two sources disagree and nobody has decided between them.
    """
    offers = [*own, *links]
    wanted = offers[0].sha256
    if pinned:
        _check_pinned(offers, pinned, own, relock)
        wanted = pinned
    same = [offer for offer in offers if offer.sha256 == wanted]
    others = [offer for offer in offers if offer.sha256 != wanted]
    if others and not pinned and not decided:
        raise _disagreement(same[0], others[0], relock)
    return Settled(
        offer=min(same, key=lambda offer: not offer.candidate.local),
        given=any(offer.given for offer in same),
        notes=tuple(
            f"{other.candidate.place} has another {other.candidate.file} (sha256 "
            f"{other.sha256[:12]}…), left aside for {wanted[:12]}…"
            for other in others
        ),
    )


def _check_pinned(offers: Sequence[Offer], pinned: str, own: Sequence[Offer], relock: str) -> None:
    agreeing = [offer for offer in offers if offer.sha256 == pinned]
    contrary = [offer for offer in own or offers if offer.sha256 != pinned]
    if (own and contrary) or not agreeing:
        raise mismatch(contrary[0].candidate, contrary[0].sha256, pinned, relock, foreign=not own)


def mismatch(
    candidate: Candidate, sha256: str, pinned: str, relock: str, *, foreign: bool
) -> HashMismatch:
    """Say that the lock and a place disagree about the bytes of one file.

    `foreign`: the place is not the index it was locked from.
    """
    row = listed(candidate, sha256, pinned, relock, foreign=foreign)
    error = HashMismatch(
        f"two sources disagree about {candidate.file}: the lock names sha256 {pinned}, "
        f"{candidate.place} has sha256 {sha256}",
        subject=candidate.url,
        action=row.action if row is not None else "",
    )
    error.findings = (row,) if row is not None else ()
    return error


def listed(
    candidate: Candidate, sha256: str, pinned: str, relock: str, *, foreign: bool
) -> Finding | None:
    """Classify what a place lists under a locked file's name; None when it is the locked file."""
    arrived = Arrived(
        sha256=sha256,
        place=candidate.place,
        foreign=foreign,
        metadata_sha256=candidate.metadata_sha256,
    )
    return explain(Expected(file=candidate.file, sha256=pinned), arrived, relock)


def _disagreement(first: Offer, other: Offer, relock: str) -> HashMismatch:
    return other_bytes(
        f"two sources disagree about {first.candidate.file}: {first.candidate.place} has sha256 "
        f"{first.sha256}, {other.candidate.place} has sha256 {other.sha256}",
        subject=other.candidate.url,
        action=f"take that of {first.candidate.place} with `{relock}`, or remove the other copy",
    )
