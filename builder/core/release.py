"""Releasing: which proofs a moving tag asks for, and whether a digest has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from builder.core.accept import Accept, unknown_keys
from builder.core.candidate import Candidate
from builder.core.receipt import Receipt
from builder.core.reference import build_of
from builder.core.spec import parse_toml


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rule(_Table):
    """`[[rule]]`: what some tags of some images ask for; the first rule that fits decides."""

    images: Annotated[list[str], Field(min_length=1)]
    """Image names; `*` stands for anything."""
    tags: Annotated[list[str], Field(min_length=1)]
    receipts: Annotated[list[str], Field(min_length=1)]
    """Kinds of receipts, all of them, each passed for exactly the digest that is promoted."""


class Policy(_Table):
    """images/policy.toml."""

    rule: Annotated[list[Rule], Field(min_length=1)]
    accept: list[Accept] = []
    """Findings that somebody has looked at."""

    @field_validator("accept")
    @classmethod
    def _known(cls, rows: list[Accept]) -> list[Accept]:
        if unknown := unknown_keys(rows):
            raise ValueError(f"no finding has the key {', '.join(unknown)}")
        return rows

    def rule_for(self, image: str, tag: str) -> Rule | None:
        """Find the first rule that names both."""
        for rule in self.rule:
            if any(fnmatchcase(image, glob) for glob in rule.images) and tag in rule.tags:
                return rule
        return None

    def tags_of(self, image: str) -> tuple[str, ...]:
        """List the moving tags this image may have."""
        tags = [
            tag
            for rule in self.rule
            if any(fnmatchcase(image, glob) for glob in rule.images)
            for tag in rule.tags
        ]
        return tuple(dict.fromkeys(tags))


def parse_policy(text: str, path: str) -> Policy:
    """Parse policy.toml; every problem of the file in one SpecError."""
    return parse_toml(Policy, text, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """A condition that does not hold, and what would satisfy it."""

    what: str
    action: str


def unmet(
    candidate: Candidate,
    tags: Mapping[str, str],
    receipts: Iterable[Receipt],
    policy: Policy,
) -> tuple[Unmet, ...]:
    """List every condition that does not hold; `tags` maps each tag to its present digest.

    The chain is checked on the way: a receipt counts only when its lock digest and build id are
    those of the image's labels.
    """
    known = list(receipts)
    missing: list[Unmet] = []
    if not candidate.lock or not candidate.build:
        missing.append(
            Unmet(
                what="the image's labels name no lock digest and build id",
                action="promote only what `nightlock build` made",
            )
        )
    kinds: dict[str, list[str]] = {}
    for tag, present in tags.items():
        if build_of(tag):
            missing += _immutable(candidate, tag, present)
            continue
        rule = policy.rule_for(candidate.image, tag)
        if rule is None:
            allowed = ", ".join(policy.tags_of(candidate.image)) or "none"
            missing.append(
                Unmet(
                    what=f"the policy names no tag {tag!r} for image {candidate.image!r}",
                    action=f"use one of its tags ({allowed}), or add a rule to images/policy.toml",
                )
            )
            continue
        for kind in rule.receipts:
            kinds.setdefault(kind, []).append(tag)
    for kind, wanting in kinds.items():
        missing += _proof(candidate, kind, wanting, known)
    return tuple(missing)


def _immutable(candidate: Candidate, tag: str, present: str) -> list[Unmet]:
    if present and present != candidate.digest:
        return [
            Unmet(
                what=f"{tag} is immutable and names {present} already",
                action="build again: other content has another build id, and so another tag",
            )
        ]
    own = candidate.build.removeprefix("sha256:")[:12]
    if build_of(tag) != own:
        return [
            Unmet(
                what=f"{tag} ends in another build id than the image's own {own or '(none)'}",
                action="leave immutable tags to `nightlock build`",
            )
        ]
    return []


def _proof(
    candidate: Candidate, kind: str, tags: list[str], receipts: list[Receipt]
) -> list[Unmet]:
    wanted = ", ".join(tags)
    fitting = [
        receipt.predicate
        for receipt in receipts
        if receipt.proves(candidate.digest) and receipt.predicate.kind == kind
    ]
    # Records come newest first: what the last run said counts, an older pass does not excuse it.
    for proof in fitting[:1]:
        chain = (proof.lock, proof.build) == (candidate.lock, candidate.build)
        if proof.verdict == "pass" and chain:
            return []
        if not chain:
            return [
                Unmet(
                    what=(
                        f"the {kind} receipt is for lock {proof.lock}, build {proof.build}; "
                        f"the image's labels name {candidate.lock}, {candidate.build}"
                    ),
                    action="run `nightlock smoke` on this digest again",
                )
            ]
        return [
            Unmet(
                what=f"{wanted}: the last {kind} receipt of this digest says {proof.verdict}",
                action="see its report, and promote another build",
            )
        ]
    return [
        Unmet(
            what=f"{wanted}: there is no {kind} receipt for this digest",
            action=_how_to_prove(kind),
        )
    ]


def _how_to_prove(kind: str) -> str:
    where = f" on a machine with {kind.removeprefix('gpu:')}" if kind.startswith("gpu:") else ""
    return f"run `nightlock smoke` on it{where}, which writes a {kind} receipt when it passes"
