"""Options of `lock` that contradict each other: refused, since one would have no effect."""

from __future__ import annotations

from collections.abc import Mapping

from builder.errors import BadInput


def refuse_contrary(given: Mapping[str, object]) -> None:
    """Raise BadInput for options that do not go together; `given` is flag → value, empty: not said.

    `--check` and `--migrate` make no lock, so what says how one is made does not belong to them;
    only `--check` reads indexes. `--commit` names a nightly.
    """
    said = [flag for flag, value in given.items() if value]
    makes = [flag for flag in said if flag not in ("--check", "--migrate", "--index")]
    if "--migrate" in said and len(said) > 1:
        raise BadInput(
            "--migrate changes nothing but the form of a lock, and goes alone",
            subject="--migrate",
            action="migrate first, then lock with the other options",
        )
    if "--check" in said and makes:
        raise BadInput(
            "--check judges the lock as it is, and these say how a lock is made",
            subject=", ".join(["--check", *makes]),
            action="leave one of the two out; to see what would be locked, lock with --out DIR",
        )
    if "--commit" in said and given.get("--channel") == "release":
        raise BadInput(
            "a commit is taken from the channel nightly",
            subject="--commit, --channel release",
            action="leave --channel out, or name a release in `lock.requirements` of image.toml",
        )
