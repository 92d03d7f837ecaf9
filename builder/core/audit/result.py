"""The answer of an audit: what was looked at, the kernel matrix, what was accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from builder.core.accept import Accepted
from builder.core.audit.judge import Yardstick
from builder.core.audit.kernels import Kernels, totals
from builder.core.audit.tree import Tree
from builder.core.document import Result
from builder.core.finding import Finding


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ObjectRow(_Row):
    """One shared object with GPU code."""

    package: str
    path: str
    """Below the site directory."""
    size: int
    """Bytes."""
    code: dict[str, int]
    """Architecture (`sm_120f`, `compute_80`) → entries."""
    runs: dict[str, dict[str, int]]
    """Target → form (`a`, `f`, `exact`, `near`, `ptx`) → entries that run on it."""
    exceptions: dict[str, str]
    """Target without any → why that is right."""


class AuditedLayer(_Row):
    """One layer of an image."""

    digest: str
    size: int
    """Bytes of its blob."""
    files: int
    bytes: int
    """Of its files, unpacked."""
    hidden: int
    """Bytes of its files that a later layer hides."""


class AcceptedRow(_Row):
    """A finding that images/policy.toml excuses."""

    finding: Finding
    reason: str
    until: str
    """ISO date; the last day it counts."""


class PlatformAudit(_Row):
    """What was found on one platform."""

    platform: str
    python: str
    glibc: str
    """Of the base; empty: unknown."""
    cuda: str
    targets: list[str]
    packages: int
    files: int
    bytes: int
    """Unpacked."""
    objects: list[ObjectRow]
    code_bytes: dict[str, int]
    """Architecture → bytes of code as stored, most first."""
    layers: list[AuditedLayer]
    hidden_bytes: int
    accepted: list[AcceptedRow]
    findings: list[Finding]
    """Of this platform, those that count."""


class AuditResult(Result):
    """One lock, folder or image."""

    kind: str
    """`lock`, `wheels` or `image`."""
    subject: str
    digest: str
    """Of the lock or the image; empty for a folder."""
    audits: list[PlatformAudit]


def audit_of(
    tree: Tree,
    by: Yardstick,
    rows: Sequence[Kernels],
    findings: Iterable[Finding],
    accepted: Iterable[Accepted],
) -> PlatformAudit:
    """Lay out one platform's answer."""
    target = by.target
    return PlatformAudit(
        platform=target.platform,
        python=target.python,
        glibc=target.glibc,
        cuda=target.cuda,
        targets=list(target.gpus),
        packages=len(tree.packages),
        files=len(tree.files),
        bytes=sum(facts.size for facts in tree.files.values()),
        objects=[_object(row, target.gpus) for row in rows],
        code_bytes=totals(rows),
        layers=_layers(tree),
        hidden_bytes=tree.image.wasted if tree.image else 0,
        accepted=[
            AcceptedRow(finding=one.finding, reason=one.by.reason, until=one.by.until.isoformat())
            for one in accepted
        ],
        findings=list(findings),
    )


def _object(row: Kernels, gpus: Sequence[str]) -> ObjectRow:
    runs: dict[str, dict[str, int]] = {
        gpu: {str(form): count for form, count in row.forms(gpu).items()} for gpu in gpus
    }
    return ObjectRow(
        package=row.package,
        path=row.path,
        size=row.size,
        code={amount.code.architecture: amount.count for amount in row.code},
        runs=runs,
        exceptions={
            gpu: reason for gpu in gpus if not runs[gpu] and (reason := row.exception(gpu))
        },
    )


def _layers(tree: Tree) -> list[AuditedLayer]:
    if tree.image is None:
        return []
    hidden = [0] * len(tree.image.layers)
    for one in tree.image.hidden:
        hidden[one.layer] += one.facts.size
    return [
        AuditedLayer(
            digest=layer.digest,
            size=layer.size,
            files=len(layer.files),
            bytes=sum(facts.size for facts in layer.files.values()),
            hidden=hidden[number],
        )
        for number, layer in enumerate(tree.image.layers)
    ]
