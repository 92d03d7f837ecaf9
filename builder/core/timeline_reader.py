"""A log to a timeline, while it comes: bytes in, cut anywhere; never raises, bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from builder.core.logline import LogLine, parse_line, seconds_of
from builder.core.timeline import PhaseName, Span, Timeline
from builder.core.timeline_marks import CHECKPOINT, KERNELS, MARKS, PhaseMark

_MOST_PROCESSES = 512
_MOST_KERNELS = 32
_REST = 1 << 16
"""Bytes of an unfinished line that are kept."""
_JUMP = 2 * 86_400.0
"""Seconds after which a time ahead is a clock's error, not a slow phase."""
_HALF_YEAR = 183 * 86_400.0
_DEPTH = {"APIServer": 0, "ApiServer": 0, "EngineCore": 1}
_WORKER = 2
_BARE = ("", "")
_SERVER = "server"
_GIB = 1 << 30


@dataclass(slots=True)
class _Part:
    """One phase of one process while it goes on."""

    start: float
    end: float
    open: bool = True
    bytes: int = 0


@dataclass(slots=True)
class _Process:
    name: str
    first: float
    depth: int
    """0 for who listens, 1 for an engine, 2 for a worker."""
    named: bool = True
    parts: dict[PhaseName, _Part] = field(default_factory=dict)
    current: PhaseName | None = None
    checkpoint: int = 0


@dataclass(slots=True)
class TimelineReader:
    """Takes a log of one start.

    `origin`: when the container began to run, as seconds since the epoch by the clock of the log's
    stamps; None takes the first line's time.
    """

    origin: float | None = None
    now: str = ""
    """What is going on, for the one who waits: phase, process, how much of it is done."""
    current: PhaseName | None = None
    """The phase that the last line with a meaning was about; None before and when it is up."""
    _rest: bytes = b""
    _number: int = 0
    _last: float | None = None
    _processes: dict[tuple[str, str], _Process] = field(default_factory=dict)
    _spoke: dict[int, _Process] = field(default_factory=dict)
    """By depth, the one that spoke last."""
    _kernels: dict[str, None] = field(default_factory=dict)
    _up: bool = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_REST]
        for raw in whole:
            self._number += 1
            for line in parse_line(self._number, raw.decode(errors="replace")):
                self._take(line)

    def timeline(self) -> Timeline:
        """Say what is known until now; phases that have not ended are open."""
        origin = self.origin if self.origin is not None else self._first()
        spans = [
            _span(process, phase, part, origin)
            for process in self._processes.values()
            for phase, part in process.parts.items()
        ]
        return Timeline(kernels=tuple(self._kernels)).with_spans(*spans)

    def _first(self) -> float:
        return min((process.first for process in self._processes.values()), default=0.0)

    def _take(self, line: LogLine) -> None:
        at = self._clock(line)
        if at is None or self._up:
            return
        text = line.text.strip()
        process = self._process(line, at)
        chosen = KERNELS.match(text)
        if chosen is not None and len(self._kernels) < _MOST_KERNELS:
            self._kernels[chosen[1]] = None
        size = CHECKPOINT.search(text)
        if size is not None:
            process.checkpoint = _amount(size["gib"], _GIB)
        for mark in MARKS:
            if mark.needle in text:
                found = mark.match.search(text)
                if found is not None:
                    owner = process if line.process else self._owner(mark)
                    self._reach(owner, mark, at, found.groupdict())
                    return
        if process.current is not None:
            part = process.parts[process.current]
            part.end = max(part.end, at)

    def _clock(self, line: LogLine) -> float | None:
        """Read a line's time; a line without one has the time of the one before it."""
        said = seconds_of(line.stamp)
        if said is None:
            return self._last
        last = self._last if self._last is not None else self.origin
        if last is not None:
            if abs(said - last) > _HALF_YEAR:
                said = _same_year(said, last)
            if said - last > _JUMP or last - said > _JUMP:
                return last
        self._last = said if self._last is None else max(said, self._last)
        return said

    def _process(self, line: LogLine, at: float) -> _Process:
        """Find who speaks; lines without a name are the first process's until it says one."""
        key = (line.source, str(line.pid) if line.pid else line.process) if line.process else _BARE
        known = self._processes.get(key)
        if known is None and not line.process and self._processes:
            # A bar, or a line of uvicorn: it belongs to a process that has a name.
            return _Process(name=_SERVER, first=at, depth=0)
        if known is None:
            depth = next((d for head, d in _DEPTH.items() if line.process.startswith(head)), 2)
            bare = self._processes.get(_BARE)
            if bare is not None and depth == 0 and not bare.named:
                bare.name, bare.named = line.process, True
                self._processes = {key: bare}
                return bare
            known = _Process(
                name=self._name(line),
                first=at,
                depth=depth if line.process else 0,
                named=bool(line.process),
            )
            if len(self._processes) < _MOST_PROCESSES:
                self._processes[key] = known
                self._appeared(known, at)
        self._spoke[known.depth] = known
        return known

    def _name(self, line: LogLine) -> str:
        name = line.process or _SERVER
        if any(other.name == name for other in self._processes.values()):
            name = f"{name} {line.source or line.pid or len(self._processes)}"
        return name

    def _appeared(self, process: _Process, at: float) -> None:
        if len(self._processes) == 1:
            start = min(self.origin, at) if self.origin is not None else at
            process.parts["imports"] = _Part(start, at)
            process.current = "imports"
            self._tell(process, "imports", "")
            return
        if process.depth == _WORKER:
            process.parts["engine-init"] = _Part(at, at)
            process.current = "engine-init"
        # Who has started another one waits for it from now on.
        for other in self._processes.values():
            if other.depth < process.depth and other.current in ("imports", "engine-init"):
                _close(other, max(at, other.parts[other.current].end))

    def _owner(self, mark: PhaseMark) -> _Process:
        """Find whose a line without a name is: bars carry none, nor do uvicorn's lines."""
        inside = [p for p in self._processes.values() if p.current == mark.phase]
        if inside:
            return inside[-1]
        bare = self._processes.get(_BARE)
        if bare is not None:
            return bare
        return self._spoke[min(self._spoke) if mark.phase == "server-up" else max(self._spoke)]

    def _reach(
        self, process: _Process, mark: PhaseMark, at: float, said: dict[str, str | None]
    ) -> None:
        phase = mark.phase
        took = float(said.get("took") or 0)
        part = process.parts.get(phase)
        if part is None:
            part = process.parts[phase] = _Part(self._start(process, mark, at), at)
        elif phase == "imports" and not part.open:
            # The banner has several lines, and only the first says when.
            return
        if process.current not in (None, phase):
            _close(process, max(part.start, process.parts[process.current].start))
        if took and phase != "kernels":
            _begins_earlier(process, part, at - took)
        part.end, part.open = max(part.end, at), True
        process.current = phase
        if mark.kind in ("ends", "filled"):
            _close(process, part.end)
            self._follow_on(process, phase, at)
        self._measure(process, part, said)
        if phase == "server-up" and mark.kind == "ends":
            self._up = True
            for other in self._processes.values():
                _close(other, 0)
        self._tell(process, phase, said.get("done") or "")

    def _start(self, process: _Process, mark: PhaseMark, at: float) -> float:
        """Say when a phase began whose first line this is."""
        if mark.kind not in ("ends", "filled"):
            return at
        if process.current is not None:
            return process.parts[process.current].end
        # It waited for those it has started.
        ends = [
            part.end
            for other in self._processes.values()
            if other is process or other.depth > process.depth
            for part in other.parts.values()
        ]
        return min(max(ends, default=process.first), at)

    def _follow_on(self, process: _Process, phase: PhaseName, at: float) -> None:
        """Open the phase that has no line of its own at its beginning."""
        if phase == "weights":
            process.parts.setdefault("kernels", _Part(at, at))
            process.current = "kernels"
        elif phase == "imports":
            process.parts.setdefault("engine-init", _Part(at, at))
            process.current = "engine-init"

    def _measure(self, process: _Process, part: _Part, said: dict[str, str | None]) -> None:
        weights = process.parts.get("weights", part)
        if said.get("gib"):
            weights.bytes = _amount(said["gib"] or "0", _GIB)
        elif said.get("gb"):
            # vLLM 0.6 divided by 2^30 and called it GB (worker/model_runner.py).
            weights.bytes = _amount(said["gb"] or "0", _GIB)
        elif not weights.bytes:
            weights.bytes = process.checkpoint

    def _tell(self, process: _Process, phase: PhaseName, done: str) -> None:
        self.current = None if self._up else process.current or phase
        self.now = " ".join(part for part in (phase, done, f"({process.name})") if part)


def _close(process: _Process, at: float) -> None:
    """End what a process is in: then, or where it spoke last if `at` is 0."""
    if process.current is None:
        return
    part = process.parts[process.current]
    part.end, part.open = max(at or part.end, part.start), False
    process.current = None


def _begins_earlier(process: _Process, part: _Part, start: float) -> None:
    """Move a beginning to where the line's own seconds put it; what came before ends there."""
    others = [other for other in process.parts.values() if other is not part]
    start = max([start, *(other.start for other in others)])
    if start >= part.start:
        return
    part.start = start
    for other in others:
        if not other.open:
            other.end = max(min(other.end, start), other.start)


def _span(process: _Process, phase: PhaseName, part: _Part, origin: float) -> Span:
    start = round(max(part.start - origin, 0), 3)
    end = round(max(part.end - origin, 0), 3)
    size = part.bytes if phase == "weights" else 0
    rate = round(size / (end - start) / 1e9, 3) if size and end > start else 0.0
    return Span(
        process=process.name,
        phase=phase,
        start=start,
        end=max(end, start),
        bytes=size,
        gb_per_second=rate,
        open=part.open,
    )


def _amount(text: str, unit: int) -> int:
    try:
        return round(float(text) * unit)
    except ValueError:
        return 0


def _same_year(said: float, last: float) -> float:
    """Give a time the other's year: vLLM's own header says none, FlashInfer's does."""
    year = datetime.fromtimestamp(last, UTC).year
    try:
        return datetime.fromtimestamp(said, UTC).replace(year=year).timestamp()
    except ValueError:
        return last
