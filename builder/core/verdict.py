"""What one start came to: the root cause among everything that its log says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from builder.core.start import Hit, Seen, Start

_SILENT = 60.0
"""Seconds without a line that make a silence."""
_GIVEN_UP = frozenset({"engine-ready-timeout", "external-sigterm"})
"""Ends after which workers may live on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One start, judged."""

    status: Literal["failed", "stopped", "up", "unfinished"]
    root: Hit | None = None
    unknown: Seen | None = None
    others: tuple[Hit, ...] = field(default=())
    phase: str = ""
    starts: int = 1
    times: int = 1
    """Starts that ended with this root cause."""

    @property
    def failed(self) -> bool:
        """Whether something is wrong, known or not."""
        return self.root is not None or self.unknown is not None

    @property
    def order(self) -> tuple[int, int]:
        """Of several programs the one that is known, and first, counts."""
        if self.root is not None:
            return (0 if self.root.role == "cause" else 1), self.root.seen.number
        return 2, self.unknown.number if self.unknown else 0

    @property
    def progress(self) -> int:
        """How far it came."""
        return {"unfinished": 1 if self.phase else 0, "stopped": 2, "up": 3}.get(self.status, 0)

    def among(self, starts: int, past: Mapping[str, int]) -> Verdict:
        """Add what earlier starts in the same log tell."""
        if self.root is None:
            return replace(self, starts=starts)
        others = self.others
        times = past.get(self.root.key, 0) + 1
        if self.root.key == "free-memory-restart-loop" and _GIVEN_UP.intersection(past):
            left = Hit(
                key="orphan-workers", role="note", severity="warning", seen=self.root.seen,
                cause="An earlier start in this log was given up or killed, and its workers may "
                "still hold the memory.",
            )  # fmt: skip
            others = (left, *others)
        return replace(self, others=others, starts=starts, times=times)


def judge_start(start: Start, observed: float | None = None, *, told: bool = False) -> Verdict:
    """Choose the root cause of a start.

    `observed` is when its log was read while it still ran, in seconds since the epoch; `told`: the
    log itself says that it was watched, whether its time can be read or not.
    """
    hang = _hang(start, observed, told=told)
    root, unknown = _root(start, hang)
    others = [
        replace(hit, severity="warning") if hit.soft and hit.severity == "error" else hit
        for hit in start.hits.values()
        if hit is not root
    ]
    if start.broadcasts and hang is None:
        others.append(_benign(start))
    if start.signal is not None and (root is None or root.key != "external-sigterm"):
        others.append(_stopped(start.signal, role="note"))
    others.sort(key=lambda hit: hit.seen.number)
    failed = root is not None or unknown is not None
    stopped = start.signal is not None and (start.signal_first or not failed)
    return Verdict(
        status="stopped" if stopped else "failed" if failed else "up" if start.up else "unfinished",
        root=root,
        unknown=unknown,
        others=tuple(others),
        phase="serve" if start.up else start.phase,
    )


def _root(start: Start, hang: Hit | None) -> tuple[Hit | None, Seen | None]:
    live = sorted(
        (hit for hit in start.hits.values() if not hit.survived), key=lambda hit: hit.seen.number
    )
    failing = start.wrapper is not None or start.unknown is not None
    causes = [hit for hit in live if hit.role == "cause" and (failing or not hit.soft)]
    weak = [*([hang] if hang else []), *(hit for hit in live if hit.role == "weak")]
    requests = [hit for hit in live if hit.role == "request"]
    # A server that lives on after an exception had it in one request.
    unknown = start.unknown if start.wrapper or not start.up else None
    wrong = bool(causes or weak or unknown or start.wrapper)
    if start.signal is not None and start.signal_first and (wrong or not start.up):
        return _stopped(start.signal), None
    if causes:
        return causes[0], None
    first = _first(weak)
    if unknown is not None and (first is None or unknown.number < first.seen.number):
        return None, unknown
    if first is not None:
        return first, None
    return _vague(start, requests)


def _vague(start: Start, requests: list[Hit]) -> tuple[Hit | None, Seen | None]:
    """Choose where nothing specific is in the log."""
    error = start.unknown_error if start.wrapper or not start.up else None
    if start.wrapper is not None:
        if error is not None and error.number < start.wrapper.number:
            return None, error
        return Hit(key="root-cause-above", role="weak", severity="error", seen=start.wrapper), None
    if requests:
        return requests[0], None
    return None, error


def _first(hits: list[Hit]) -> Hit | None:
    return min(hits, key=lambda hit: hit.seen.number) if hits else None


def _stopped(seen: Seen, *, role: Literal["weak", "note"] = "weak") -> Hit:
    return Hit(key="external-sigterm", role=role, severity="info", seen=seen)


def _benign(start: Start) -> Hit:
    seen = start.broadcast
    assert seen is not None  # noqa: S101 - they were counted
    step = f", last step: {start.phase}" if start.phase else ""
    return Hit(
        key="shm-broadcast-60s",
        role="note",
        severity="info",
        seen=seen,
        count=start.broadcasts,
        cause=f"Harmless here: other lines show progress{step}.",
        action="Wait; five repeats without any other line would be a hang.",
    )


def _hang(start: Start, observed: float | None, *, told: bool) -> Hit | None:
    if start.hang is not None or start.idle():
        return _repeated(start)
    last, line = start.last, start.last_seen
    if line is None or start.run is not None:
        return None
    silence = None
    if observed is not None and line.seconds is not None:
        silence = observed - line.seconds
    if silence is not None and silence < _SILENT:
        return None
    waited = told or silence is not None
    key = (last.stalls or (last.hangs if waited else "")) if last else ""
    if not key:
        return None
    words = f"the last line for {silence / 60:.0f} min" if silence else "the last line of the log"
    return _hanging(start, key, Seen.of(line), words)


def _repeated(start: Start) -> Hit:
    seen = start.hang or start.run or start.broadcast
    assert seen is not None  # noqa: S101 - a hang was seen
    before = start.before
    several = "several-workers" in start.facts or len(start.repeats) > 1
    if before is not None and before.hangs and (several or before.name == "nccl"):
        words = f"after `{before.name}` nothing but this line came"
        return _hanging(start, before.hangs, seen, words)
    step = f"`{before.name}`" if before else "the start"
    return Hit(
        key="shm-broadcast-60s",
        role="weak",
        severity="error",
        seen=seen,
        count=start.broadcasts,
        cause=f"A hang: after {step} nothing but this line came, five times and more.",
        action="Look at what the workers wait for (py-spy dump, nvidia-smi): a lock that a killed "
        "compile left in the cache folder, or a collective that does not return.",
    )


def _hanging(start: Start, key: str, seen: Seen, words: str) -> Hit:
    cause = ""
    if key == "nccl-p2p-hang":
        cause = (
            f"A collective hangs ({words}): PCIe access control sends peer-to-peer traffic through "
            "the IOMMU, a setting of the platform."
        )
        if "slicing" in start.facts:
            cause += (
                " Here libvgpu is loaded: a GPU slicing layer that blocks gives the same picture."
            )
    return Hit(key=key, role="weak", severity="error", seen=seen, cause=cause)
