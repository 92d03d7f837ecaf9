"""The one table of finding keys: a finding's texts stand here and nowhere else.

Findings are made with `finding(key, subject=…, evidence=…)`; `nightlock explain KEY` prints a row.
"""

from __future__ import annotations

import difflib

from builder.core.finding import Finding, Severity
from builder.core.keys import api, boot, build, image, inside, lock, manifest, release, sources
from builder.core.keys.key import Key, Kind

__all__ = ["KEYS", "Key", "Kind", "close_to", "find_key", "finding"]

KEYS: dict[str, Key] = {
    row.key: row
    for table in (
        lock.KEYS,
        sources.KEYS,
        build.KEYS,
        image.KEYS,
        inside.KEYS,
        boot.KEYS,
        api.KEYS,
        release.KEYS,
        manifest.KEYS,
    )
    for row in table
}
"""Every key, in the order of the chain."""


def finding(
    key: str,
    *,
    subject: str,
    evidence: str,
    severity: Severity | None = None,
    cause: str | None = None,
    action: str | None = None,
) -> Finding:
    """Make a finding; what is not given comes from the table.

    A key that is not in the table is our bug: KeyError.
    """
    row = KEYS[key]
    return Finding(
        key=key,
        severity=severity or row.severity,
        subject=subject,
        evidence=evidence,
        cause=cause or row.cause,
        action=action or row.action,
    )


def find_key(text: str) -> Key | None:
    """Find a row by its key, or by the number of its case; case and underscores do not matter."""
    wanted = text.strip().casefold().replace("_", "-")
    if wanted in KEYS:
        return KEYS[wanted]
    return next((row for row in KEYS.values() if row.case and row.case.casefold() == wanted), None)


def close_to(text: str) -> list[str]:
    """Keys that look like what was typed, the closest first; at most five."""
    wanted = text.strip().casefold().replace("_", "-")
    close = difflib.get_close_matches(wanted, KEYS, n=5, cutoff=0.5)
    holding = [key for key in KEYS if wanted and wanted in key and key not in close]
    return (close + holding)[:5]
