"""One line of a log, taken apart: who wrote it, when, and what it says.

A line of vLLM reaches people through several hands, each of which puts something before it. Known
are, in any order: the engine's timestamps (`docker logs -t`), CRI's files, journald in its short
forms, compose's `name-1  | `, kubectl's `[pod/…]`, CI's `[2026-…Z]`, torchrun's `[rank0]:`, vLLM's
`(Worker_TP3 pid=97)` (vllm/utils/system_utils.py `decorate_logs`), and the headers of the loggers
of vLLM (vllm/logger.py), uvicorn, FlashInfer and torch. Colours are taken out, progress bars that
rewrite their line (CR) become one line a state, and Docker's json-file format is unpacked.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

MAX_LINE = 16_384
"""Characters of a line that are looked at."""
_MAX_STATES = 64
"""States of one progress bar that are looked at: the first and the last of them."""


class LogLine(NamedTuple):
    """One line, or one state of a line that rewrites itself."""

    number: int
    """In the log, from 1; states of one line share it."""
    text: str
    """What it says, without what stands before it; indentation is kept, its end is not."""
    process: str = ""
    """As vLLM names it: `EngineCore`, `Worker_TP3`, `APIServer`; empty where the line says none."""
    pid: int = 0
    """0 where the line says none."""
    level: str = ""
    """`DEBUG`, `INFO`, `WARNING`, `ERROR`, `CRITICAL`; empty where the line has no header."""
    logger: str = ""
    """Place of the call, as `core.py:1136`."""
    source: str = ""
    """Which of several programs in one log: compose service, pod and container, journald unit."""
    stamp: str = ""
    """Time as it stands before the line: the collector's where it has one, else vLLM's own."""

    @property
    def rank(self) -> int | None:
        """Tensor-parallel rank, else whatever rank the process is named with; None for none."""
        found = _RANK.search(self.process)
        return int(found[1] or found[2] or found[3]) if found else None

    @property
    def seconds(self) -> float | None:
        """`stamp` as seconds since the epoch; only differences mean anything.

        A time without a zone is taken for UTC, one without a year for a year of its own.
        """
        return seconds_of(self.stamp)


class _Parts(NamedTuple):
    """What was read so far."""

    process: str = ""
    pid: int = 0
    level: str = ""
    logger: str = ""
    source: str = ""
    stamp: str = ""
    own: str = ""
    """vLLM's own time, which stands behind the collector's."""


_ANSI = re.compile(
    r"(?:\x1b|\^\[|\bESC(?=\[\d))(?:\[[0-9;:?]*[ -/]*[@-~]|[()][0-9A-B]|\][^\x07]*\x07)"
)
_RANK = re.compile(r"TP(\d+)|rank[= ]?(\d+)|-(\d+)$")
_LEVEL = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_HEAD = re.compile(
    rf"""
      (?P<iso>\[?(?P<iso_time>{_ISO})\]?:?(?:[ ](?:stdout|stderr)[ ][FP](?=[ ])
          |[ ](?P<iso_host>[\w.-]+)[ ](?P<iso_unit>[^\s\[\]:]+)\[\d+\]:)?)(?:[ ]|$)
    | (?P<journal>(?P<day>(?:{_MONTHS})[ ]{{1,2}}\d{{1,2}}[ ]\d\d:\d\d:\d\d(?:\.\d+)?)[ ]
          [\w.-]+[ ](?P<unit>[^\s\[\]:]+)(?:\[\d+\])?:)(?:[ ]|$)
    | (?P<compose>(?P<service>[A-Za-z][\w.-]*)[ ]+\|)(?:[ ]|$)
    | (?P<pod>\[pod/(?P<pod_name>[^\]\s]+)\])(?:[ ]|$)
    | (?P<torchrun>\[(?:rank|default)(?P<number>\d+)\]:)[ ]?
    | (?P<decorated>\((?P<name>[A-Za-z_][\w.-]*)(?P<more>[^()]*?)[ ]pid=(?P<pid>\d+)[^()]*\))[ ]?
    | (?P<named>(?P<plain>(?:Worker|VllmWorker|EngineCore|APIServer|ApiServer)[\w-]*)):[ ]
    | (?P<vllm>(?P<level>{_LEVEL})[ ]+
          (?P<own>(?:\d{{4}}-)?\d\d-\d\d[ ]\d\d:\d\d:\d\d(?:[.,]\d+)?)[ ]+
          \[?(?P<place>[^\]\s]+:\d+)\])[ ]?
    | (?P<uvicorn>(?P<uvicorn_level>{_LEVEL}):[ ]{{1,8}})
    | (?P<python>-[ ](?P<python_level>{_LEVEL})[ ]-[ ](?P<python_place>\S+:\d+)[ ]-)[ ]
    | (?P<glog>\[(?P<glog_level>[IWEF])\d{{4}}[ ]\d\d:\d\d:\d\d\.\d+(?:[ ]\d+)?[ ]
          (?P<glog_place>[^\]\s]+:\d+)\])[ ]?
    """,
    re.VERBOSE,
)
_COMMON = re.compile(
    rf"(?:({_ISO}) )?\(([A-Za-z_][\w.-]*)([^()]*?) pid=(\d+)[^()]*\) ?"
    rf"(?:({_LEVEL}) +((?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?) +\[?([^\]\s]+:\d+)\] ?)"
)
"""What nearly all lines of vLLM look like, read in one go: the same as `_HEAD` step by step."""
_FIRST = frozenset("(-[" + string.digits + string.ascii_letters)
_GLOG = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_JSON_FIELDS = ("log", "MESSAGE")
_MOST_HEADS = 8
_YEAR = "2000"
"""Stands in for one that is not said; it has a 29th of February."""


def parse_line(number: int, raw: str) -> Sequence[LogLine]:
    """Take one line apart; more than one comes where it rewrites itself.

    Junk, NULs and empty lines are lines like any other; nothing is raised.
    """
    raw = raw[:MAX_LINE].rstrip("\r\n")
    if raw.startswith('{"') and raw.endswith("}"):
        raw = _unpacked(raw)
    if "\x1b" in raw or "^[" in raw or "ESC[" in raw:
        raw = _ANSI.sub("", raw)
    if "\r" in raw:
        return _states(number, raw)
    common = _COMMON.match(raw)
    # Two processes in one line, as under Ray, are none of the common forms.
    if common is not None and raw[common.end() : common.end() + 1] not in ("(", "["):
        return (_of_common(number, raw, common),)
    parts, at = _heads(raw, _Parts())
    return (_line(number, raw[at:], parts),)


def _states(number: int, raw: str) -> list[LogLine]:
    states = [state for state in raw.split("\r") if state]
    if len(states) > _MAX_STATES:
        states = [*states[: _MAX_STATES // 2], *states[-_MAX_STATES // 2 :]]
    parts = _Parts()
    lines = []
    for state in states or [""]:
        # What the collector put before the line holds for each state of it.
        kept = _Parts(process=parts.process, pid=parts.pid, source=parts.source, stamp=parts.stamp)
        parts, at = _heads(state, kept)
        lines.append(_line(number, state[at:], parts))
    return lines


def seconds_of(stamp: str) -> float | None:
    """Read a time as it stands before a line; None when it is none."""
    if not stamp:
        return None
    try:
        if stamp[0].isalpha():
            when = datetime.strptime(f"{_YEAR} {stamp[:15]} +0000", "%Y %b %d %H:%M:%S %z")
        elif stamp[2:3] == "-":
            when = datetime.fromisoformat(f"{_YEAR}-{stamp}".replace(",", "."))
        else:
            when = datetime.fromisoformat(stamp.replace(",", "."))
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _line(number: int, text: str, parts: _Parts) -> LogLine:
    return LogLine(
        number,
        text.rstrip(),
        parts.process,
        parts.pid,
        parts.level,
        parts.logger,
        parts.source,
        parts.stamp or parts.own,
    )


def _heads(text: str, parts: _Parts) -> tuple[_Parts, int]:
    """Read what stands before a line; give it, and where the line itself begins."""
    at = 0
    for _ in range(_MOST_HEADS):
        if text[at : at + 1] not in _FIRST:
            break
        found = _HEAD.match(text, at)
        if found is None:
            break
        parts = _with(parts, found)
        at = found.end()
        if parts.level:
            break
    return parts, at


def _with(parts: _Parts, found: re.Match[str]) -> _Parts:
    # `lastgroup` is the last group that closed: the outer one of each alternative.
    return _READERS[found.lastgroup or ""](parts, found)


def _of_common(number: int, raw: str, found: re.Match[str]) -> LogLine:
    stamp, name, more, pid, level, own, place = found.groups(default="")
    return LogLine(
        number,
        raw[found.end() :].rstrip(),
        (name + more).strip(),
        int(pid or 0),
        level,
        place,
        "",
        stamp or own,
    )


_READERS: dict[str, Callable[[_Parts, re.Match[str]], _Parts]] = {
    "decorated": lambda parts, found: parts._replace(
        process=(found["name"] + found["more"]).strip(), pid=int(found["pid"])
    ),
    "iso": lambda parts, found: parts._replace(
        stamp=parts.stamp or found["iso_time"], source=found["iso_unit"] or parts.source
    ),
    "vllm": lambda parts, found: parts._replace(
        level=found["level"], own=found["own"], logger=found["place"]
    ),
    "uvicorn": lambda parts, found: parts._replace(level=found["uvicorn_level"]),
    "journal": lambda parts, found: parts._replace(
        stamp=parts.stamp or found["day"], source=found["unit"]
    ),
    "compose": lambda parts, found: parts._replace(source=found["service"]),
    "pod": lambda parts, found: parts._replace(source=found["pod_name"]),
    "torchrun": lambda parts, found: parts._replace(
        process=parts.process or f"rank {found['number']}"
    ),
    "named": lambda parts, found: parts._replace(process=found["plain"]),
    "python": lambda parts, found: parts._replace(
        level=found["python_level"], logger=found["python_place"]
    ),
    "glog": lambda parts, found: parts._replace(
        level=_GLOG[found["glog_level"]], logger=found["glog_place"]
    ),
}


def _unpacked(raw: str) -> str:
    """Unpack Docker's json-file and `journalctl -o json`; what is neither stays as it is."""
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if not isinstance(row, dict):
        return raw
    for field in _JSON_FIELDS:
        said = row.get(field)
        if isinstance(said, str):
            when = row.get("time")
            return f"{when} {said}" if isinstance(when, str) else said
    return raw
