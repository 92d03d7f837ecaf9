"""Upstream's per-commit nightly tags: they are deleted after about two weeks (C63).

vLLM's clean-up job keeps the newest 14 of a prefix and says nothing (facts: its
`cleanup-nightly-builds.sh`); builds come about one a day.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.reference import ImageRef

KEPT = 14
"""Builds whose tags upstream keeps."""
_WARN = timedelta(days=10)
"""Age at which there is still time to mirror."""
_TAG = re.compile(r"(?:[\w.]+-)*nightly-[0-9a-f]{7,40}(?:-[\w.]+)*")


def is_nightly(tag: str) -> bool:
    """Whether a tag is of one nightly's commit; `nightly` alone moves and is never deleted."""
    return _TAG.fullmatch(tag) is not None


def judge_tag(reference: ImageRef, *, there: bool, created: str, now: datetime) -> Finding | None:
    """Say that such a tag is gone, or about to go; None for another tag or a young one.

    `created` is the image config's (RFC 3339), empty when unknown; `now` has a time zone.
    """
    if not is_nightly(reference.tag or ""):
        return None
    name = reference.with_tag(reference.tag or "")
    if not there:
        return finding(
            "nightly-tags-purged",
            severity="error",
            subject=str(name),
            evidence=f"the tag is gone; upstream keeps those of {KEPT} builds",
            action="Name a mirrored digest in `base.image`, or a newer build, and lock again.",
        )
    age = now - moment if (moment := _moment(created)) else timedelta()
    if age < _WARN:
        return None
    return finding(
        "nightly-tags-purged",
        subject=str(name),
        evidence=f"it is {age.days} days old; upstream keeps the tags of {KEPT} builds",
    )


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
