"""Command lines as programs see them: words with lines, and `docker run` read into a container."""

from __future__ import annotations

from collections.abc import Sequence

from builder.core.lint.container import Container
from builder.core.lint.place import Format, Word

_OPERATORS = ("&&", "||", ";;", ">>", "<<", "|", ";", "&", ">", "<", "(", ")")


def shell_words(text: str, line: int) -> list[list[Word]]:
    r"""Split a script's text into commands of words (POSIX shell, 2.3 and 2.9, without expansion).

    Lines joined by `\\` are one; comments are left out; an operator ends a command. A word keeps
    `$`: who expands it is for the rules to say. An open quote ends with the text.
    """
    commands: list[list[Word]] = [[]]
    at, size = 0, len(text)
    while at < size:
        char = text[at]
        if char == "\n":
            commands.append([])
            line += 1
            at += 1
        elif char in " \t\r":
            at += 1
        elif text.startswith("\\\n", at):
            line += 1
            at += 2
        elif char == "#":
            at = _end_of_line(text, at)
        elif operator := next((sign for sign in _OPERATORS if text.startswith(sign, at)), ""):
            commands.append([])
            at += len(operator)
        else:
            begin, where = at, line
            value, at, line = _word(text, at, line)
            raw = text[begin:at]
            commands[-1].append(Word(text=value, line=where, raw="" if "\n" in raw else raw))
    return [command for command in commands if command]


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _word(text: str, at: int, line: int) -> tuple[str, int, int]:
    out: list[str] = []
    quote = ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and text[at + 1 : at + 2] in ('"', "\\", "\n", "`"):
                at += 1
                line += text[at] == "\n"
                out.append("" if text[at] == "\n" else text[at])
            else:
                line += char == "\n"
                out.append(char)
        elif char in "'\"":
            quote = char
        elif char == "\\" and at + 1 < len(text):
            at += 1
            line += text[at] == "\n"
            out.append("" if text[at] == "\n" else text[at])
        elif text.startswith("$(", at) or text.startswith("${", at):
            end = _closing(text, at + 1)
            out.append(text[at:end])
            line += text.count("\n", at, end)
            at = end
            continue
        elif char in " \t\r\n" or any(text.startswith(sign, at) for sign in _OPERATORS):
            break
        else:
            out.append(char)
        at += 1
    return "".join(out), at, line


def _closing(text: str, at: int) -> int:
    """Return the place behind the bracket that closes the one at `at`."""
    opening = text[at]
    closing = {"(": ")", "{": "}"}[opening]
    depth = 0
    while at < len(text):
        depth += (text[at] == opening) - (text[at] == closing)
        at += 1
        if not depth:
            break
    return at


# Options of `docker run` and `podman run` that take no value (docker CLI reference, container run).
_SWITCHES = frozenset(
    {"rm", "init", "detach", "d", "interactive", "i", "tty", "t", "privileged", "read-only"}
    | {"publish-all", "P", "no-healthcheck", "oom-kill-disable", "quiet", "q", "sig-proxy"}
    | {"disable-content-trust", "replace", "tls-verify"}
)
_LISTS = {
    "env": "environment",
    "e": "environment",
    "device": "devices",
    "gpus": "gpus",
    "publish": "ports",
    "p": "ports",
}
_ONES = {
    "name": "name",
    "restart": "restart",
    "pull": "pull",
    "runtime": "runtime",
    "shm-size": "shm",
    "ipc": "ipc",
    "entrypoint": "entrypoint",
}
_LONG = {"d": "detach", "i": "interactive", "t": "tty", "P": "publish-all"}


def run_command(words: Sequence[Word], form: Format) -> Container | None:
    """Read `[sudo] docker|podman [container] run …`; None for another command."""
    at = 0
    names = [word.text for word in words]
    while at < len(names) and (names[at] in ("sudo", "exec", "env", "nohup") or "=" in names[at]):
        at += 1
    program = names[at].rsplit("/", 1)[-1].lstrip("-+!@:") if at < len(names) else ""
    if program not in ("docker", "podman"):
        return None
    at += 1
    if names[at : at + 1] == ["container"]:
        at += 1
    if names[at : at + 1] not in (["run"], ["create"]):
        return None
    found = Container(form=form, line=words[0].line, program=program)
    return _options(found, words, at + 1)


def _options(found: Container, words: Sequence[Word], at: int) -> Container:
    while at < len(words):
        word = words[at]
        if not word.text.startswith("-") or word.text == "-":
            break
        at += 1
        if word.text == "--":
            break
        name, value = _option(word.text, found)
        if not name or (name in _SWITCHES and value is None):
            found.flags |= {_LONG.get(name, name)} - {""}
            continue
        if value is None:
            if at >= len(words):
                break
            word, value = words[at], words[at].text
            at += 1
        _set(found, name, Word(text=value, line=word.line, raw=word.raw))
    if at < len(words):
        found.image = words[at]
        found.arguments = list(words[at + 1 :])
    return found


def _option(text: str, found: Container) -> tuple[str, str | None]:
    """Read an option's name, and its value where that is in the same word.

    Short switches may stand before the last one (`-it`, `-dp 80:80`, `-eNAME=1`): they are noted.
    """
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        return name, value if equals else None
    rest = text[1:]
    while rest and rest[0] in _SWITCHES:
        found.flags.add(_LONG.get(rest[0], rest[0]))
        rest = rest[1:]
    if not rest:
        return "", None
    return rest[0], rest[1:].removeprefix("=") or None


def _set(found: Container, name: str, value: Word) -> None:
    if name in _LISTS:
        getattr(found, _LISTS[name]).append(value)
    elif name in _ONES:
        setattr(found, _ONES[name], value)
    elif name == "env-file":
        found.flags.add("env-file")
