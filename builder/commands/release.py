"""`nightlock release IMAGE`: fetch, build, audit, smoke, promote; each step knows what it did."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from builder.commands import audit, build, fetch, lock, promote, smoke
from builder.commands.build import BuildResult
from builder.commands.context import Context, Outcome
from builder.commands.fetch import FetchResult
from builder.commands.lock_result import LockChange, changes_of
from builder.core.debs import with_debs
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.lock import Lock
from builder.core.smoke import CheckResult, Phase
from builder.edge import files, profiles, records
from builder.edge.distribution import own_version
from builder.edge.profiles import BoundProfile
from builder.edge.project import read_lock_folder, read_spec
from builder.edge.store import Store
from builder.errors import AptDrift, LockFileError, Refused, SpecError


class ReleaseResult(Result):
    """One image, from its lock to its tags."""

    image: str
    vllm: str
    lock_digest: str
    relocked: list[LockChange]
    """.debs that had to be locked anew, since Debian's mirrors dropped them; git is untouched."""
    reference: str
    """Pinned."""
    digest: str
    build_id: str
    tags: list[str]
    """The immutable one first, then those that were moved."""
    answer: str
    """What the server said to the first question."""
    checks: dict[str, str]
    """Check → how it ended."""
    folder: str
    """Report, receipt and log of the smoke."""
    fetched_bytes: int
    image_bytes: int
    """Compressed: what a pull of all moves."""
    phases: dict[str, float]
    """Seconds by step."""
    boot: dict[str, float]
    """Seconds by phase of the boot that proved the image, this one or an earlier one."""
    reused: list[str]
    """Steps whose result was there already."""


def run(
    context: Context,
    image: str,
    *,
    push: str = "",
    builder: str = "",
    relock: bool = False,
) -> Outcome[ReleaseResult]:
    """Do the chain; stop at the first no.

    With `relock`, .debs that are on no source any more are locked anew into the state folder and
    the chain goes on with that lock.

    Raises what `fetch`, `build`, `smoke` and `promote` raise; Refused when a check failed.
    """
    spec = read_spec(context.project, image)
    if spec.smoke is None:
        raise SpecError(
            "smoke.profile: missing; nothing says how this image is proven",
            subject=f"images/{image}/image.toml",
            action="name a profile of images/profiles/",
        )
    # Both are read now: a mistake in them must not show only after the build.
    wanted = profiles.read_profile(context.project, spec.smoke.profile)
    profiles.read_policy(context.project)
    phases: dict[str, float] = {}
    started = time.monotonic()

    def took(name: str) -> None:
        nonlocal started
        phases[name] = round(time.monotonic() - started, 3)
        started = time.monotonic()

    context, fetched, changes = fill_store(context, image, relock=relock)
    took("fetch")
    built = build.run(context, image, push=push, builder=builder).result
    took("build")
    audited = _audit(context, built)
    took("audit")
    proof = _smoke(context, built, wanted)
    took("smoke")
    tag = "nightly" if spec.lock.channel == "nightly" else "stable"
    promoted = promote.run(context, built.reference, (tag,)).result
    took("promote")
    result = ReleaseResult(
        image=image,
        vllm=read_lock_folder(context.lock_folder(image)).header.vllm.version,
        lock_digest=built.lock_digest,
        relocked=changes,
        reference=built.reference,
        digest=built.digest,
        build_id=built.build_id,
        tags=[*built.tags, *(move.tag for move in promoted.tags)],
        answer=proof.answer,
        checks={check.name: check.status for check in proof.checks},
        folder=str(proof.folder),
        fetched_bytes=fetched.bytes_fetched,
        image_bytes=built.size,
        phases=phases,
        boot={phase.name: phase.seconds for phase in proof.phases},
        reused=_reused(
            fetch=not fetched.bytes_fetched,
            build=built.cached,
            audit=audited is None,
            smoke=proof.reused,
            promote=all(move.change == "unchanged" for move in promoted.tags),
        ),
    )
    return Outcome(result=result, text=_text(result), findings=audited or ())


def fill_store(
    context: Context, image: str, *, relock: bool
) -> tuple[Context, FetchResult, list[LockChange]]:
    """Fetch; the context that comes back names the lock whose files are in the store.

    With `relock`, .debs that are on no source any more are locked anew into the state folder. That
    lock is used again, and nobody asked, as long as the project's own .debs are not in the store.
    """
    if not relock:
        return context, fetch.run(context, image).result, []
    own = read_lock_folder(context.lock_folder(image))
    # Named after the lock it stands in for: another lock of the project is another question.
    place = context.places.state / "relock" / own.digest.removeprefix("sha256:")[:16]
    relocked = replace(context, locks=place)
    folder = relocked.lock_folder(image)
    store = Store(context.places.store)
    earlier = _read_relocked(folder, own)
    if earlier is not None and has_debs(store, earlier) and not has_debs(store, own):
        context.output.note(
            f"some locked .debs of {image} are not in the store, those of {folder} are"
        )
    else:
        try:
            return context, fetch.run(context, image).result, []
        except AptDrift as drift:
            context.output.note(f"{drift.what}\n  locking the .debs alone anew; git stays as it is")
        with (
            files.locked(folder.with_name(f"{image}.lock"), context.output.note),
            context.output.step("relock", f"locking the .debs of {image} anew into {folder}"),
        ):
            earlier, _ = lock.relock_debs(context, image, folder)
    changes = changes_of(own, earlier)
    for change in changes:
        context.output.note(f"  {change.name}: {change.old or 'new'} → {change.new or 'gone'}")
    return relocked, fetch.run(relocked, image).result, changes


def differ_in_debs_alone(one: Lock, two: Lock) -> bool:
    """Whether all else is equal: spec, wheels, tools, layers."""
    if one.platforms.keys() != two.platforms.keys():
        return False
    moved = one
    for platform, content in two.platforms.items():
        moved = with_debs(moved, platform, content.debs)
    return moved.files() == two.files()


def has_debs(store: Store, lock: Lock) -> bool:
    """Whether every .deb of a lock is in the store."""
    pins = (pin for content in lock.platforms.values() for pin in content.debs)
    return all(store.has(pin.sha256, pin.size) for pin in pins)


def _read_relocked(folder: Path, own: Lock) -> Lock | None:
    """Read an earlier re-lock; None when there is none that fits or it is damaged."""
    try:
        found = read_lock_folder(folder)
    except LockFileError:
        return None
    return found if differ_in_debs_alone(own, found) else None


def _audit(context: Context, built: BuildResult) -> tuple[Finding, ...] | None:
    """Look into the image before it is booted; None when this nightlock found it clean before.

    Raises Refused, with the findings, when something is wrong with it.
    """
    if records.is_clean(context.places, built.digest, own_version()):
        return None
    with context.output.step("audit", f"looking into {built.reference}"):
        outcome = audit.run(context, image=built.reference)
    if not outcome.ok:
        context.output.note(outcome.text)
        refusal = Refused(
            "not promoted: the audit found what must not be in an image",
            subject=built.reference,
            action="mend what the findings name, or accept one for a while in images/policy.toml",
        )
        refusal.findings = outcome.findings
        raise refusal
    # What is accepted today may not be tomorrow.
    if not any(one.accepted for one in outcome.result.audits):
        records.write_clean(context.places, built.digest, own_version())
    return outcome.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    answer: str
    checks: tuple[CheckResult, ...]
    phases: tuple[Phase, ...]
    folder: Path
    reused: bool


def _smoke(context: Context, built: BuildResult, wanted: BoundProfile) -> _Proof:
    """Prove the digest, or find that this profile has proven it already."""
    report = records.find_report(context.places, built.digest, wanted.digest)
    if report is not None:
        return _Proof(
            answer=report.answer,
            checks=report.checks,
            phases=report.phases,
            folder=records.folder_of(context.places, report),
            reused=True,
        )
    outcome = smoke.run(context, built.reference, profile=wanted.name)
    if not outcome.ok:
        context.output.note(outcome.text)
        refusal = Refused(
            f"not promoted: the smoke test ended with {outcome.result.verdict}",
            subject=built.reference,
            action=f"read the report in {outcome.result.folder}",
        )
        refusal.findings = outcome.findings
        raise refusal
    newest = records.find_report(context.places, built.digest, wanted.digest)
    return _Proof(
        answer=outcome.result.answer,
        checks=tuple(outcome.result.checks),
        phases=newest.phases if newest else (),
        folder=Path(outcome.result.folder),
        reused=False,
    )


def _reused(**steps: bool) -> list[str]:
    return [name for name, reused in steps.items() if reused]


def _text(result: ReleaseResult) -> str:
    name = result.reference.partition("@")[0]
    return f"{name}:{result.tags[-1]} is {result.digest} (vLLM {result.vllm})"
