"""Smoke reports made by hand, for what reads them."""

from __future__ import annotations

from builder.core.finding import Finding
from builder.core.ruling import Status
from builder.core.smoke import CheckResult, Machine, Phase, SmokeReport, findings_of, overall

DIGEST = "sha256:" + "d" * 64
LOCK = "sha256:" + "1" * 64
BUILD = "sha256:" + "2" * 64
MACHINE = Machine(
    system="Debian GNU/Linux 12",
    kernel="6.1.0",
    architecture="x86_64",
    cores=2,
    memory_bytes=24 << 30,
    engine="26.1.5",
    private=True,
)


def check_result(name: str, status: Status = "pass", key: str = "") -> CheckResult:
    """Make the result of one chat."""
    return CheckResult(
        name=name,
        request="POST /v1/chat/completions",
        status=status,
        reason=f"because {status}",
        key=key,
        seconds=1.25,
        first_seconds=0.5,
        asked='{"model": "smoke"}',
        answered="Paris",
    )


def make_report(
    *checks: CheckResult,
    digest: str = DIGEST,
    lock: str = LOCK,
    build: str = BUILD,
    kind: str = "cpu",
    profile_digest: str = "sha256:" + "3" * 64,
    failure: str = "",
    findings: tuple[Finding, ...] = (),
) -> SmokeReport:
    """Make a report; without checks it holds one that passed."""
    results = checks or (check_result("capital"),)
    return SmokeReport(
        reference="localhost:5000/nightlock/cpu:x",
        name="localhost:5000/nightlock/cpu",
        digest=digest,
        platform="linux/amd64",
        image="cpu",
        lock=lock,
        build=build,
        vllm="0.32.0",
        profile="smoke-cpu",
        profile_digest=profile_digest,
        kind=kind,
        verdict="fail" if failure else overall(results),
        failure=failure,
        started="2026-11-30T17:00:00Z",
        finished="2026-11-30T17:01:00Z",
        nightlock="0.1",
        machine=MACHINE,
        phases=(Phase(name="health", seconds=30.5, deadline=400),),
        checks=results,
        findings=findings or findings_of(results, "x"),
    )
