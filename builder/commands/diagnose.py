"""`nightlock diagnose LOG`: from a log to its root cause, the evidence and what to do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from builder.commands.context import Context, Outcome
from builder.core.diagnosis import Diagnoser, Diagnosis, Status
from builder.core.diagnosis_text import text_of
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.logscan import LogScan
from builder.core.signature_table import SignatureTable
from builder.core.start import Hit, Seen
from builder.edge import logsource
from builder.edge.signatures import read_table
from builder.errors import BadInput

if TYPE_CHECKING:
    from builder.edge.containerlog import ContainerState

_BY_NAME = "container:"
_STOPPED = (0, 130, 137, 143)
"""Exit statuses that a stop from outside gives; alone they are no failure."""
_TOLD = "FLASHINFER_DISABLE_VERSION_CHECK="
"""The one variable of a container that a signature asks for."""


class Line(BaseModel):
    """A line of the log."""

    model_config = ConfigDict(extra="forbid")

    number: int
    """From 1; 0: said by the engine, not by the log."""
    process: str
    source: str
    text: str
    """Secrets taken out."""


class Cause(BaseModel):
    """One finding key that the log names."""

    model_config = ConfigDict(extra="forbid")

    key: str
    line: Line
    count: int
    """Lines that say so."""
    processes: list[str]
    """All that say so."""


class DiagnoseResult(Result):
    """What a log tells."""

    root_cause: str | None
    """Finding key; null where nothing failed, and where the cause is not known."""
    status: Status
    causes: list[Cause]
    """The root cause first, then in the order of the log."""
    first_error: Line | None
    """Where the cause is not known: the first specific error."""
    log: str
    lines: int
    bytes: int
    starts: int
    same_end: int
    """Starts that ended with this root cause."""
    phase: str
    """The last phase that was reached."""
    container: str
    """How the container ended, in words; empty for one that runs, and for files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A log, read to its end."""

    diagnosis: Diagnosis
    scan: LogScan
    subject: str
    ended: str = ""
    status: int = 0


def run(
    context: Context, log: str, *, container: str = "", signatures: tuple[Path, ...] = ()
) -> Outcome[DiagnoseResult]:
    """Read a log and name its root cause; `ok` only when nothing in it failed.

    `log` is a path, `-` for standard input, or `container:NAME`. Raises BadInput for what is not
    there, SpecError for a file of signatures, ToolMissing and EngineError for a container.
    """
    name = container or (log.removeprefix(_BY_NAME) if log.startswith(_BY_NAME) else "")
    if bool(log) == bool(container) or (log.startswith(_BY_NAME) and not name):
        raise BadInput(
            "one log is wanted",
            subject=" ".join(text for text in (log, container) if text),
            action="name a file, - for standard input, or container:NAME",
        )
    table = _table(context, signatures)
    read = _of_container(context, table, name) if name else _of_stream(context, table, log)
    failed = read.diagnosis.failed or read.status not in _STOPPED
    text = text_of(read.diagnosis, read.subject, read.scan.lines)
    if read.ended:
        text += f"\n\nthe container {read.ended}"
    return Outcome(
        result=_result(read),
        text=text,
        ok=not failed,
        findings=read.diagnosis.findings(read.subject),
        told=True,
    )


def causes_in(context: Context, log: Path, subject: str, said: str) -> tuple[Finding, ...]:
    """Name the errors in the log of a boot that failed, the root cause first; none if unknown.

    `said` is what the engine answered; it counts where there is no log, since nothing was started.
    """
    table = _table(context)
    diagnoser = Diagnoser(table)
    if log.exists():
        scan = LogScan(diagnoser, table.needles, table.quiet_needles)
        for piece in logsource.read_log(log):
            scan.feed(piece)
        scan.end()
    else:
        for line in said.splitlines():
            diagnoser.note("engine", line)
    found = diagnoser.diagnosis().findings(subject)
    return tuple(finding for finding in found if finding.severity == "error")


def _table(context: Context, first: tuple[Path, ...] = ()) -> SignatureTable:
    configured = [context.project / Path(path).expanduser() for path in context.settings.signatures]
    return read_table([*first, *configured])


def _of_stream(context: Context, table: SignatureTable, log: str) -> _Read:
    diagnoser = Diagnoser(table)
    scan = LogScan(diagnoser, table.needles, table.quiet_needles)
    path = Path(log)
    pieces = logsource.read_stdin() if log == "-" else logsource.read_log(path)
    _pour(context, pieces, scan, None if log == "-" else logsource.size_of(path))
    return _Read(diagnosis=diagnoser.diagnosis(), scan=scan, subject=log)


def _of_container(context: Context, table: SignatureTable, name: str) -> _Read:
    # Imported late: a file is diagnosed without the engine's client, which costs a second.
    from builder.edge.containerlog import inspect_container, stream_log  # noqa: PLC0415
    from builder.edge.engine import require_engine  # noqa: PLC0415

    engine = require_engine(context.places, context.settings, os.environ)
    state = inspect_container(engine, name)
    diagnoser = Diagnoser(table)
    scan = LogScan(diagnoser, table.needles, table.quiet_needles)
    for variable in state.environment:
        if variable.startswith(_TOLD):
            diagnoser.note("", variable)
    _pour(context, stream_log(engine, state.number), scan, None)
    for said in _said_by_engine(state):
        diagnoser.note("docker inspect", said)
    return _Read(
        diagnosis=diagnoser.diagnosis(now=time.time() if state.running else None),
        scan=scan,
        subject=f"{_BY_NAME}{state.name}",
        ended="" if state.running else _ended(state),
        status=0 if state.running else state.end.code,
    )


def _said_by_engine(state: ContainerState) -> Iterable[str]:
    if state.end.out_of_memory:
        yield "OOMKilled: true"
    yield from state.end.error.splitlines()
    for output in state.health:
        yield from output.splitlines()


def _ended(state: ContainerState) -> str:
    again = f"; the engine has restarted it {state.restarts} times" if state.restarts else ""
    return state.end.text + again


def _pour(context: Context, pieces: Iterable[bytes], scan: LogScan, size: int | None) -> None:
    with context.output.bar("reading", size) as bar:
        for piece in pieces:
            scan.feed(piece)
            bar.advance(len(piece))
    scan.end()


def _result(read: _Read) -> DiagnoseResult:
    found = read.diagnosis
    hits = [*([found.root] if found.root else []), *found.others]
    return DiagnoseResult(
        root_cause=found.root.key if found.root else None,
        status=found.status,
        causes=[_cause(hit) for hit in hits],
        first_error=_line(found.first_error) if found.first_error else None,
        log=read.subject,
        lines=read.scan.lines,
        bytes=read.scan.size,
        starts=found.starts,
        same_end=found.times,
        phase=found.phase,
        container=read.ended,
    )


def _cause(hit: Hit) -> Cause:
    return Cause(key=hit.key, line=_line(hit.seen), count=hit.count, processes=sorted(hit.places))


def _line(seen: Seen) -> Line:
    return Line(number=seen.number, process=seen.process, source=seen.source, text=seen.text)
