"""From a log to its cause: an incremental reader, and the verdict at the end.

The first specific error counts; wrappers, and what only repeats that something failed, do not. A
signal before the first error means that somebody stopped it; silence or progress tell a hang from
work. What no signature knows is said to be not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from builder.core.finding import Finding, Severity
from builder.core.keys import KEYS, finding
from builder.core.logline import LogLine, parse_line, seconds_of
from builder.core.logscan import ALL, NOT_HUNGRY, QUOTING, TRACEBACK
from builder.core.signature_table import SignatureTable
from builder.core.start import Hit, Seen, Start
from builder.core.tracebacks import Tracebacks
from builder.core.verdict import Verdict, judge_start

Status = Literal["failed", "stopped", "up", "unfinished", "empty"]
"""`up`: it came up and nothing is known against it; `unfinished`: the log ends before that."""

_SOURCES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a log tells."""

    status: Status
    root: Hit | None
    """The root cause; None when nothing failed, or when it is not known."""
    first_error: Seen | None
    """Where the cause is not known: the first specific error."""
    others: tuple[Hit, ...]
    """In the order of the log."""
    starts: int
    """Starts that are in the log, of the program that the verdict is about."""
    times: int
    """Starts that ended with this root cause; three and more are a loop."""
    phase: str
    """The last phase that was reached; empty for none."""

    @property
    def failed(self) -> bool:
        """Whether the answer is no: a server that served and was stopped did not fail."""
        if self.status == "stopped" and self.phase == "serve":
            return False
        return self.root is not None or self.first_error is not None

    def findings(self, subject: str) -> tuple[Finding, ...]:
        """Every finding, the root cause first."""
        hits = [*([self.root] if self.root else []), *self.others]
        return tuple(finding_of(hit, subject) for hit in hits)


def finding_of(hit: Hit, subject: str) -> Finding:
    """Lay out a hit as a finding."""
    severity = hit.severity or None
    if hit.survived and severity == "error":
        severity = "warning"
    if hit.key in KEYS:
        return finding(
            hit.key,
            subject=subject,
            evidence=place_of(hit.seen) + hit.seen.text,
            severity=severity or _milder(KEYS[hit.key].severity, hit),
            cause=hit.cause or None,
            action=hit.action or None,
        )
    return Finding(
        key=hit.key,
        severity=severity or "error",
        subject=subject,
        evidence=place_of(hit.seen) + hit.seen.text,
        cause=hit.cause,
        action=hit.action,
    )


def _milder(usual: Severity, hit: Hit) -> Severity:
    """Take the key's own severity, but for notes and for what the server survived."""
    return "warning" if usual == "error" and (hit.role == "note" or hit.survived) else usual


def place_of(seen: Seen) -> str:
    """Say where a line stands, as `line 12, Worker_TP1 (pid 97): `."""
    line = f"line {seen.number}" if seen.number else ""
    parts = [part for part in (line, seen.source, seen.process) if part]
    return ", ".join(parts) + ": " if parts else ""


class Diagnoser:
    """Reads a log line by line; `diagnosis` may be asked at any time."""

    def __init__(self, table: SignatureTable) -> None:
        self._table = table
        self._tracebacks = Tracebacks()
        self._programs: dict[str, _Program] = {}
        self.hunger = ALL
        """Which of the next lines matter, whatever they say; see `LogScan`. The first one does."""
        self._packed = False
        self._number = 0
        self._observed: str | None = None

    def feed(self, line: str) -> None:
        """Take the next line of a log that comes line by line."""
        self.take(self._number + 1, line)

    def take(self, number: int, line: str) -> None:
        """Take a line by its number; those between that say nothing may be left out."""
        self._number = number
        if number == 1:
            self._packed = line.startswith(('{"log":', '{"__', '{"MESSAGE"'))
        for parsed in parse_line(number, line):
            if parsed.text:
                self._take(parsed)
        if self._packed or self._waiting():
            self.hunger = ALL
        else:
            self.hunger = TRACEBACK if self._tracebacks.unfinished else NOT_HUNGRY

    def note(self, source: str, text: str) -> None:
        """Take what another place than the log says, as `docker inspect`; its number is 0."""
        self._take(LogLine(0, text, source=source))

    def diagnosis(self, *, now: float | None = None) -> Diagnosis:
        """Say what is known; `now` is when the log was read while its writer still ran.

        Seconds since the epoch. With it a silence can be told from a log that has just begun.
        """
        observed = now if self._observed is None else seconds_of(self._observed)
        verdicts = [
            program.verdict(observed, told=self._observed is not None)
            for program in self._programs.values()
        ]
        failed = [verdict for verdict in verdicts if verdict.failed]
        if failed:
            chosen = min(failed, key=lambda verdict: verdict.order)
        elif verdicts:
            chosen = max(verdicts, key=lambda verdict: verdict.progress)
        else:
            return Diagnosis(
                status="empty" if not self._number else "unfinished",
                root=None, first_error=None, others=(), starts=0, times=0, phase="",
            )  # fmt: skip
        others: dict[str, Hit] = {}
        for hit in sorted((hit for v in verdicts for hit in v.others), key=lambda h: h.seen.number):
            if chosen.root is None or hit.key != chosen.root.key:
                others.setdefault(hit.key, hit)
        for verdict in failed:
            if verdict.root and chosen.root and verdict.root.key != chosen.root.key:
                others[verdict.root.key] = verdict.root
        return Diagnosis(
            status=chosen.status,
            root=chosen.root,
            first_error=chosen.unknown,
            others=tuple(others.values()),
            starts=chosen.starts,
            times=chosen.times if chosen.failed else 0,
            phase=chosen.phase,
        )

    def _waiting(self) -> bool:
        return any(program.now.waiting for program in self._programs.values())

    def _take(self, line: LogLine) -> None:
        program = self._programs.get(line.source)
        if program is None:
            if len(self._programs) >= _SOURCES:
                return
            program = self._programs[line.source] = _Program()
        inside, ends = self._tracebacks.follow(line)
        if inside and not ends:
            program.now.frame()
            return
        quiet = line.level in ("INFO", "DEBUG")
        text = "" if quiet and line.text.startswith(QUOTING) else line.text
        meaning = self._table.meaning(text, quiet=quiet)
        if meaning.mark is not None and meaning.mark.kind == "observed":
            self._observed = line.text.partition("bserved at")[2].strip(" :\t])")
        if meaning.mark is not None and meaning.mark.kind == "start":
            program.begin()
        trace = self._tracebacks.near(line)
        program.now.take(line, meaning, trace, self._table, ends_traceback=ends)


class _Program:
    """The starts of one program, of which only the last and the last that failed are kept."""

    def __init__(self) -> None:
        self.now = Start()
        self.failed: Verdict | None = None
        self.past: dict[str, int] = {}
        """Root cause → earlier starts that ended with it."""
        self.starts = 1

    def begin(self) -> None:
        """Begin a new start where the last one had come anywhere."""
        if not self.now.touched:
            return
        verdict = judge_start(self.now)
        if verdict.failed:
            self.failed = verdict
            key = verdict.root.key if verdict.root else "unknown"
            self.past[key] = self.past.get(key, 0) + 1
        self.now = Start()
        self.starts += 1

    def verdict(self, observed: float | None, *, told: bool) -> Verdict:
        """Judge the last start; where it is cut off, the one before it counts."""
        verdict = judge_start(self.now, observed, told=told)
        if verdict.status == "unfinished" and self.failed is not None:
            verdict = self.failed
        return verdict.among(self.starts, self.past)
