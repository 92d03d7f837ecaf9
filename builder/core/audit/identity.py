"""What is installed against what was locked, and what labels say against what is there (C67)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from builder.core.audit.kernels import Kernels, baked
from builder.core.audit.tree import Package, Tree
from builder.core.distribution import parse_version
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.labels import COMPANIONS, LOCK_DIGEST, VLLM_PACKAGE, VLLM_VERSION
from builder.core.lock import PlatformLock, digest_of
from builder.core.wheel import VERSION_FILE

LOCK_FOLDER = "opt/nightlock/lock/"
MATRIX = "opt/nightlock/kernels.json"
_VERSION = re.compile(r"^__version__ = version = ['\"](?P<version>[^'\"\n]+)['\"]", re.MULTILINE)


def check_set(tree: Tree, lock: PlatformLock) -> list[Finding]:
    """Compare the packages with the lock's: further ones, absent ones, other versions or files."""
    there: dict[str, Package] = {one.name: one for one in tree.imported}
    pins = {pin.name: pin for pin in lock.wheels}
    findings = []
    for name in sorted(there.keys() | pins.keys()):
        one, pin = there.get(name), pins.get(name)
        if one is None and pin is not None:
            evidence = f"the lock names {name} {pin.version}, and it is not there"
        elif one is not None and pin is None:
            evidence = f"{one.distribution.spelled} is there, and the lock does not name it"
        elif one is not None and pin is not None and not _same(one, pin.version, pin.file):
            found = one.distribution.file or one.distribution.spelled
            evidence = f"{found} is there, the lock names {pin.file}"
        else:
            continue
        findings.append(finding("not-locked", subject=name, evidence=evidence))
    return findings


def _same(one: Package, version: str, file: str) -> bool:
    if one.is_wheel:
        return one.distribution.file == file
    return parse_version(one.distribution.version) == parse_version(version)


def check_labels(tree: Tree) -> list[Finding]:
    """Compare an image's labels with its content."""
    if tree.image is None:
        return []
    labels = tree.image.labels
    there = {one.name: one.distribution.version for one in tree.imported}
    rows = [
        (f"label {VLLM_VERSION}", labels.get(VLLM_PACKAGE, ""), labels.get(VLLM_VERSION, "")),
        *(
            (f"label {COMPANIONS}", name, version)
            for name, version in sorted(_companions(labels).items())
        ),
    ]
    findings = [
        _differs(f"the {place} says {name} {said}, {there.get(canonicalize_name(name), 'nothing')} "
                 "is installed", name)
        for place, name, said in rows
        if name and said and parse_version(there.get(canonicalize_name(name), "")) !=
        parse_version(said)
    ]  # fmt: skip
    lock = tree.texts.get(f"{LOCK_FOLDER}lock.toml")
    stated = labels.get(LOCK_DIGEST, "")
    if stated and lock is None:
        findings.append(_differs(f"the label says lock {stated}, the image holds none", "the lock"))
    elif lock is not None and stated and digest_of(lock) != stated:
        findings.append(
            _differs(f"the label says lock {stated}, inside is {digest_of(lock)}", "the lock")
        )
    return findings


def check_versions(tree: Tree) -> list[Finding]:
    """Compare vLLM's two versions: `/version` answers by one, `vllm --version` by the other."""
    findings = []
    for one in tree.imported:
        path = one.path_of(VERSION_FILE)
        if path not in one.paths:
            continue
        match = _VERSION.search(tree.text(path))
        inside = parse_version(match["version"]) if match else None
        outside = one.distribution.parsed
        if inside and outside and inside.public != outside.public:
            findings.append(
                _differs(f"METADATA says {outside}, {VERSION_FILE} says {inside}", one.name)
            )
    return findings


def check_baked(tree: Tree, rows: Iterable[Kernels]) -> list[Finding]:
    """Compare the kernel matrix that lies in an image with its objects."""
    said = tree.texts.get(MATRIX)
    if said is None or tree.image is None:
        return []
    try:
        there = dict(json.loads(said)["objects"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return [_differs("it cannot be read", f"/{MATRIX}")]
    found = baked(rows, ())["objects"]
    wrong = sorted({path for path, _ in _items(there) ^ _items(found)})
    if not wrong:
        return []
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return [_differs(f"it says something else of {', '.join(wrong[:3])}{more}", f"/{MATRIX}")]


def _items(objects: Any) -> set[tuple[str, str]]:  # noqa: ANN401 - as JSON has it
    return {(str(path), json.dumps(code)) for path, code in objects.items()}


def _companions(labels: Mapping[str, str]) -> dict[str, str]:
    try:
        rows = json.loads(labels.get(COMPANIONS, "{}"))
    except (ValueError, RecursionError):
        return {}
    # Several versions, joined by commas, are those of several platforms.
    return {
        str(name): str(version)
        for name, version in (rows.items() if isinstance(rows, dict) else ())
        if "," not in str(version)
    }


def _differs(evidence: str, subject: str) -> Finding:
    return finding("tag-vs-content", subject=subject, evidence=evidence)
