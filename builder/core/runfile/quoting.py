"""How each format spells an argument, so that the server gets it byte for byte (C72, C80)."""

from __future__ import annotations

import re
import shlex

from builder.errors import BadInput

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./$-]+")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"'}


def checked(text: str, subject: str) -> str:
    """Return a text that can be an argument; raises BadInput for NUL, which ends one in C."""
    if "\0" in text:
        raise BadInput("an argument cannot hold NUL", subject=subject, action="take it out")
    return text


def shell(text: str) -> str:
    """Quote for a POSIX shell."""
    return shlex.quote(text)


def systemd(text: str) -> str:
    r"""Quote one argument of ExecStart=, and of Exec= in a quadlet.

    `%` and `$` are doubled, since quotes protect from neither; the rest follows C inside of double
    quotes (systemd.service(5), "Command lines"; systemd.syntax(7), "Quoting").
    """
    doubled = text.replace("%", "%%").replace("$", "$$")
    return doubled if _PLAIN.fullmatch(doubled) else _double_quoted(doubled)


def _double_quoted(text: str) -> str:
    escaped = "".join(
        _NAMED.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 32 or ord(char) == 127 else char)
        for char in text
    )
    return f'"{escaped}"'


def dollars(text: str) -> str:
    """Double dollar signs: compose interpolates them, and Kubernetes expands `$(NAME)`."""
    return text.replace("$", "$$")
