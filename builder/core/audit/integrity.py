"""Files against RECORD: edited, missing, stray; and what a later layer put over an earlier one."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from builder.core.audit.exceptions import OURS, PUBLISHED
from builder.core.audit.file import FileFacts
from builder.core.audit.record import UNLISTED
from builder.core.audit.tree import Package, Tree
from builder.core.finding import Finding
from builder.core.keys import finding

_BYTE_CODE = re.compile(
    r"(?P<folder>(?:.*/)?)__pycache__/(?P<module>[^/]+?)\.[\w-]+(?:\.opt-\d)?\.pyc"
)
_SHOWN = 3
"""Changed lines that a finding quotes."""
_LONGEST_LINE = 160
_TOGETHER = 8
"""Strays of one folder from which they become one finding."""
LARGEST_COMPARED = 4 << 20
"""Bytes of a text whose changed lines are shown."""

What = Literal["edited", "missing", "stray", "covered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One file that is not what it should be."""

    what: What
    path: str
    """In the tree."""
    package: Package | None = None
    """Whose RECORD names it."""
    note: str = ""


def damages(tree: Tree) -> list[Damage]:
    """Compare every file with the RECORD that names it, and find those that none names."""
    found = [*_unequal(tree), *_strays(tree), *_covered(tree)]
    return sorted(found, key=lambda one: (one.path, one.what))


def _unequal(tree: Tree) -> Iterator[Damage]:
    """Find edited and missing files; of several owners of a path, one that agrees is enough."""
    right: set[str] = set()
    wrong: dict[str, Damage] = {}
    for package in tree.packages:
        for path, row in package.paths.items():
            facts = tree.files.get(path)
            if facts is None:
                if not path.endswith(".pyc"):
                    wrong[path] = Damage(what="missing", path=path, package=package)
            elif facts.sha256 in PUBLISHED and not facts.link:
                right.add(path)
            elif row.sha256 and (facts.link or facts.sha256 != row.sha256):
                note = f"it is a link to {facts.link} now" if facts.link else ""
                wrong[path] = Damage(what="edited", path=path, package=package, note=note)
            else:
                right.add(path)
    yield from (one for path, one in wrong.items() if path not in right)


def _strays(tree: Tree) -> Iterator[Damage]:
    recorded = {package.site for package in tree.packages if package.rows}
    for path, facts in tree.files.items():
        if path in tree.owners:
            continue
        if tree.kind != "image":
            if posixpath.basename(path) not in UNLISTED:
                yield Damage(what="stray", path=path)
        elif _is_ours(tree, path, facts) or _is_byte_code(tree, path):
            continue
        elif _is_judged(tree, path, recorded):
            yield Damage(what="stray", path=path, note=_brought(tree, path))


def _is_judged(tree: Tree, path: str, sites: set[str]) -> bool:
    """Of an image of ours all above the base; of others the site directories alone."""
    image = tree.image
    if image is not None and tree.base_layers:
        return image.origin[path] >= tree.base_layers
    return any(path.startswith(f"{site}/") for site in sites)


def _is_ours(tree: Tree, path: str, facts: FileFacts) -> bool:
    return any(
        fnmatchcase(path, row.path.format(environment=tree.environment))
        and (not row.links or facts.link)
        for row in OURS
    )


def _is_byte_code(tree: Tree, path: str) -> bool:
    """Whether it is byte code of a module that is there."""
    match = _BYTE_CODE.fullmatch(path)
    return match is not None and f"{match['folder']}{match['module']}.py" in tree.files


def _covered(tree: Tree) -> Iterator[Damage]:
    """Find what a later layer put over other bytes: no build of ours does, but for one file."""
    image = tree.image
    if image is None or not tree.base_layers:
        return
    for one in image.hidden:
        now = tree.files.get(one.path)
        if one.path in tree.owners or (now is not None and now.sha256 == one.facts.sha256):
            continue
        if _is_ours(tree, one.path, one.facts) and not one.path.startswith("opt/nightlock/"):
            continue
        if now is None and one.layer < tree.base_layers:
            # Deleting a part of the base changes nothing that a package owns.
            continue
        if image.origin.get(one.path) == one.by or now is None:
            done = "deleted" if one.deleted else "replaced"
            yield Damage(
                what="covered",
                path=one.path,
                note=f"layer {one.layer + 1} brought it, layer {one.by + 1} {done} it",
            )


def _brought(tree: Tree, path: str) -> str:
    if tree.image is None:
        return ""
    number = tree.image.origin[path]
    return f"layer {number + 1} of {len(tree.image.layers)} brought it"


def changed_lines(old: bytes, new: bytes) -> str:
    """Quote the lines in which two texts differ, in one line; empty where one is no text.

    `+12: torch.save(x)` is line 12 of the new text, `-12:` of the old.
    """
    if max(len(old), len(new)) > LARGEST_COMPARED or b"\0" in old or b"\0" in new:
        return ""
    try:
        before, after = old.decode().splitlines(), new.decode().splitlines()
    except UnicodeDecodeError:
        return ""
    rows: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, low, high, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        rows += [f"-{at + 1}: {_short(before[at])}" for at in range(low, high)]
        rows += [f"+{at + 1}: {_short(after[at])}" for at in range(start, end)]
    # What was added says more than what is gone.
    rows.sort(key=lambda row: row.startswith("-"))
    more = f" (and {len(rows) - _SHOWN} more lines)" if len(rows) > _SHOWN else ""
    return "; ".join(rows[:_SHOWN]) + more


def _short(line: str) -> str:
    text = "".join(one if one.isprintable() else "?" for one in line.strip())
    return text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "…"


def findings_of(
    tree: Tree,
    found: Sequence[Damage],
    lines: Mapping[str, str] | None = None,
    published: Collection[str] = (),
) -> list[Finding]:
    """Put damages into words.

    `lines`: path → what `changed_lines` says of an edited file; `published`: paths whose bytes are
    those of the wheel that the lock names, so that only its RECORD is wrong.
    """
    said = lines or {}
    rows = [
        _as_published(tree, one) if one.path in published else _said(tree, one, said.get(one.path))
        for one in found
        if one.what != "stray"
    ]
    folders: dict[str, list[Damage]] = {}
    for one in found:
        if one.what == "stray":
            folders.setdefault(posixpath.dirname(one.path), []).append(one)
    for folder, strays in sorted(folders.items()):
        if len(strays) < _TOGETHER:
            rows += [_stray(tree, one) for one in strays]
        else:
            rows.append(_stray_folder(tree, folder, strays))
    return rows


def _stray(tree: Tree, one: Damage) -> Finding:
    facts = tree.files[one.path]
    what = f"a link to {facts.link}" if facts.link else f"{facts.size} bytes"
    return finding(
        "file-stray",
        subject=_place(tree, one.path),
        evidence=f"no package lists it, {what}" + (f"; {one.note}" if one.note else ""),
    )


def _stray_folder(tree: Tree, folder: str, strays: Sequence[Damage]) -> Finding:
    size = sum(tree.files[one.path].size for one in strays)
    names = ", ".join(posixpath.basename(one.path) for one in strays[:_SHOWN])
    return finding(
        "file-stray",
        subject=_place(tree, folder),
        evidence=f"no package lists {len(strays)} files in it, {size} bytes: {names} …"
        + (f"; {strays[0].note}" if strays[0].note else ""),
    )


def _as_published(tree: Tree, one: Damage) -> Finding:
    whose = one.package.distribution.spelled if one.package else ""
    return finding(
        "file-edited",
        severity="warning",
        subject=_place(tree, one.path),
        evidence=f"the wheel of {whose} holds these bytes, and its RECORD lists others",
        cause="Whoever made the wheel changed the file afterwards; the lock names the wheel by "
        "its hash, so nobody edited it since.",
        action="Report it to the package's makers; nothing is wrong with the image.",
    )


def _said(tree: Tree, one: Damage, lines: str | None) -> Finding:
    if one.package is None:
        return finding("file-edited", subject=_place(tree, one.path), evidence=one.note)
    whose = one.package.distribution.spelled
    if one.what == "missing":
        evidence = f"{whose} lists it, and it is not there"
    else:
        evidence = one.note or lines or f"its sha256 is {tree.files[one.path].sha256}"
        evidence = f"not the bytes {whose} lists: {evidence}"
        if tree.image is not None:
            evidence += f"; {_brought(tree, one.path)}"
    return finding("file-edited", subject=_place(tree, one.path), evidence=evidence)


def _place(tree: Tree, path: str) -> str:
    """Spell a path for a person: `/opt/…` in an image, `FILE.whl: PATH` in a wheel."""
    if tree.kind == "image":
        return f"/{path}"
    site, _, inside = path.partition("/")
    return f"{site}: {inside}" if inside else site
