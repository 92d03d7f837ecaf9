"""SmokeReport: what a boot and its checks showed about one digest."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from builder.core.drift import Score
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.receipt import Predicate, Proof, Receipt, Subject
from builder.core.ruling import Blame, Status
from builder.core.timeline import Timeline

SCHEMA: Literal["nightlock/smoke-report/1"] = "nightlock/smoke-report/1"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Phase(_Table):
    """One part of a boot."""

    name: str
    seconds: float
    deadline: float
    """Seconds it was given; 0 where there was none."""
    note: str = ""


class CheckResult(_Table):
    """One check, what was asked, what came, how it was judged."""

    name: str
    request: str
    """Method and path."""
    status: Status
    reason: str
    key: str = ""
    blame: Blame = ""
    seconds: float
    first_seconds: float
    """Until the first byte of the answer."""
    asked: str
    answered: str
    figures: dict[str, float] = {}
    """What was measured, by name with its unit: latencies and throughput of a burst."""
    scores: tuple[Score, ...] = ()
    """Tokens with their log probabilities, for the next image to be compared with."""


class Machine(_Table):
    """Where it ran, as the engine describes it."""

    system: str
    kernel: str
    architecture: str
    cores: int
    memory_bytes: int
    engine: str
    """Engine version."""
    private: bool
    """Whether it is nightlock's own engine."""


class SmokeReport(_Table):
    """A whole report; the receipt is its short form."""

    schema_: Literal["nightlock/smoke-report/1"] = Field(default=SCHEMA, alias="schema")
    reference: str
    """As it was asked for."""
    name: str
    """Registry and repository."""
    digest: str
    """Manifest (or index) digest that was booted."""
    platform: str
    image: str
    """Name by the image's labels."""
    lock: str
    build: str
    vllm: str
    profile: str
    profile_digest: str
    kind: str
    """Kind of receipt a pass earns."""
    verdict: Literal["pass", "fail", "inconclusive"]
    failure: str = ""
    """Why the boot itself failed; empty when the server answered."""
    started: str
    finished: str
    """RFC 3339, UTC."""
    nightlock: str
    machine: Machine
    phases: tuple[Phase, ...]
    timeline: Timeline = Timeline()
    """Phases of each process, read from the log; empty where nothing was booted."""
    checks: tuple[CheckResult, ...]
    findings: tuple[Finding, ...]

    def text(self) -> str:
        """Spell it as a file."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @property
    def answer(self) -> str:
        """The first answer that passed, for people; empty when none did."""
        chats = (c for c in self.checks if c.status == "pass" and c.request.startswith("POST"))
        return next((check.answered for check in chats), "")


def overall(checks: Iterable[CheckResult]) -> Literal["pass", "fail", "inconclusive"]:
    """Sum up: a fail fails, and what was not proven is not a pass."""
    states = {check.status for check in checks}
    if "fail" in states:
        return "fail"
    return "pass" if "pass" in states and "inconclusive" not in states else "inconclusive"


def receipt_of(report: SmokeReport) -> Receipt:
    """Shorten a report to the statement that goes with the image."""
    machine: dict[str, JsonValue] = report.machine.model_dump(mode="json")
    return Receipt(
        subject=(
            Subject(name=report.name, digest={"sha256": report.digest.removeprefix("sha256:")}),
        ),
        predicate=Predicate(
            kind=report.kind,
            verdict=report.verdict,
            lock=report.lock,
            build=report.build,
            profile=report.profile,
            profile_digest=report.profile_digest,
            checks=tuple(Proof(name=check.name, status=check.status) for check in report.checks),
            timeline={phase.name: phase.seconds for phase in report.phases},
            startup=report.timeline,
            machine=machine,
            nightlock=report.nightlock,
            finished=report.finished,
        ),
    )


def findings_of(checks: Iterable[CheckResult], subject: str) -> tuple[Finding, ...]:
    """Turn what did not pass into findings; only a fail is an error."""
    return tuple(
        finding(
            check.key,
            subject=f"{subject}, check {check.name}",
            evidence=check.reason,
            severity="error" if check.status == "fail" else "warning",
        )
        for check in checks
        if check.status != "pass" and check.key
    )


def junit(report: SmokeReport) -> str:
    """Spell the checks as JUnit XML, in the dialect GitHub's and GitLab's readers share."""
    broken = 1 if report.failure else 0
    suite = ET.Element(
        "testsuite",
        name=f"smoke {report.profile}",
        tests=str(len(report.checks) + broken),
        failures=str(broken + sum(c.status in ("fail", "inconclusive") for c in report.checks)),
        skipped=str(sum(c.status == "skip" for c in report.checks)),
        errors="0",
        time=f"{sum(phase.seconds for phase in report.phases):.3f}",
        timestamp=report.started.removesuffix("Z"),
    )
    if report.failure:
        case = ET.SubElement(suite, "testcase", classname="smoke", name="boot")
        ET.SubElement(case, "failure", message=_xml(report.failure))
    for check in report.checks:
        case = ET.SubElement(
            suite, "testcase", classname="smoke", name=check.name, time=f"{check.seconds:.3f}"
        )
        if check.status in ("fail", "inconclusive"):
            node = ET.SubElement(case, "failure", message=_xml(check.reason), type=check.status)
            node.text = _xml(f"asked: {check.asked}\nanswered: {check.answered}")
        elif check.status == "skip":
            ET.SubElement(case, "skipped", message=_xml(check.reason))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """Drop what XML 1.0 cannot hold, not even escaped."""
    return "".join(char for char in text if char >= " " or char in "\n\t\r")
