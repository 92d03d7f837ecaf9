"""The order in which dpkg can install .debs: steps, each closed under what it depends on.

dpkg unpacks a package only when what it pre-depends on is configured (Debian Policy §7.2), and
does not order the files of one call by that; within one call it configures in the right order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.core.control import parse_stanza
from builder.core.lock import DebPin
from builder.errors import Refused

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def install_order(controls: Sequence[tuple[DebPin, str]]) -> list[list[str]]:
    """Spread files over calls of dpkg; each row has file names, sorted.

    `controls` has each .deb's own control data. Raises Refused when two packages pre-depend on
    each other.
    """
    stanzas = {pin.name: parse_stanza(control) for pin, control in controls}
    givers: dict[str, set[str]] = {name: {name} for name in stanzas}
    for name, stanza in stanzas.items():
        for given in _names(stanza.get("Provides", "")):
            givers.setdefault(given, set()).add(name)

    def needed(name: str, field: str) -> set[str]:
        asked = _names(stanzas[name].get(field, ""))
        return {giver for one in asked for giver in givers.get(one, ())} - {name}

    before = {name: needed(name, "Pre-Depends") for name in stanzas}
    beside = {name: needed(name, "Depends") for name in stanzas}
    step = dict.fromkeys(stanzas, 0)
    changed = True
    while changed:
        changed = False
        for name in stanzas:
            least = max(
                [step[name], *(step[one] + 1 for one in before[name])]
                + [step[one] for one in beside[name]]
            )
            if least > len(stanzas):
                raise Refused(
                    f"{name} has to be configured before it is unpacked",
                    subject=name,
                    action="take it out of `[base] packages`",
                )
            if least != step[name]:
                step[name], changed = least, True
    rows: dict[int, list[str]] = {}
    for pin, _ in controls:
        rows.setdefault(step[pin.name], []).append(pin.file)
    return [sorted(rows[number]) for number in sorted(rows)]


def _names(relation: str) -> set[str]:
    """Names in a relation field, of alternatives too, without versions and architectures."""
    rows = re.split(r"[,|]", relation)
    return {match[0] for row in rows if (match := _NAME.match(row.strip()))}
