"""What BuildKit says while it builds: lines of `--progress=plain` → steps, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from builder.core.room import DISK_FULL
from builder.errors import BuildFailed, DiskFull, EngineError, NightlockError, RegistryError

_KEPT = 400
"""Lines kept of each unfinished step and of the end."""
_NAMED = 60
"""Characters of a step's name; the line in the Dockerfile has the rest."""
_QUOTED = 12
"""Lines of a failed step that are quoted."""

_LINE = re.compile(r"#(?P<number>\d+) (?P<text>.*)")
_DONE = re.compile(r"DONE (?P<seconds>\d+(?:\.\d+)?)s")
_LOG = re.compile(r"\d+\.\d+ ?(?P<text>.*)")
_PLACE = re.compile(r"(?P<file>[^\s:]*Dockerfile[^\s:]*):(?P<line>\d+)")
_SOLVE = re.compile(r"ERROR: (?:failed to (?:build|solve): )?(?P<text>.+)")

_OUTSIDE: tuple[tuple[str, type[NightlockError], str], ...] = (
    (
        DISK_FULL,
        DiskFull,
        "free some space where the engine keeps its data, `docker system df` says what takes it",
    ),
    (
        (
            r"failed to push|failed to copy|unexpected status .*(?:push|PUT|HEAD|POST)"
            r"|failed to do request|failed to authorize|no basic auth credentials"
        ),
        RegistryError,
        "check that the registry answers and that `docker login` was done for it",
    ),
    (
        (
            r"cannot connect to the Docker daemon|error during connect|no builder .* found"
            r"|rpc error: code = Unavailable|transport is closing|failed to find driver"
        ),
        EngineError,
        "`nightlock doctor` says which engine answers and which builders there are",
    ),
    (
        (
            r"OCI exporter is not supported|exporter .* could not be found"
            r"|unsupported (?:compression|snapshotter)|compression type .* is not supported"
        ),
        EngineError,
        (
            "use an engine with the containerd image store, or a docker-container builder "
            "(`nightlock doctor`)"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One finished step of a build."""

    name: str
    """As BuildKit calls it: `[group-torch 1/1] RUN …`, `exporting to image`."""
    seconds: float
    cached: bool

    @property
    def title(self) -> str:
        """Its stage, or its first words."""
        stage = re.match(r"\[(?P<stage>[^\]]+)\]", self.name)
        return stage["stage"] if stage else self.name[:60]


@dataclass(slots=True)
class Steps:
    """Reads the lines of one build, in order."""

    finished: list[Step] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _logs: dict[str, list[str]] = field(default_factory=dict)
    _errors: dict[str, str] = field(default_factory=dict)
    _end: list[str] = field(default_factory=list)

    def read(self, line: str) -> Step | None:
        """Take one line; return the step that it ends, if it ends one."""
        match = _LINE.fullmatch(line)
        if match is None:
            self._end = [*self._end[1 - _KEPT :], line]
            return None
        number, text = match["number"], match["text"]
        name = self._names.setdefault(number, text)
        done = _DONE.fullmatch(text)
        if done is not None or text == "CACHED":
            step = Step(
                name=name,
                seconds=float(done["seconds"]) if done else 0.0,
                cached=done is None,
            )
            self.finished.append(step)
            self._logs.pop(number, None)
            return step
        if text.startswith("ERROR: "):
            self._errors[number] = text.removeprefix("ERROR: ")
        elif log := _LOG.fullmatch(text):
            self._logs[number] = [*self._logs.get(number, [])[1 - _KEPT :], log["text"]]
        return None

    def failure(self, dockerfile: str) -> NightlockError:
        """Explain why the build failed; `dockerfile` is the file's name for messages."""
        number, error = self._root()
        name = self._names.get(number, "")
        shown = name if len(name) <= _NAMED else name[:_NAMED] + " …"
        solve = next((m["text"] for line in self._end if (m := _SOLVE.match(line))), "")
        reason = error or solve or "\n".join(self._end[-3:]) or "buildx said nothing"
        log = self._logs.get(number, [])
        for pattern, kind, action in _OUTSIDE:
            # Programs in a step say the first; only BuildKit can say the others.
            said = [reason, solve, *(log[-_QUOTED:] if kind is DiskFull else [])]
            if re.search(pattern, "\n".join(said), re.IGNORECASE):
                return kind(reason, subject=shown or dockerfile, action=action)
        places = (_PLACE.fullmatch(line.strip()) for line in self._end)
        place = next((f"{dockerfile}:{m['line']}" for m in places if m), dockerfile)
        what = f"the step {shown} failed: {reason}" if name else f"the build failed: {reason}"
        return BuildFailed(
            "\n".join([what, *(f"  | {line}" for line in log[-_QUOTED:])]),
            subject=place,
            action="correct what that step says; `nightlock render` writes the folder to try in",
        )

    def _root(self) -> tuple[str, str]:
        """Return the step that failed by itself: others are only cancelled along with it."""
        found = ("", "")
        for number, error in self._errors.items():
            if "context canceled" not in error.lower():
                return number, error
            found = found if found[0] else (number, error)
        return found


def buildkit_version(lines: Sequence[str], engine: str) -> str:
    """Read what will build from `docker buildx inspect`; empty when no version is said.

    `engine` is the engine's own version: with the `docker` driver BuildKit is a part of it, and
    Debian's packages call that part `v0.0.0+unknown`.
    """
    said = dict(_field(line) for line in lines)
    version = said.get("buildkit version", "") or said.get("buildkit", "")
    if version and said.get("driver") == "docker":
        return f"{version} of docker {engine}"
    return version


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
