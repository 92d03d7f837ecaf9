"""The command line's frame: the application, its groups, and what makes a recipe a verb."""

from __future__ import annotations

import functools
from collections.abc import Callable

import typer

from builder import invoke

app = typer.Typer(
    name="nightlock",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Lock, build, boot and prove vLLM nightly images before a tag moves.",
    epilog="Exit: 0 yes, 1 no, 2 bad input, 3 our bug, 4 the outside world, 130 interrupted.",
)
verb = functools.partial(invoke.verb, parent=app)

Verb = Callable[..., Callable[[invoke.Recipe], invoke.Recipe]]


def group(name: str, *, about: str, short: str) -> Verb:
    """Add a group of verbs, as `engine start`; gives what registers one in it."""
    inner = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=about)
    app.add_typer(inner, name=name, short_help=short)
    return functools.partial(invoke.verb, parent=inner, prefix=f"{name}-")


def names() -> set[str]:
    """Every verb as documents spell it: `lock`, `engine-start`."""
    found = {command.name or "" for command in app.registered_commands}
    for row in app.registered_groups:
        commands = row.typer_instance.registered_commands if row.typer_instance else []
        found |= {f"{row.name}-{command.name}" for command in commands}
    return found


def groups() -> set[str]:
    """Names of the groups."""
    return {row.name or "" for row in app.registered_groups}
