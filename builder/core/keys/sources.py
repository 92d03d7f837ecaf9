"""Keys met while a lock is compared with where it came from, or with another resolver's."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="second-opinion-differs",
        title="another resolver comes to another set of packages",
        kind="lock",
        severity="error",
        cause="Two resolvers read the same requirements and disagree: one of them backtracked to "
        "an old release, or took a fault of some metadata for granted.",
        action="Constrain the named package in `lock.constraints` to what is right, then lock "
        "again.",
        seen="astral-sh/uv#9651 jazzband/pip-tools#1173",
    ),
    Key(
        key="import-not-kept",
        title="a pin of the imported file could not be kept",
        kind="lock",
        severity="warning",
        cause="The imported file was made for other requirements, another platform or another "
        "index.",
        action="Nothing, where the reason is meant; else pin that version in `lock.constraints`.",
    ),
    Key(
        key="source-gone",
        title="a locked wheel is on no source any more",
        kind="lock",
        severity="error",
        cause="The file was deleted or purged upstream, or a mirror has lost it.",
        action="Keep the copy in the store (`nightlock fetch`), name a mirror that has it with "
        "--index or find-links, or lock another version.",
        seen="pytorch/pytorch#143434 statsmodels/statsmodels#9198",
    ),
)
"""In the order in which a person meets them."""
