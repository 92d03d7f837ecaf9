"""The answer of an audit for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builder.core.audit.kernels import FORMS
from builder.core.audit.result import AuditResult, ObjectRow, PlatformAudit

_HEADS = {"a": "a", "f": "f", "exact": "exact", "near": "near", "ptx": "PTX"}
_SHOWN = 12
"""Architectures whose bytes are told."""


def text(result: AuditResult) -> str:
    """Say what was looked at, the kernel matrix by target, and the verdict."""
    return "\n".join(line for one in result.audits for line in _audit(result, one))


def _audit(result: AuditResult, one: PlatformAudit) -> Iterator[str]:
    yield (
        f"{result.kind} {result.subject} ({one.platform}): {one.packages} packages, "
        f"{one.files} files, {one.bytes / 1e6:.0f} MB unpacked"
    )
    for gpu in one.targets if one.objects else ():
        yield f"GPU code for {gpu}: {_summary(one.objects, gpu)}"
        yield from _table(one.objects, gpu)
    if one.objects and not one.targets and (one.cuda or result.kind == "wheels"):
        yield "GPU code, without a target to judge it by (--target sm_120):"
        yield from (f"  {row.path}: {' '.join(row.code)}" for row in one.objects)
    if one.code_bytes:
        shown = list(one.code_bytes.items())[:_SHOWN]
        yield "bytes of code: " + ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in shown)
    if one.layers:
        yield (
            f"{len(one.layers)} layers, {sum(row.size for row in one.layers) / 1e6:.0f} MB; "
            f"{one.hidden_bytes} bytes, unpacked, are hidden by later layers"
        )
    for row in one.accepted:
        yield (
            f"accepted until {row.until}: {row.finding.key}: {row.finding.subject}: "
            f"{row.finding.evidence} ({row.reason})"
        )
    counts = {
        severity: sum(finding.severity == severity for finding in one.findings)
        for severity in ("error", "warning", "info")
    }
    told = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    yield f"{'not clean' if counts['error'] else 'clean'}: {told or 'no findings'}"


def _summary(rows: Sequence[ObjectRow], gpu: str) -> str:
    native = sum(any(form != "ptx" for form in row.runs[gpu]) for row in rows)
    ptx = sum(list(row.runs[gpu]) == ["ptx"] for row in rows)
    named = sum(gpu in row.exceptions for row in rows)
    none = len(rows) - native - ptx - named
    return (
        f"{native} of {len(rows)} objects native, {ptx} by PTX alone, "
        f"{named} without by a stated reason, {none} without"
    )


def _table(rows: Sequence[ObjectRow], gpu: str) -> Iterator[str]:
    width = max(len(row.path) for row in rows)
    yield f"  {'':{width}}" + "".join(f"{_HEADS[form]:>7}" for form in FORMS)
    for row in rows:
        runs = row.runs[gpu]
        line = f"  {row.path:{width}}" + "".join(f"{runs.get(form) or '·':>7}" for form in FORMS)
        if not runs:
            line += f"  none: {row.exceptions.get(gpu, 'not built for it')}"
        yield line
