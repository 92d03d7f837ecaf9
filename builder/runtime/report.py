"""The lines of a preflight, and reading a server's arguments."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Report:
    """What was looked at, in order."""

    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []

    @property
    def good(self) -> bool:
        """Whether nothing stops the server."""
        return all(row["state"] != "stop" for row in self.rows)

    def ok(self, what: str, text: str) -> None:
        """Note what is right."""
        self.rows.append({"state": "ok", "key": what, "text": text, "fix": ""})

    def warn(self, key: str, text: str, fix: str) -> None:
        """Note what is doubtful; `key` is a finding key."""
        self.rows.append({"state": "warn", "key": key, "text": text, "fix": fix})

    def stop(self, key: str, text: str, fix: str) -> None:
        """Note what the server cannot work with; `key` is a finding key."""
        self.rows.append({"state": "stop", "key": key, "text": text, "fix": fix})

    def lines(self) -> list[str]:
        """One line a check, with the fix behind it."""
        return [
            f"{row['state']:<4} {row['key']}: {row['text']}"
            + (f"; fix: {row['fix']}" if row["fix"] else "")
            for row in self.rows
        ]

    def json(self) -> str:
        """Write everything as one line."""
        return json.dumps(
            {"schema": "nightlock/preflight/1", "ok": self.good, "checks": self.rows},
            sort_keys=True,
        )


def option(arguments: Sequence[str], *names: str) -> str:
    """Value of the last of these options that is given; empty for none.

    `--name value`, `--name=value`, and `_` for `-` as vLLM's parser takes it.
    """
    found = ""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        if name not in names:
            continue
        if equals:
            found = value
        elif place + 1 < len(arguments):
            found = arguments[place + 1]
    return found


def number(text: str, default: float) -> float:
    """Read a number; the default for anything else."""
    try:
        return float(text)
    except ValueError:
        return default
