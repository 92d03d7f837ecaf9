"""The only place that runs programs: argv lists, no shell, their last words on failure."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from builder.errors import CommandFailed, ToolMissing

_TAIL_LINES = 30
_PIECE = 1 << 20


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
    what: str = "",
    action: str = "",
) -> str:
    """Run a program to its end and return its standard output.

    `environment` replaces the caller's whole when given. `timeout` is in seconds; the program and
    its children are ended when it passes, or when we are interrupted.

    Raises:
        ToolMissing: the program is not there.
        CommandFailed: it ended with a status other than 0, or `timeout` passed.

    """
    command = [os.fspath(part) for part in argv]
    process = _start(command, cwd, environment, merge=False, stdin=stdin is not None)
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        raise CommandFailed(
            what or f"{Path(command[0]).name} did not end within {timeout:.0f} s",
            subject=" ".join(command),
            action=action,
        ) from None
    except BaseException:
        _end(process)
        raise
    output = out.decode(errors="replace")
    _check(command, process.returncode, err.decode(errors="replace") or output, what, action)
    return output


def stream(
    argv: Sequence[str | os.PathLike[str]],
    on_line: Callable[[str], None],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    what: str = "",
    action: str = "",
) -> None:
    """Run a program and hand over each line of output and error (merged) as it comes.

    Raises as `run` does; the last lines are in the error too.
    """
    command = [os.fspath(part) for part in argv]
    process = _start(command, cwd, environment, merge=True, stdin=False)
    tail: list[str] = []
    try:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            tail = [*tail[1 - _TAIL_LINES :], line]
            on_line(line)
        process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    _check(command, process.returncode, "\n".join(tail), what, action)


def pieces(argv: Sequence[str | os.PathLike[str]]) -> Iterator[bytes]:
    """Run a program and give its standard output in pieces, for output that is large.

    Raises as `run` does, after the last piece.
    """
    command = [os.fspath(part) for part in argv]
    process = _start(command, None, None, merge=False, stdin=False, quiet=True)
    try:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        while piece := process.stdout.read(_PIECE):
            yield piece
        process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    _check(command, process.returncode, "", "", "")


def find(name: str, extra: Sequence[Path] = ()) -> Path | None:
    """Return the program of that name: from `extra` folders first, then from PATH and sbin."""
    folders = [*map(str, extra), os.environ.get("PATH", ""), "/usr/local/sbin:/usr/sbin:/sbin"]
    found = shutil.which(name, path=":".join(folders))
    return Path(found) if found else None


def _start(
    command: list[str],
    cwd: Path | None,
    environment: Mapping[str, str] | None,
    *,
    merge: bool,
    stdin: bool,
    quiet: bool = False,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=None if environment is None else dict(environment),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.DEVNULL if quiet else subprocess.PIPE,
            # Its own group: Ctrl-C reaches us alone, and we end the whole tree.
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise
        raise ToolMissing(
            f"the program {command[0]} is not there",
            subject=" ".join(command),
            action="`nightlock doctor` says how to get it",
        ) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
        break
    process.wait()


def _check(command: list[str], status: int, said: str, what: str, action: str) -> None:
    if status == 0:
        return
    ended = f"signal {-status}" if status < 0 else f"status {status}"
    raise CommandFailed(
        what or f"{Path(command[0]).name} ended with {ended}",
        subject=" ".join(command),
        action=action,
        status=status,
        tail="\n".join(said.strip().splitlines()[-_TAIL_LINES:]),
    )
