"""The second opinion on a resolution: the same question as files for pip-tools or pip, compared.

pip-tools lives in pip's internals and breaks with every other pip, so the two are pinned to each
other and to their bytes. It knows no overrides and binds no package to an index; both are said
through small wheels that hold nothing but METADATA and are preferred by their build tag (PEP 427).
"""

from __future__ import annotations

import io
import re
import shlex
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from builder.core.assembly import LockedPlatform, LockedWheel
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.lock import WheelPin
from builder.core.spec import GENERAL

Method = Literal["pip-tools", "pip-lock"]


def _tool(name: str, version: str, size: int, sha256: str) -> WheelPin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return WheelPin(name=name, version=version, sha256=sha256, file=file, size=size, index=GENERAL)


TOOLS = (
    _tool(
        "build", "1.6.1", 31_179, "ecd351a4be9d35a9eaaba244a7687143c9c7d4aea6ac964e7e7ddab20cbcf4e7"
    ),
    _tool(
        "click",
        "8.5.1",
        126_163,
        "8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37",
    ),
    _tool(
        "packaging",
        "26.4",
        140_049,
        "81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2",
    ),
    _tool(
        "pip", "26.3", 1_950_951, "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
    ),
    _tool(
        "pip-tools",
        "7.6.2",
        76_310,
        "f37eb4b736859c2c30230e50977312c61918b7ef931071ff7811fd067715c25f",
    ),
    _tool(
        "pyproject-hooks",
        "1.3.3",
        10_724,
        "5fc53fdac9f7bd63fbcdc868fb5f90b4784d78a53a3d3388cd738b807441a20b",
    ),
)
"""A pair that works together (pip-tools 7.6.2 is the only one for pip 26.3) and what it imports."""

PLACE = "/nightlock"
"""Folder of the container that holds everything."""
OUTPUT = {"pip-tools": "locked.txt", "pip-lock": "pylock.locked.toml"}
_PREFERRED = "99999nightlock"
"""Build tag: among files of one version and platform the highest is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question, as the files of a folder and the command that answers it."""

    method: Method
    files: Mapping[str, bytes]
    """Name below `PLACE` → content."""
    output: str
    """Name below `PLACE` of the answer."""


def ask(
    method: Method,
    locked: LockedPlatform,
    overrides: Sequence[str],
    *,
    index: str,
    environment: Mapping[str, str],
    seeded: bool = True,
) -> Ask:
    """Put the question of one platform: the image's requirements, seeded with what was locked.

    `overrides` are those of image.toml; what rules added is in `locked`.
    `index` is the general index as the container reaches it, without credentials. `environment` is
    all that the resolver sees. `seeded` False asks from nothing, for `pip-lock` alone: it knows no
    preferences, so seeds are constraints there.
    """
    rules = _by_name([*overrides, *locked.overrides])
    stubs = dict(
        stub(wheel, rules)
        for wheel in locked.wheels
        if wheel.pin.index != GENERAL or _asks_for(wheel, rules)
    )
    pins = [wheel.pin for wheel in locked.wheels]
    seeds = [f"{pin.name}=={pin.version}" for pin in pins]
    # A bound package's version is its index's affair: no second resolver may choose another.
    bound = [f"{pin.name}=={pin.version}" for pin in pins if pin.index != GENERAL]
    held = seeds if seeded and method == "pip-lock" else bound
    files = {
        "asked.in": _lines(_overridden(locked.requirements, rules)),
        "constraints.txt": _lines([*locked.constraints, *held]),
        "wheels/.keep": b"",
        **{f"wheels/{name}": data for name, data in stubs.items()},
    }
    if method == "pip-tools":
        files[OUTPUT[method]] = _lines(sorted(seeds))
    files["ask.sh"] = _script(_argv(method, index), environment)
    return Ask(method=method, files=files, output=OUTPUT[method])


def _argv(method: Method, index: str) -> list[str]:
    wheels = f"{PLACE}/wheels"
    # Without PEP 658 pip fetches whole wheels for their METADATA; lazily it reads their ends.
    if method == "pip-lock":
        return [
            "python3", "-m", "pip", "lock", "--progress-bar", "off", "--only-binary", ":all:",
            "--use-feature", "fast-deps", "--index-url", index, "--find-links", wheels,
            "--requirement", "asked.in", "--constraint", "constraints.txt",
            "--output", OUTPUT[method],
        ]  # fmt: skip
    # No --generate-hashes: it keeps wrong ones, and downloads every file of a release for new ones.
    return [
        "python3", "-m", "piptools", "compile", "--quiet", "--no-config", "--no-header",
        "--no-annotate", "--strip-extras", "--allow-unsafe", "--no-emit-index-url",
        "--no-emit-trusted-host", "--no-emit-find-links", "--no-emit-options",
        "--index-url", index, "--find-links", wheels,
        "--pip-args", "--only-binary=:all: --use-feature=fast-deps",
        "--constraint", "constraints.txt", "--output-file", OUTPUT[method], "asked.in",
    ]  # fmt: skip


def _script(argv: Sequence[str], environment: Mapping[str, str]) -> bytes:
    # `env -i`, and not the container's own environment: that one is shown by `docker inspect`.
    settings = [f"{name}={value}" for name, value in sorted(environment.items())]
    command = shlex.join(["env", "-i", *settings, *argv])
    return f"cd {PLACE} && exec {command}\n".encode()


def stub(wheel: LockedWheel, overrides: Mapping[str, Sequence[Requirement]]) -> tuple[str, bytes]:
    """Make a wheel of nothing but METADATA, with the overrides laid over its requirements."""
    raw, _ = parse_email(wheel.facts.metadata)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {raw.get('name', wheel.pin.name)}",
        f"Version: {wheel.pin.version}",
    ]
    if wheel.facts.requires_python:
        lines.append(f"Requires-Python: {wheel.facts.requires_python}")
    lines += [f"Provides-Extra: {extra}" for extra in raw.get("provides_extra", [])]
    wanted = _overridden(wheel.facts.requires_dist, overrides)
    lines += [f"Requires-Dist: {text}" for text in wanted]
    name, version, *_, python, abi, platform = wheel.pin.file.removesuffix(".whl").split("-")
    folder = f"{name}-{version}.dist-info"
    content = {
        "METADATA": "\n".join([*lines, "", ""]),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: nightlock\nRoot-Is-Purelib: true\n"
        + "".join(
            f"Tag: {a}-{b}-{c}\n"
            for a in python.split(".")
            for b in abi.split(".")
            for c in platform.split(".")
        ),
        "RECORD": "".join(f"{folder}/{part},,\n" for part in ("METADATA", "WHEEL", "RECORD")),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for part, text in content.items():
            archive.writestr(zipfile.ZipInfo(f"{folder}/{part}"), text)
    file = f"{name}-{version}-{_PREFERRED}-{python}-{abi}-{platform}.whl"
    return file, buffer.getvalue()


def _by_name(overrides: Iterable[str]) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for text in overrides:
        rule = Requirement(text)
        found.setdefault(canonicalize_name(rule.name), []).append(rule)
    return found


def _asks_for(wheel: LockedWheel, overrides: Mapping[str, object]) -> bool:
    names = {canonicalize_name(entry.name) for entry in wheel.distribution.requirements}
    return bool(names & overrides.keys())


_EXTRA = re.compile(r"extra\s*==\s*(['\"])([^'\"]+)\1")


def _overridden(
    requirements: Iterable[str], overrides: Mapping[str, Sequence[Requirement]]
) -> list[str]:
    """Replace what is overridden, marker and all, but never an extra's gate (as uv does)."""
    result: list[str] = []
    for text in requirements:
        own = Requirement(text)
        rules = overrides.get(canonicalize_name(own.name))
        if rules is None:
            result.append(text)
            continue
        gate = _EXTRA.search(str(own.marker or ""))
        for rule in rules:
            markers = [f"({rule.marker})"] if rule.marker else []
            markers += [f"extra == '{gate[2]}'"] if gate else []
            plain = str(rule).partition(";")[0].strip()
            result.append(f"{plain} ; {' and '.join(markers)}" if markers else plain)
    return result


def answer(method: Method, text: str) -> dict[str, str]:
    """Read what the other resolver locked: package → version."""
    if method == "pip-lock":
        return {
            canonicalize_name(row["name"]): str(row.get("version", ""))
            for row in tomllib.loads(text).get("packages", [])
        }
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", line)
        if match:
            found[canonicalize_name(match[1])] = match[2]
    return found


def compare(
    locked: Iterable[WheelPin], other: Mapping[str, str], *, method: Method, platform: str
) -> list[Finding]:
    """Name every package on which the two differ, by name."""
    mine = {pin.name: pin.version for pin in locked}
    rows = []
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) == other.get(name):
            continue
        if name not in other:
            seen = f"uv locked {mine[name]}, {method} has no use for it"
        elif name not in mine:
            seen = f"{method} wants {other[name]}, the lock does not have it"
        else:
            seen = f"uv locked {mine[name]}, {method} took {other[name]}"
        rows.append(
            finding("second-opinion-differs", subject=f"{name} ({platform})", evidence=seen)
        )
    return rows


def is_conflict(tail: str) -> bool:
    """Whether a resolver's last words say that the set cannot be installed at all."""
    words = r"ResolutionImpossible|conflicting dependencies|No matching distribution found"
    return re.search(words, tail) is not None


def conflict(tail: str, *, method: Method, platform: str) -> Finding:
    """Say that the other resolver finds no solution at all."""
    return finding(
        "second-opinion-differs",
        subject=platform,
        evidence=f"{method} cannot install what was locked: {_reasons(tail)}",
    )


def _reasons(tail: str) -> str:
    """Cut pip's own account of a conflict out of its last words."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    start = next((n for n, line in enumerate(lines) if "caused by:" in line), None)
    if start is None:
        return " ".join(line for line in lines if line.startswith("ERROR"))[-600:]
    end = next((n for n, line in enumerate(lines) if line.startswith("To fix this")), len(lines))
    return "; ".join(lines[start + 1 : end])[:600]


def _lines(rows: Iterable[str]) -> bytes:
    return "".join(row + "\n" for row in rows).encode()
