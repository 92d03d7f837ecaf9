"""Dockerfiles: instructions with lines (Dockerfile reference), stages, and their shell commands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from builder.core.lint.commandline import shell_words
from builder.core.lint.place import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction, continuations joined, here-documents included."""

    name: str
    value: str
    line: int


@dataclass(slots=True, kw_only=True)
class Stage:
    """`FROM` and what follows it."""

    base: str
    name: str
    line: int
    instructions: list[Instruction] = field(default_factory=list)


def instructions(text: str) -> list[Instruction]:
    """Read a Dockerfile."""
    found: list[Instruction] = []
    lines = text.split("\n")
    escape = "`" if re.match(r"(?i)#\s*escape\s*=\s*`", text) else "\\"
    at = 0
    while at < len(lines):
        begin, line = at, lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [line]
        while parts[-1].rstrip().endswith(escape) and at < len(lines):
            parts[-1] = parts[-1].rstrip()[:-1] + "\\"
            # Comment lines inside an instruction are removed; they hold their line's place.
            parts.append("" if lines[at].lstrip().startswith("#") else lines[at])
            if parts[-1] == "":
                parts[-1] = "\\"
            at += 1
        whole = "\n".join(parts)
        for ending in re.findall(r"<<-?\s*[\"']?(\w+)[\"']?", whole):
            body = []
            while at < len(lines) and lines[at].strip() != ending:
                body.append(lines[at])
                at += 1
            at += 1
            whole += "\n" + "\n".join(body)
        name, _, value = whole.strip().partition(" ")
        found.append(Instruction(name=name.upper(), value=value.strip(), line=begin + 1))
    return found


def stages(found: list[Instruction]) -> list[Stage]:
    """Part instructions into stages; what stands before the first FROM is left out."""
    parts: list[Stage] = []
    for one in found:
        if one.name == "FROM":
            words = [word for word in one.value.split() if not word.startswith("--")]
            named = words[2] if len(words) > 2 and words[1].upper() == "AS" else ""
            base = words[0] if words else ""
            parts.append(Stage(base=base, name=named, line=one.line))
        elif parts:
            parts[-1].instructions.append(one)
    return parts


def exec_form(value: str) -> list[str] | None:
    """Read the JSON form of CMD, ENTRYPOINT, RUN; None for the shell form."""
    try:
        words = json.loads(value)
    except ValueError:
        return None
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return words
    return None


def commands(one: Instruction) -> list[list[Word]]:
    """Commands of a RUN, options of RUN itself left out."""
    listed = exec_form(one.value)
    if listed is not None:
        return [[Word(text=word, line=one.line) for word in listed]]
    value = one.value
    while match := re.match(r"--[a-z-]+(?:=\S+)?\s+(?:\\\n\s*)*", value):
        value = value[: match.start()] + "\n" * match.group().count("\n") + value[match.end() :]
        value = value.lstrip(" ")
    return shell_words(value, one.line)


def settings(one: Instruction) -> list[Word]:
    """`NAME=value` words of ENV, ARG and LABEL; the old `ENV NAME value` too."""
    commands_ = shell_words(one.value, one.line)
    words = [word for command in commands_ for word in command]
    if one.name == "ENV" and words and "=" not in words[0].text and len(words) > 1:
        rest = " ".join(word.text for word in words[1:])
        return [Word(text=f"{words[0].text}={rest}", line=words[0].line, raw=words[1].raw)]
    return words
