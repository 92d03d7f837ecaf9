"""One start of one server, as its log tells it: how far it came, and what went wrong first."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from builder.core.derived import groups_of
from builder.core.finding import Severity
from builder.core.logline import LogLine
from builder.core.redaction import redact
from builder.core.signature import Mark, Role, Signature
from builder.core.signature_table import Meaning, SignatureTable
from builder.core.tracebacks import Traceback, is_exception

HANG_REPEATS = 5
"""Broadcast lines of one process with no other line between that make a hang."""
_EVIDENCE = 500
"""Characters of a line that are quoted."""
_PLACES = 16
_QUIET = ("DEBUG", "INFO", "WARNING")
_CRASH = re.compile(
    r"Segmentation fault|Fatal Python error|^Killed$|!!!+ Segfault|^fatal: |^CUDA error: "
    r"|^[\w./-]+: error: |^(?:docker: )?[Ee]rror(?:: | response )"
)
_GRAVE = ("cause", "weak")
_ERROR: Severity = "error"
_STRENGTH: dict[Role, int] = {"cause": 3, "weak": 2, "request": 1, "note": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A line that is evidence."""

    number: int
    process: str
    """With its pid, as `Worker_TP1 (pid 97)`; empty where the line says none."""
    source: str
    text: str
    """Redacted, and cut where it is long."""

    @classmethod
    def of(cls, line: LogLine) -> Seen:
        """Quote a line."""
        return cls(
            number=line.number,
            process=f"{line.process} (pid {line.pid})" if line.pid else line.process,
            source=line.source,
            text=redact(line.text.strip()[: 2 * _EVIDENCE])[:_EVIDENCE],
        )


@dataclass(slots=True, kw_only=True)
class Hit:
    """A finding that the log names."""

    key: str
    role: Role
    seen: Seen
    """The first line that names it."""
    severity: Severity | Literal[""] = ""
    """Empty: the key's own."""
    cause: str = ""
    """Empty: the key's own text."""
    action: str = ""
    count: int = 1
    places: set[str] = field(default_factory=set)
    """Processes that say it."""
    survived: bool = False
    """The server came up after it."""
    soft: bool = False
    """Said as a warning: a cause only where something failed."""


@dataclass(slots=True)
class Start:
    """What is known of one start; grows with each line, within bounds."""

    phase: str = ""
    phases: set[str] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
    hits: dict[str, Hit] = field(default_factory=dict)
    unknown: Seen | None = None
    """The first exception or crash that no signature knows."""
    unknown_error: Seen | None = None
    """The first line of level ERROR that no signature knows."""
    wrapper: Seen | None = None
    signal: Seen | None = None
    signal_first: bool = False
    """Nothing had gone wrong when it came."""
    up: int = 0
    """Number of the line that says the server listens; 0 before."""
    repeats: dict[tuple[str, int], int] = field(default_factory=dict)
    """Broadcast lines by process, since the last line of another kind."""
    broadcasts: int = 0
    broadcast: Seen | None = None
    """The first one of all."""
    run: Seen | None = None
    """The first one since the last line of another kind."""
    before: Mark | None = None
    """The phase that was reached when they began."""
    hang: Seen | None = None
    last: Mark | None = None
    """What the last line that says something was, if a mark; decides what a silence means."""
    last_seen: LogLine | None = None
    _phase_of: dict[tuple[str, int], str] = field(default_factory=dict)
    _mark_of_phase: Mark | None = None

    @property
    def touched(self) -> bool:
        """Whether anything happened after its beginning."""
        return bool(
            self.phases or self.hits or self.unknown or self.wrapper or self.up or self.signal
        )

    @property
    def waiting(self) -> bool:
        """Whether the next line decides: it tells progress from silence."""
        return self.run is not None or bool(self.last and (self.last.stalls or self.last.hangs))

    def idle(self) -> bool:
        """Whether nothing but broadcast lines came for too long."""
        return max(self.repeats.values(), default=0) >= HANG_REPEATS

    def take(self, line: LogLine, meaning: Meaning, trace: Traceback | None, table: SignatureTable,
             *, ends_traceback: bool) -> None:  # fmt: skip
        """Take a line that is no frame of a traceback."""
        mark = meaning.mark
        if mark is not None and mark.kind in ("idle", "observed"):
            return
        if mark is not None and mark.kind == "broadcast":
            self._broadcast(line)
            return
        self.facts.update(meaning.facts)
        hit = self._hit(line, meaning, trace, table)
        if hit is None:
            self._other(line, mark, ends_traceback=ends_traceback)
        failing = hit is not None or (mark is not None and mark.kind == "wrapper")
        self._end_run(failing=failing)
        known = (table.facts[name] for name in meaning.facts)
        stalling = next((fact for fact in known if fact.stalls), None)
        self.last, self.last_seen = mark if mark and mark.kind == "phase" else stalling, line

    def frame(self) -> None:
        """Take a line that is inside a traceback: something was said."""
        if self.run is not None:
            self._end_run(failing=True)
        self.last = None

    def _hit(
        self, line: LogLine, meaning: Meaning, trace: Traceback | None, table: SignatureTable
    ) -> Hit | None:
        for signature, groups in meaning.signatures:
            said = self._applies(signature, line, trace, table)
            if said is None:
                continue
            texts = {**groups_of(signature, groups), **said}
            hit = Hit(
                key=signature.key,
                role=signature.role,
                seen=Seen.of(line),
                soft=line.level == "WARNING",
                severity=signature.severity or (_ERROR if signature.role in _GRAVE else ""),
                cause=_filled(signature.cause, texts),
                action=_filled(signature.action, texts),
            )
            self._remember(hit, line)
            return hit
        return None

    def _applies(
        self, row: Signature, line: LogLine, trace: Traceback | None, table: SignatureTable
    ) -> dict[str, str] | None:
        """Whether what came before the line fits; gives what it adds to the texts."""
        if row.phase and self._phase(line) not in row.phase:
            return None
        if row.after and not self.phases.intersection(row.after):
            return None
        if not self.facts.issuperset(row.with_) or self.facts.intersection(row.without):
            return None
        frame = trace.frame if trace else ""
        if row.frame and not (frame and table.holds(row.frame, frame)):
            return None
        said = {"frame": frame, "trace": ""}
        if row.trace:
            places = [*reversed(trace.paths if trace else ()), *_paths(line.text)]
            found = next((place for place in places if table.holds(row.trace, place)), "")
            if not found:
                return None
            said["trace"] = found
        return said

    def _phase(self, line: LogLine) -> str:
        if self.up:
            return "serve"
        return self._phase_of.get((line.process, line.pid), "") or self.phase

    def _remember(self, hit: Hit, line: LogLine) -> None:
        before = self.hits.get(hit.key)
        if before is not None:
            weaker = (_STRENGTH[before.role], not before.soft) < (_STRENGTH[hit.role], not hit.soft)
            if not (before.survived or weaker):
                hit = before
            hit.count = before.count + 1
            hit.places |= before.places
        if line.process and len(hit.places) < _PLACES:
            hit.places.add(line.process)
        self.hits[hit.key] = hit

    def _other(self, line: LogLine, mark: Mark | None, *, ends_traceback: bool) -> None:
        if mark is None:
            self._unknown(line, ends_traceback=ends_traceback)
        elif mark.kind == "phase":
            self.phase = mark.name
            self.phases.add(mark.name)
            self._mark_of_phase = mark
            if len(self._phase_of) < 512:
                self._phase_of[line.process, line.pid] = mark.name
        elif mark.kind == "up":
            self._come_up(line)
        elif mark.kind == "signal" and self.signal is None:
            self.signal = Seen.of(line)
            self.signal_first = not (
                self.wrapper
                or self.unknown
                or any(
                    hit.role in ("cause", "weak") and not hit.survived for hit in self.hits.values()
                )
            )
        elif mark.kind == "wrapper" and self.wrapper is None:
            self.wrapper = Seen.of(line)

    def _come_up(self, line: LogLine) -> None:
        self.up = self.up or line.number
        for hit in self.hits.values():
            hit.survived = True
        self.unknown = self.unknown_error = self.wrapper = self.hang = None

    def _unknown(self, line: LogLine, *, ends_traceback: bool) -> None:
        if line.level in _QUIET:
            return
        if ends_traceback or is_exception(line.text) or _CRASH.search(line.text):
            self.unknown = self.unknown or Seen.of(line)
        elif (
            line.level in ("ERROR", "CRITICAL")
            and self.unknown_error is None
            and line.text[:1] != " "
        ):
            self.unknown_error = Seen.of(line)

    def _broadcast(self, line: LogLine) -> None:
        self.broadcasts += 1
        self.broadcast = self.broadcast or Seen.of(line)
        if self.run is None:
            self.run = Seen.of(line)
            self.before = self.last or self._mark_of_phase
        who = (line.process, line.pid)
        if len(self.repeats) < 512:
            self.repeats[who] = self.repeats.get(who, 0) + 1
        self.last_seen = line

    def _end_run(self, *, failing: bool) -> None:
        if self.run is None:
            return
        # What fails after a hang does not end it: it is its consequence.
        if failing and self.idle():
            self.hang = self.hang or self.run
        self.repeats.clear()
        self.run = None


def _filled(text: str, groups: dict[str, str]) -> str:
    """Put what was matched into a text; braces that name nothing stay."""
    known = {name: redact(value)[:200] for name, value in groups.items()}
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], found[0]), text)


def _paths(text: str) -> list[str]:
    return re.findall(r"(?:~?/|\./)[\w.+@~/-]{3,}", text)
