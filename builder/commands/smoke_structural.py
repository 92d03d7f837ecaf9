"""The gate before a boot: what is inside an image, beside its lock, and whether it works."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builder.commands.context import Context
from builder.core.boot import Expired
from builder.core.candidate import Candidate
from builder.core.dockerfile import CACHE
from builder.core.finding import Finding
from builder.core.lock import Lock, digest_of
from builder.core.smoke import CheckResult, Machine, Phase, SmokeReport, overall
from builder.core.structural import NAME, Asked, Judged, judge, unanswered
from builder.core.structural_probe import ALL_SECONDS, Probe, question
from builder.core.trial import Ended, Trial
from builder.edge import container, probes, records, trial
from builder.edge.distribution import own_version
from builder.edge.engine import Engine
from builder.edge.image_lock import read_image_lock

_USERS = range(100_000, 1_000_000)
"""User and group ids no image and hardly any host knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How the structural test of one digest ended, now or earlier."""

    report: SmokeReport
    folder: Path
    reused: bool


def find(context: Context, candidate: Candidate) -> Gate | None:
    """Return an earlier pass of the same test on the same digest."""
    report = records.find_report(context.places, candidate.digest, _digest())
    if report is None:
        return None
    return Gate(report=report, folder=records.folder_of(context.places, report), reused=True)


def prove(context: Context, candidate: Candidate, engine: Engine, machine: Machine) -> Gate:
    """Run the test, write report and receipt.

    Raises LockFileError when the image holds no lock, or another than its label says; BootFailed
    when the container cannot start; NetworkError, RegistryError, EngineError, DiskFull.
    """
    started, began = datetime.now(UTC), time.monotonic()
    pinned = candidate.ref.pinned
    lock = read_image_lock(candidate.ref, os.environ)
    with (
        context.output.step("pull", f"pulling {pinned}"),
        context.output.bar("layers", unit="layers") as bar,
    ):
        container.pull(engine, pinned, lambda _: bar.advance(1))
    asked = _asked(candidate, lock)
    arguments = ("python", "-c", probes.read("structural"), asked.question.text())
    plan = Trial(image=pinned, arguments=arguments, user=asked.user, caches=CACHE)
    with context.output.step("structural", f"looking inside as user {asked.user}, offline"):
        ended = trial.run(engine, plan, ALL_SECONDS)
    probe = Probe.parse(ended.out)
    judged = judge(asked, probe) if probe else (unanswered(pinned, _said(ended)),)
    for row in judged:
        context.output.event(
            "structural-check", check=row.name, status=row.status, reason=row.reason
        )
        context.output.detail(f"  {row.name}: {row.status}: {row.reason}")
    report = _report(candidate, machine, judged, started, time.monotonic() - began)
    stamp = f"{started.strftime('%Y%m%dT%H%M%S.%fZ')}-{os.getpid()}-{NAME}"
    folder = records.smoke_folder(context.places, candidate.digest, stamp)
    evidence = {"probe.json": ended.out.encode(), "probe.log": ended.err.encode()}
    records.write_report(folder, report, evidence)
    return Gate(report=report, folder=folder, reused=False)


def _asked(candidate: Candidate, lock: Lock) -> Asked:
    user = f"{_USERS.start + secrets.randbelow(len(_USERS))}"
    group = f"{_USERS.start + secrets.randbelow(len(_USERS))}"
    return Asked(
        subject=candidate.ref.pinned,
        lock=lock,
        platform=candidate.platform,
        targets=candidate.targets,
        question=question(lock, candidate.platform, candidate.targets, ptxas=probes.read("ptxas")),
        user=f"{user}:{group}",
    )


def _digest() -> str:
    """Name what a pass is about: a later nightlock's test is another test."""
    programs = [probes.read(name) for name in ("structural", "ptxas")]
    return digest_of("\n".join([own_version(), *programs]).encode())


def _said(ended: Ended) -> str:
    last = " | ".join(line for line in ended.err.splitlines() if line.strip())[-600:]
    if isinstance(ended.end, Expired):
        return f"no answer within {ended.end.seconds:g} s: {last}"
    return f"the container {ended.end.text}: {last or 'it said nothing'}"


def _report(
    candidate: Candidate,
    machine: Machine,
    judged: tuple[Judged, ...],
    started: datetime,
    seconds: float,
) -> SmokeReport:
    checks = tuple(_row(row) for row in judged)
    lost = judged[0].reason if judged[0].name == "answer" else ""
    findings: tuple[Finding, ...] = tuple(one for row in judged for one in row.findings)
    return SmokeReport(
        reference=str(candidate.ref),
        name=candidate.ref.name,
        digest=candidate.digest,
        platform=candidate.platform,
        image=candidate.image,
        lock=candidate.lock,
        build=candidate.build,
        vllm=candidate.vllm,
        profile=NAME,
        profile_digest=_digest(),
        kind=NAME,
        verdict=overall(checks),
        failure=lost,
        started=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        nightlock=own_version(),
        machine=machine,
        phases=(Phase(name=NAME, seconds=round(seconds, 3), deadline=ALL_SECONDS),),
        checks=checks,
        findings=findings,
    )


def _row(row: Judged) -> CheckResult:
    return CheckResult(
        name=row.name,
        request="",
        status=row.status,
        reason=row.reason,
        key=row.findings[0].key if row.findings else "",
        blame="image" if row.status == "fail" else "test" if row.status == "inconclusive" else "",
        seconds=row.seconds,
        first_seconds=0,
        asked="",
        answered="",
    )
