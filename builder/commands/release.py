"""`nightlock release IMAGE`: fetch, build, smoke, promote; each step recognises its own result."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from builder.commands import build, fetch, lock, promote, smoke
from builder.commands.build import BuildResult
from builder.commands.context import Context, Outcome
from builder.commands.fetch import FetchResult
from builder.commands.lock_result import LockChange
from builder.core.document import Result
from builder.core.smoke import CheckResult, Phase
from builder.edge import files, profiles, records
from builder.edge.project import read_lock_folder, read_spec
from builder.errors import AptDrift, Refused, SpecError


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
    proof = _smoke(context, built, spec.smoke.profile)
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
            smoke=proof.reused,
            promote=all(move.change == "unchanged" for move in promoted.tags),
        ),
    )
    return Outcome(result=result, text=_text(result))


def fill_store(
    context: Context, image: str, *, relock: bool
) -> tuple[Context, FetchResult, list[LockChange]]:
    """Fetch; the context that comes back names the lock whose files are in the store.

    With `relock`, .debs that are on no source any more are locked anew into the state folder.
    """
    try:
        return context, fetch.run(context, image).result, []
    except AptDrift as drift:
        if not relock:
            raise
        context.output.note(f"{drift.what}\n  locking the .debs alone anew; git stays as it is")
    relocked = replace(context, locks=context.places.state / "relock")
    folder = relocked.lock_folder(image)
    with (
        files.locked(folder.with_name(f"{image}.lock"), context.output.note),
        context.output.step("relock", f"locking the .debs of {image} anew into {folder}"),
    ):
        _, changes = lock.relock_debs(context, image, folder)
    for change in changes:
        context.output.note(f"  {change.name}: {change.old or 'new'} → {change.new or 'gone'}")
    return relocked, fetch.run(relocked, image).result, changes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    answer: str
    checks: tuple[CheckResult, ...]
    phases: tuple[Phase, ...]
    folder: Path
    reused: bool


def _smoke(context: Context, built: BuildResult, profile: str) -> _Proof:
    """Prove the digest, or find that this profile has proven it already."""
    wanted = profiles.read_profile(context.project, profile)
    report = records.find_report(context.places, built.digest, wanted.digest)
    if report is not None:
        return _Proof(
            answer=report.answer,
            checks=report.checks,
            phases=report.phases,
            folder=records.digest_folder(context.places, built.digest),
            reused=True,
        )
    outcome = smoke.run(context, built.reference, profile=profile)
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
