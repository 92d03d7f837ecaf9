"""`nightlock audit`: what a lock's wheels, a folder of wheels or an image really hold."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from builder.commands.audit_target import read_yardstick
from builder.commands.audit_trees import Grown, folder_tree, image_tree, lock_tree, originals
from builder.commands.context import Context, Outcome
from builder.core.accept import Accept, apply
from builder.core.audit.integrity import Damage, changed_lines, damages
from builder.core.audit.judge import Seen, Yardstick, judge
from builder.core.audit.kernels import kernels
from builder.core.audit.result import AuditResult, PlatformAudit, audit_of
from builder.core.audit.secrets import suspects
from builder.core.audit.text import text
from builder.core.audit.tree import Tree
from builder.core.lock import Lock
from builder.edge import profiles
from builder.edge.image_source import open_image
from builder.edge.project import find_project, read_lock_folder
from builder.errors import BadInput

FORMATS = ("text", "json", "html")


def run(
    context: Context,
    *,
    lock: str = "",
    wheels: Path | None = None,
    image: str = "",
    targets: Sequence[str] = (),
    format: str = "text",  # noqa: A002 - the option's name
) -> Outcome[AuditResult]:
    """Audit one of the three; `lock` beside one of the others is what that one is judged by.

    Without `targets` those of the lock's image count, or those an image's labels name.

    Raises:
        BadInput: nothing to audit, both a folder and an image, no such thing, a strange target.
        Outside: locked wheels are not in the store.
        Refused: a wheel or a layer is damaged.
        LockFileError, RegistryError, NetworkError, HashMismatch, SpecError.

    """
    _check_options(lock, wheels, image, format)
    context = _in_project(context, required=bool(lock))
    stated = read_lock_folder(context.lock_folder(lock), lock) if lock else None
    if image:
        result = _audit_image(context, image, stated, targets)
    elif wheels is not None:
        grown = folder_tree(context, wheels)
        by = read_yardstick(context, grown.tree, stated, targets)
        audits = [_audit(context, grown, by, lock)]
        result = AuditResult(kind="wheels", subject=str(wheels), digest="", audits=audits)
    else:
        result = audit_lock(context, lock, targets)
    findings = tuple(finding for one in result.audits for finding in one.findings)
    return Outcome(
        result=result,
        text="" if context.output.json else _write(result, format),
        ok=not any(finding.severity == "error" for finding in findings),
        findings=findings,
    )


def audit_lock(context: Context, image: str, targets: Sequence[str] = ()) -> AuditResult:
    """Audit the wheels of every platform that a lock names; raises as `run`."""
    stated = read_lock_folder(context.lock_folder(image), image)
    audits = []
    for platform in sorted(stated.platforms):
        grown = lock_tree(context, image, stated, platform)
        by = read_yardstick(context, grown.tree, stated, targets, platform)
        audits.append(_audit(context, grown, by, image))
    return AuditResult(kind="lock", subject=image, digest=stated.digest, audits=audits)


def _audit_image(
    context: Context, text: str, stated: Lock | None, targets: Sequence[str]
) -> AuditResult:
    with open_image(text, os.environ) as source:
        audits = []
        for one in source.images:
            grown = image_tree(context, source, one)
            by = read_yardstick(context, grown.tree, stated or grown.lock, targets)
            name = grown.lock.header.image if grown.lock else ""
            audits.append(_audit(context, grown, by, name))
        return AuditResult(kind="image", subject=text, digest=source.digest, audits=audits)


def _audit(context: Context, grown: Grown, by: Yardstick, image: str) -> PlatformAudit:
    """Judge one tree, looking a second time at what the first look found odd."""
    tree = grown.tree
    found = damages(tree)
    edited = [one for one in found if one.what == "edited"]
    origin = tree.image.origin if tree.image else {}
    wanted = {*suspects(tree), *((origin.get(one.path, 0), one.path) for one in edited)}
    contents = grown.read(wanted) if wanted else {}
    now = {path: data for (layer, path), data in contents.items() if origin.get(path, 0) == layer}
    lines, published = _compare(context, by, tree, edited, now)
    seen = Seen(lines=lines, published=published, contents=contents)
    rows = kernels(tree)
    findings = judge(tree, by, rows, found, seen)
    parted = apply(findings, _accepted(context), image=image, today=_today())
    return audit_of(tree, by, rows, parted.open, parted.accepted)


def _compare(
    context: Context,
    by: Yardstick,
    tree: Tree,
    edited: Sequence[Damage],
    now: Mapping[str, bytes],
) -> tuple[dict[str, str], frozenset[str]]:
    """Compare edited files with those of the locked wheels, where the store has these.

    Returns path → lines that changed, and the paths of files that are as they were published.
    """
    owners = {one.path: one.package for one in edited if one.package is not None}
    wanted = {path: (package.name, package.spelled(path)) for path, package in owners.items()}
    before = originals(context, by.lock, sorted(set(wanted.values())))
    lines: dict[str, str] = {}
    published: set[str] = set()
    for path, whose in wanted.items():
        old = before.get(whose)
        if old is None:
            continue
        if hashlib.sha256(old).hexdigest() == tree.files[path].sha256:
            published.add(path)
        elif path in now:
            lines[path] = changed_lines(old, now[path])
    return lines, frozenset(published)


def _accepted(context: Context) -> list[Accept]:
    if not (context.project / "images" / "policy.toml").is_file():
        return []
    return profiles.read_policy(context.project).accept


def _today() -> date:
    return datetime.now(UTC).date()


def _in_project(context: Context, *, required: bool) -> Context:
    """Find the project around the current folder; an image needs none."""
    try:
        return replace(context, project=find_project(context.project))
    except BadInput:
        if required:
            raise
        return context


def _check_options(lock: str, wheels: Path | None, image: str, form: str) -> None:
    if not lock and wheels is None and not image:
        raise BadInput(
            "nothing to audit",
            subject="audit",
            action="name one with --lock IMAGE, --wheels DIR or --image REF",
        )
    if wheels is not None and image:
        raise BadInput(
            "a folder and an image at once",
            subject=f"{wheels}, {image}",
            action="run it twice, with --wheels DIR and with --image REF",
        )
    if form not in FORMATS:
        raise BadInput(
            f"there is no format {form!r}",
            subject="--format",
            action=f"formats: {', '.join(FORMATS)}; --json prints the whole answer",
        )


def _write(result: AuditResult, form: str) -> str:
    if form == "html":
        # Imported late: jinja2 costs 40 ms.
        from builder.core.audit.html import html  # noqa: PLC0415
        from builder.edge.templates import read_template  # noqa: PLC0415

        return html(result, read_template("audit.html.j2"))
    if form == "json":
        rows = [
            {
                "platform": one.platform,
                "targets": one.targets,
                "objects": [row.model_dump() for row in one.objects],
                "code_bytes": one.code_bytes,
            }
            for one in result.audits
        ]
        return json.dumps(rows, indent=1)
    return text(result)
