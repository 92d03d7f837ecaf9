"""smoke REF: boot the digest a reference names, ask it real questions, write report and receipt."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builder.commands import smoke_structural
from builder.commands.context import Context, Outcome
from builder.commands.diagnose import causes_in
from builder.commands.signer import open_signer
from builder.commands.smoke_memory import await_return
from builder.commands.smoke_outputs import EVIDENCE, Wanted, evidence_of, hand_out, page
from builder.commands.smoke_phases import Session
from builder.commands.smoke_receipt import Post
from builder.commands.smoke_structural import Gate
from builder.commands.smoke_timeline import find_previous, over_budget, whole
from builder.core.boot import BootPlan
from builder.core.candidate import Candidate
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.reference import ImageRef
from builder.core.smoke import (
    CheckResult,
    Machine,
    Phase,
    SmokeReport,
    findings_of,
    overall,
)
from builder.core.smoke_html import FAULT
from builder.core.timeline import Timeline
from builder.edge import container, gpu_memory, profiles, project, records
from builder.edge.distribution import own_version
from builder.edge.engine import Engine, require_engine
from builder.edge.openai import OpenAI
from builder.edge.profiles import BoundProfile
from builder.edge.registry import Registry
from builder.errors import BadInput, BootFailed

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class StructuralRow(Result):
    """The structural test, which comes before any boot."""

    verdict: str
    """`pass`, `fail`, `inconclusive`; `skip` for an image that names no lock."""
    reused: bool
    """Whether this digest had passed it before."""
    seconds: float
    checks: list[CheckResult]
    folder: str
    """Report, receipt and evidence; empty after a skip."""


class SmokeResult(Result):
    """What was proven, and where the evidence lies."""

    reference: str
    """Pinned."""
    digest: str
    profile: str
    kind: str
    verdict: str
    answer: str
    """The first answer that was right."""
    phases: dict[str, float]
    """Seconds."""
    timeline: Timeline
    """Phases of each process, in seconds since the container was asked for."""
    previous: str
    """Digest of the earlier start that it was compared with; empty for none."""
    checks: list[CheckResult]
    folder: str
    """Report, receipt, JUnit file and log."""
    structural: StructuralRow
    receipts: list[str]
    """Digests under which receipts are attached to the image: the structural test's, the boot's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What does not change during one smoke."""

    candidate: Candidate
    bound: BoundProfile
    engine: Engine
    machine: Machine
    started: datetime
    budget: float | None
    """Seconds until the first answer that the gate allows."""
    previous: SmokeReport | None
    """The start before, to compare with."""


def run(
    context: Context,
    ref: str,
    *,
    profile: str = "",
    image: str = "",
    out: Path | None = None,
    junit_file: Path | None = None,
    html_file: Path | None = None,
    evidence: Path | None = None,
    structural_only: bool = False,
    startup_budget: float | None = None,
) -> Outcome[SmokeResult]:
    """Look inside, boot, judge; `ok` only when every check passed or was not asked for.

    Nothing is booted unless the structural test passes, now or earlier on this digest. An image
    whose labels name no lock is not ours: there is nothing to compare it with, and it is booted.
    `structural_only` runs that test alone, and anew. What fails leaves a bundle of evidence in its
    record; `evidence` is a folder that gets one either way. `startup_budget`: seconds until the
    first answer, above which the smoke fails.

    Raises BootFailed (with findings, after the report was written) when the server never answered
    or ended; BadInput, SpecError, NetworkError, RegistryError, EngineError, PortTaken, ToolMissing.
    """
    asked = ImageRef.parse(ref)
    wanted = Wanted(out=out, junit=junit_file, html=html_file, evidence=evidence)
    # A profile that is named is read before anything is asked or booted.
    named = profiles.read_profile(context.project, profile) if profile else None
    signer = open_signer(context)
    engine = require_engine(context.places, context.settings, os.environ)
    machine = container.describe(engine)
    candidate = _resolve(asked, machine)
    post = Post(context=context, candidate=candidate, signer=signer)
    if structural_only:
        gate = smoke_structural.prove(context, candidate, engine, machine)
        post.take(gate.report)
        return _gate_alone(gate, post, wanted)
    bound = named or _bound(context, image or candidate.image, candidate)
    found = _gate(context, candidate, engine, machine)
    if found is not None:
        post.take(found.report)
        if found.report.verdict != "pass":
            return _gate_alone(found, post, wanted)
    this = _Run(
        candidate=candidate,
        bound=bound,
        engine=engine,
        machine=machine,
        started=datetime.now(UTC),
        budget=startup_budget,
        previous=find_previous(context.places, candidate.ref.name, bound.name),
    )
    report, folder, failure = _smoke(context, this, wanted)
    if failure is not None:
        raise failure
    post.take(report)
    return _outcome(report, folder, found, post, this.previous)


def _gate(context: Context, candidate: Candidate, engine: Engine, machine: Machine) -> Gate | None:
    """Prove the image's structure, or find that it was proven; None when it names no lock."""
    if not candidate.lock:
        context.output.note(f"{candidate.ref} names no lock: no structural test, it is booted")
        return None
    found = smoke_structural.find(context, candidate)
    return found or smoke_structural.prove(context, candidate, engine, machine)


def _gate_alone(gate: Gate, post: Post, wanted: Wanted) -> Outcome[SmokeResult]:
    log = gate.folder / "probe.log"
    said = log.read_bytes() if wanted.evidence is not None and log.exists() else b""
    bundle = evidence_of(gate.report, said, {}) if wanted.evidence is not None else {}
    hand_out(gate.report, gate.folder, wanted, bundle)
    return _outcome(gate.report, gate.folder, gate, post)


def _outcome(
    report: SmokeReport,
    folder: Path,
    gate: Gate | None,
    post: Post,
    previous: SmokeReport | None = None,
) -> Outcome[SmokeResult]:
    return Outcome(
        result=_result(report, folder, gate, post, previous),
        text=_text(report, folder, previous),
        ok=report.verdict == "pass",
        findings=(*report.findings, *post.findings),
    )


def _resolve(wanted: ImageRef, machine: Machine) -> Candidate:
    platform = f"linux/{_ARCHITECTURES.get(machine.architecture, machine.architecture)}"
    with Registry.open(wanted.registry, os.environ) as registry:
        manifest = registry.manifest(wanted)
        return Candidate.of(wanted, manifest, registry.config(wanted, manifest, platform))


def _bound(context: Context, image: str, candidate: Candidate) -> BoundProfile:
    known = project.image_names(context.project)
    table = project.read_spec(context.project, image).smoke if image in known else None
    if table is None:
        raise BadInput(
            f"no profile is known for image {image or '(no label)'!r}",
            subject=str(candidate.ref),
            action="name one with --profile NAME, or the image with --image NAME",
        )
    return profiles.read_profile(context.project, table.profile)


def _smoke(
    context: Context, this: _Run, wanted: Wanted
) -> tuple[SmokeReport, Path, BootFailed | None]:
    """Boot, ask, write the report, whatever came out."""
    pinned = this.candidate.ref.pinned
    session = Session(
        profile=this.bound.profile,
        subject=pinned,
        version=this.candidate.vllm,
        output=context.output,
        before={row.name: row.scores for row in this.previous.checks} if this.previous else {},
    )
    failure: BootFailed | None = None
    stamp = this.started.strftime("%Y%m%dT%H%M%S.%fZ")
    folder = records.smoke_folder(context.places, this.candidate.digest, f"{stamp}-{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="nightlock-smoke-") as scratch:
        log = Path(scratch) / "server.log"
        with (
            context.output.step("pull", f"pulling {pinned}"),
            context.output.bar("layers", unit="layers") as bar,
        ):
            container.pull(this.engine, pinned, lambda _: bar.advance(1))
        try:
            _boot(this, session, log)
        except BootFailed as error:
            failure = error
            found = causes_in(context, log, pinned, failure.what)
            failure.findings = found or _unnamed(session, failure, pinned)
            failure.action = f"read {folder / 'server.log'}"
        report = _report(this, session, failure)
        before = this.previous.timeline if this.previous is not None else None
        said = log.read_bytes() if log.exists() else b""
        left = {"server.log": said, "report.html": page(report, before).encode()}
        bundle: dict[str, bytes] = {}
        if report.verdict != "pass" or wanted.evidence is not None:
            bundle = evidence_of(report, said, session.inspected, this.bound.profile)
        if report.verdict != "pass":
            left |= {f"{EVIDENCE}/{name}": data for name, data in bundle.items()}
        records.write_report(folder, report, left)
    hand_out(report, folder, wanted, bundle)
    return report, folder, failure


def _boot(this: _Run, session: Session, log: Path) -> None:
    profile = this.bound.profile
    plan = BootPlan(
        image=this.candidate.ref.pinned,
        arguments=tuple(profile.server.arguments),
        environment=profile.server.environment,
        port=profile.server.port,
        host_port=profile.server.host_port,
        shm_bytes=profile.server.shm_mib << 20,
        folder=str(this.bound.folder or ""),
        mount=profile.model.mount,
        grace=profile.grace,
        gpus=profile.run.gpus if profile.kind.startswith("gpu:") else 0,
        gpu_ids=tuple(profile.server.gpus),
        ipc=profile.server.ipc,
        volumes=tuple(profile.server.volumes),
    )
    before = gpu_memory.look(this.engine, plan) if plan.gpus or plan.gpu_ids else None
    with session.output.step("boot", "booting, asking, judging"):
        began = time.monotonic()
        with container.boot(this.engine, plan, log, profile.deadlines.start) as server:
            session.phases.append(
                Phase(
                    name="start",
                    seconds=round(time.monotonic() - began, 3),
                    deadline=profile.deadlines.start,
                )
            )
            try:
                with OpenAI(server.address) as client:
                    session.until_ready(server, client)
                    session.run_checks(server, client)
            finally:
                session.log = server.log.timeline()
                session.inspected = server.inspected
            stopping = time.monotonic()
        session.phases.append(
            Phase(
                name="stop",
                seconds=round(time.monotonic() - stopping, 3),
                deadline=profile.grace,
            )
        )
    if before is not None:
        session.findings += await_return(
            before,
            lambda: gpu_memory.look(this.engine, plan),
            profile.deadlines.gpu_memory,
            session.subject,
        )


def _unnamed(session: Session, failure: BootFailed, subject: str) -> tuple[Finding, ...]:
    """Without a line that names the cause, the phase that broke is what is known."""
    if not session.key:
        return ()
    return (finding(session.key, subject=subject, evidence=failure.what, severity="error"),)


def _report(this: _Run, session: Session, failure: BootFailed | None) -> SmokeReport:
    candidate, bound = this.candidate, this.bound
    checks = tuple(session.checks)
    timeline = whole(session.log, session.phases)
    pinned = candidate.ref.pinned
    boot = (
        *session.findings,
        *over_budget(timeline, this.budget, this.previous, pinned),
    )
    return SmokeReport(
        reference=str(candidate.ref),
        name=candidate.ref.name,
        digest=candidate.digest,
        platform=candidate.platform,
        image=candidate.image,
        lock=candidate.lock,
        build=candidate.build,
        vllm=candidate.vllm,
        profile=bound.name,
        profile_digest=bound.digest,
        kind=bound.profile.kind,
        verdict="fail" if failure is not None or boot else overall(checks),
        failure=failure.what if failure is not None else "",
        started=this.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        nightlock=own_version(),
        machine=this.machine,
        phases=tuple(session.phases),
        timeline=timeline,
        checks=checks,
        findings=failure.findings if failure is not None else (*findings_of(checks, pinned), *boot),
    )


def _result(
    report: SmokeReport,
    folder: Path,
    gate: Gate | None,
    post: Post,
    previous: SmokeReport | None,
) -> SmokeResult:
    looked = gate.report if gate else None
    return SmokeResult(
        reference=f"{report.name}@{report.digest}",
        digest=report.digest,
        profile=report.profile,
        kind=report.kind,
        verdict=report.verdict,
        answer=report.answer,
        phases={phase.name: phase.seconds for phase in report.phases},
        timeline=report.timeline,
        previous=previous.digest if previous is not None else "",
        checks=list(report.checks),
        folder=str(folder),
        structural=StructuralRow(
            verdict=looked.verdict if looked else "skip",
            reused=bool(gate and gate.reused),
            seconds=sum(phase.seconds for phase in looked.phases) if looked else 0,
            checks=list(looked.checks) if looked else [],
            folder=str(gate.folder) if gate else "",
        ),
        receipts=post.digests,
    )


def _text(report: SmokeReport, folder: Path, previous: SmokeReport | None) -> str:
    width = max(len(check.name) for check in report.checks)
    rows = [
        f"  {check.name:{width}}  {check.status:12}  {check.reason[:100]}"
        + (f" ({FAULT[check.blame]})" if check.blame in FAULT else "")
        for check in report.checks
    ]
    head = f"{report.verdict}: {report.name}@{report.digest} under profile {report.profile}"
    phases = report.timeline.rows(previous.timeline if previous is not None else None)
    times = [f"  {row}" for row in phases]
    return "\n".join([head, *rows, *times, f"report: {folder}"])
