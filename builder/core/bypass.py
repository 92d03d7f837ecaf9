"""Settings that switch a check off or leave a choice to chance: variables and options.

Used on Dockerfiles, image configs, run files, and the environment of whoever locks (C04, C16, C20).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from builder.core.finding import Finding, Severity
from builder.core.keys import finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row: a setting, and the values that are wrong."""

    name: str
    """A variable, or an option with its dashes."""
    key: str
    severity: Severity
    values: str
    """Pattern of the whole value that is wrong."""
    why: str


_ANY = r"(?s:.+)"
_UNSAFE = r"unsafe-.+"

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="FLASHINFER_DISABLE_VERSION_CHECK",
        key="version-check-bypassed",
        severity="error",
        values=_ANY,
        why="any non-empty value switches the check off, 0 included",
    ),
    Setting(
        name="FLASHINFER_CUBIN_DIR",
        key="version-check-bypassed",
        severity="warning",
        values=_ANY,
        why="it wins over the flashinfer-cubin package and skips its version check",
    ),
    Setting(
        name="UV_INDEX_STRATEGY",
        key="index-shadowing",
        severity="error",
        values=_UNSAFE,
        why="the best version of all indexes wins, whoever uploaded it",
    ),
    Setting(
        name="--index-strategy",
        key="index-shadowing",
        severity="error",
        values=_UNSAFE,
        why="the best version of all indexes wins, whoever uploaded it",
    ),
    Setting(
        name="PIP_EXTRA_INDEX_URL",
        key="index-shadowing",
        severity="error",
        values=_ANY,
        why="pip gives no index priority",
    ),
    Setting(
        name="UV_EXTRA_INDEX_URL",
        key="index-shadowing",
        severity="error",
        values=_ANY,
        why="another index is asked first, for every name",
    ),
    Setting(
        name="--extra-index-url",
        key="index-shadowing",
        severity="error",
        values=_ANY,
        why="pip gives no index priority, and uv asks it first for every name",
    ),
    Setting(
        name="UV_TORCH_BACKEND",
        key="torch-backend-auto",
        severity="error",
        values="auto",
        why="the driver of the machine that resolves decides",
    ),
    Setting(
        name="--torch-backend",
        key="torch-backend-auto",
        severity="error",
        values="auto",
        why="the driver of the machine that resolves decides",
    ),
    Setting(
        name="NVIDIA_DISABLE_REQUIRE",
        key="driver-too-old",
        severity="warning",
        values=r"(?i:1|t|true)",
        why="an old driver is let in and fails later",
    ),
    Setting(
        # As it is often written; the container toolkit knows the name above alone.
        name="NVIDIA_DISABLE_REQUIRES",
        key="driver-too-old",
        severity="warning",
        values=_ANY,
        why="an old driver is let in and fails later",
    ),
)
"""The table of settings."""


def check_settings(
    variables: Mapping[str, str],
    arguments: Sequence[str] = (),
    *,
    subject: str,
    severity: Severity | None = None,
) -> list[Finding]:
    """Judge variables and a command's arguments; `subject` is where they stand.

    `severity` replaces the table's: a user's own setting that is not used is only a warning.
    """
    given = [*variables.items(), *_options(arguments)]
    return [
        finding(
            row.key,
            severity=severity or row.severity,
            subject=subject,
            evidence=f"{row.name}={value}: {row.why}"
            if not row.name.startswith("-")
            else f"{row.name} {value}: {row.why}",
        )
        for row in SETTINGS
        for name, value in given
        if name == row.name and re.fullmatch(row.values, value.strip().strip("'\""))
    ]


def _options(arguments: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Read `--option value` and `--option=value`; a missing value is empty."""
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if not name.startswith("--"):
            continue
        after = arguments[at + 1] if at + 1 < len(arguments) else ""
        yield name, value if equals else after
