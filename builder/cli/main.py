"""The command line: every verb with its options; each calls one recipe.

Everything heavy is imported inside the verb that needs it, so that `--help` stays instant.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from types import FrameType
from typing import Annotated, NoReturn

import typer

from builder import invoke
from builder.cli.app import app, groups, names
from builder.errors import BadInput, Interrupted, NightlockError
from builder.output import Output, close_streams

# isort: off
# Imported to register their verbs, in the order that --help lists them.
from builder.cli import locking, building, proving, releasing, running, machine  # noqa: F401
# isort: on

# Typer keeps its own copy of click and exports one leaf of its exceptions; this is their base.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]


def _version(value: bool) -> None:
    if value:
        Output().result(f"nightlock {metadata.version('nightlock')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Lock, build, boot and prove vLLM nightly images before a tag moves."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    arguments = _with_values(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        parsed = typer.main.get_command(app).main(
            arguments, prog_name="nightlock", standalone_mode=False
        )
        status = parsed() if callable(parsed) else int(parsed or 0)
    except _ClickError as error:
        status = _usage(arguments, error)
    except (KeyboardInterrupt, typer.Abort):
        status = _report(arguments, Interrupted("interrupted", action="run it again"))
    except OSError as error:
        status = _refused_by_the_system(arguments, error)
    except Exception as error:  # noqa: BLE001 - the one place where bugs are reported
        status = _bug(arguments, error)
    close_streams()
    sys.exit(status)


def _with_values(arguments: Sequence[str]) -> list[str]:
    """Complete options whose value may be left out: Typer has no such thing.

    As everywhere, such a value is given with `=`; what follows after a space is an argument.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return [
        "--cross-check=pip-tools" if text == "--cross-check" and number < end else text
        for number, text in enumerate(arguments)
    ]


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _usage(arguments: list[str], error: Exception) -> int:
    shown = getattr(error, "format_message", lambda: str(error))()
    command = getattr(getattr(error, "ctx", None), "command_path", "nightlock")
    if type(error).__name__ == "NoArgsIsHelpError":
        Output().result(shown)
        return BadInput.exit_code
    return _report(arguments, BadInput(shown, action=f"`{command} --help` lists what there is"))


def _refused_by_the_system(arguments: list[str], error: OSError) -> int:
    """Leave with 4 when a stream cannot be written (`>/dev/full`): it is the outside."""
    known = invoke.of_os_error(error, [])
    if known is None:
        return _bug(arguments, error)
    with suppress(OSError):
        return invoke.fail(Output(), "nightlock", known)
    return known.exit_code


def _bug(arguments: list[str], error: Exception) -> int:
    import traceback  # noqa: PLC0415

    Output().note("".join(traceback.format_exception(error)).rstrip())
    bug = NightlockError(
        f"a bug in nightlock: {type(error).__name__}: {error}",
        subject="nightlock " + " ".join(arguments),
        action="report it with the traceback above",
    )
    bug.kind = "bug"
    return _report(arguments, bug)


def _report(arguments: list[str], error: NightlockError) -> int:
    """Say what went wrong outside of any recipe; the document is of the verb that was typed."""
    words = [word for word in arguments if not word.startswith("-")]
    typed = "-".join(words[: 2 if words[0:1] and words[0] in groups() else 1])
    name = typed if typed in names() else "nightlock"
    return invoke.fail(Output(json="--json" in arguments), name, error)
