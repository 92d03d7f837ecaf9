"""One file: which format it is, and what is wrong in it."""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml

from builder.core.lint.compose_rules import check_compose
from builder.core.lint.dockerfile_rules import check_dockerfile
from builder.core.lint.kubernetes_rules import check_kubernetes
from builder.core.lint.place import Format, Notes, Problem
from builder.core.lint.quadlet_rules import check_quadlet
from builder.core.lint.shell_rules import check_shell
from builder.core.lint.unit_rules import check_unit
from builder.core.lint.yamlfile import documents
from builder.errors import BadInput


def recognise(name: str, text: str) -> Format | None:
    """Tell the format by name where it is plain, else by content; None if unknown."""
    last = name.rsplit("/", 1)[-1].lower()
    return next((form for form, tells in _TELLS if tells(last, text)), None)


def _has(pattern: str) -> Callable[[str, str], bool]:
    wanted = re.compile(pattern, re.MULTILINE)
    return lambda _name, text: wanted.search(text) is not None


def _begins(pattern: str) -> Callable[[str, str], bool]:
    wanted = re.compile(pattern)
    return lambda _name, text: wanted.match(text) is not None


def _named(pattern: str) -> Callable[[str, str], bool]:
    wanted = re.compile(pattern)
    return lambda name, _text: wanted.fullmatch(name) is not None


_DOCKERFILE = (
    r"(?!.*\.(?:py|pyi|go|rs|js|ts|rb|java|md|rst|j2|tmpl|html)$)"
    r"(?:(?:dockerfile|containerfile)(?:[.-].*)?|.*\.(?:docker|container)file)"
)
# The first that fits. A script that writes a unit by a here-document is a script: what its text
# becomes is not known before it ran.
_TELLS: tuple[tuple[Format, Callable[[str, str], bool]], ...] = (
    ("shell", _begins(r"#!.*\b(?:ba|da|z|k)?sh\b")),
    ("dockerfile", _named(_DOCKERFILE)),
    ("quadlet", _has(r"^\[Container\]\s*$")),
    ("systemd", _has(r"^\[Service\]\s*$")),
    ("kubernetes", _has(r"^kind:\s*\S")),
    ("compose", _has(r"^services:\s*(?:#.*)?$")),
    ("dockerfile", _begins(r"(?:\s*#.*\n|\s*ARG\s.*\n|\s*\n)*\s*FROM\s+\S+")),
    ("shell", _named(r".*\.(?:sh|bash)")),
    ("shell", _has(r"\b(?:docker|podman)\s+(?:container\s+)?run\b")),
)


def check(name: str, text: str, form: Format | None = None) -> tuple[Format, list[Problem]]:
    """Find the defects of one file, by line.

    Raises BadInput when its format is not known, or it cannot be read as that format.
    """
    text = text.replace("\r\n", "\n")
    known = form or recognise(name, text)
    if known is None:
        raise BadInput(
            "neither a unit, quadlet, compose file, Kubernetes manifest, Dockerfile nor script",
            subject=name,
            action="name the format with --as, or leave the file out",
        )
    notes = Notes(lines=text.split("\n"))
    if known in ("compose", "kubernetes"):
        _yaml(name, text, known, notes)
    elif known == "systemd":
        check_unit(text, notes)
    elif known == "quadlet":
        check_quadlet(text, notes)
    elif known == "dockerfile":
        check_dockerfile(text, notes)
    else:
        check_shell(text, notes)
    return known, sorted(notes.found, key=lambda one: (one.line, one.key, one.why))


def _yaml(name: str, text: str, known: Format, notes: Notes) -> None:
    try:
        for root in documents(text):
            if known == "compose":
                check_compose(root, notes)
            else:
                check_kubernetes(root, notes)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise BadInput(
            f"not YAML: {getattr(error, 'problem', None) or error}",
            subject=where,
            action="correct the file's syntax first",
        ) from None
    except RecursionError:
        raise BadInput(
            "the file is nested too deeply to be a run file", subject=name, action="leave it out"
        ) from None
