"""Rules on systemd units that start vLLM, in a container or without."""

from __future__ import annotations

import itertools
import re

from builder.core.lint.commandline import run_command, shell_words
from builder.core.lint.container import Container
from builder.core.lint.container_rules import check_container
from builder.core.lint.place import Notes, Word
from builder.core.lint.unit import Entry, entries, seconds, split

_EXEC = ("ExecStart", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload")
_SPECIFIERS = frozenset("aAbBCdDEfFgGhHiIjJlLmMnNopPqsStTuUvVwWyY%")
"""systemd.unit(5), "Specifiers", up to systemd 257."""
_SHELLS = ("sh", "bash", "dash", "zsh")
_VARIABLE = re.compile(r"\$\{(\w+)\}|^\$(\w+)$")
_OPERATORS = frozenset({"|", "||", "&&", "&", ">", ">>", "<", "2>&1", "2>/dev/null", ">/dev/null"})
_STOP = 30.0
"""Seconds that vLLM may take to end its workers; Docker gives 10."""


def check_unit(text: str, notes: Notes) -> None:
    """Check a `.service` file."""
    found = entries(text)
    service = [one for one in found if one.section == "Service"]
    if not service:
        return
    check_values(service, notes, quadlet=False)
    started = [one for one in service if one.key == "ExecStart" and one.value]
    runs = [run for one in started if (run := _run(one)) is not None]
    for run in runs:
        check_container(run, notes)
        _supervision(run, service, found, notes)
    for one in started:
        _shell_wrapper(one, notes)
    if runs or any("vllm" in one.value for one in started):
        check_restarts(service, found, notes, line=started[0].line)
        _timeouts(service, notes)
    if any(run.serves_vllm and run.wants_gpu for run in runs):
        _waits(service, notes, line=runs[0].line)


def check_values(service: list[Entry], notes: Notes, *, quadlet: bool) -> None:
    """Find what systemd will change, drop or not understand in commands and variables (C72)."""
    names = {
        word.text.partition("=")[0]
        for one in service
        if one.key == "Environment"
        for word in one.words()
    }
    outside = any(
        one.key in ("EnvironmentFile", "PassEnvironment", "ImportCredential") for one in service
    )
    for one in service:
        if one.key in _EXEC and not quadlet:
            _specifiers(one, notes)
            _variables(one, notes, names=names, outside=outside)
            _operators(one, notes)
        elif one.key in ("Environment", "Exec"):
            _specifiers(one, notes)


def _specifiers(one: Entry, notes: Notes) -> None:
    for match in re.finditer(r"%(.?)", one.value.replace("%%", "\0\0")):
        letter = match.group(1)
        known = bool(letter) and letter in _SPECIFIERS
        # `50%off`: a number before it tells that a per cent sign was meant.
        if known and not one.value[: match.start()][-1:].isdigit():
            continue
        shown = f"%{letter}"
        # The edit takes what stands around along, so that specifiers that are meant stay.
        around = one.value[max(0, match.start() - 12) : match.end() + 4].strip()
        why = (
            f"`{shown}` is a specifier, so `{around}` becomes something else"
            if known
            else f"`{shown}` is no specifier: systemd drops the line with a warning, or refuses it"
        )
        single = around.count(shown) == 1
        notes.add(
            "systemd-escaping",
            one.line_at(match.start()),
            why,
            edit=(around, around.replace(shown, "%" + shown)) if single else None,
            corrected="" if single else "%% for each per cent sign",
        )
    for escape, line in split(one)[1]:
        notes.add(
            "systemd-escaping",
            line,
            f"`{escape}` is no escape that systemd knows; it is ignored, or an error",
            edit=(escape, "\\" + escape) if one.value.count(escape) == 1 else None,
        )


def _variables(one: Entry, notes: Notes, *, names: set[str], outside: bool) -> None:
    for word in one.words():
        # `$$` is a dollar sign; it must not hide the one behind it.
        for match in _VARIABLE.finditer(word.text.replace("$$", "\0\0")):
            name = match.group(1) or match.group(2)
            if name in names or name in _GIVEN:
                continue
            # A script that sets the name itself means the shell's variable, wherever it comes from.
            own = " " in word.text and re.search(
                rf"(?:^|[\s;({{'\"]){name}=|\bfor {name} in\b|\bread (?:-\w+ )*{name}\b", word.text
            )
            if outside and not own:
                continue
            spelled = match.group()
            notes.add(
                "systemd-escaping",
                word.line,
                f"systemd, not the shell, expands `{spelled}`, and to nothing: it is not in the "
                "unit's environment",
                edit=(spelled, "$" + spelled) if own else None,
                corrected=""
                if own
                else f"Environment={name}=… in the unit, or ${spelled} where a shell expands it",
            )


_GIVEN = frozenset({"MAINPID", "SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS", "INVOCATION_ID"})
"""Variables that systemd sets itself (systemd.exec(5)); credentials and sockets are never used."""


def _operators(one: Entry, notes: Notes) -> None:
    parts = one.words()
    for part in parts:
        if part.raw in _OPERATORS or part.raw.startswith(("$(", "`")):
            notes.add(
                "systemd-escaping",
                one.line,
                f"`{part.raw}` is an argument here: systemd starts no shell",
                corrected=f"{one.key}=/bin/sh -c '…'  # or a script of its own",
            )
            return


def _run(one: Entry) -> Container | None:
    """Read what a line starts, also through a shell."""
    parts = one.words()
    direct = run_command(parts, "systemd")
    if direct is not None:
        return direct
    for command in _inside_shell(parts):
        inner = run_command(command, "systemd")
        if inner is not None:
            return inner
    return None


def _inside_shell(parts: list[Word]) -> list[list[Word]]:
    if not parts or parts[0].text.lstrip("-+!@:").rsplit("/", 1)[-1] not in _SHELLS:
        return []
    for option, script in itertools.pairwise(parts):
        if option.text.startswith("-") and option.text.endswith("c"):
            rows = shell_words(script.text.replace("$$", "$"), script.line)
            return [[Word(text=word.text, line=script.line) for word in row] for row in rows]
    return []


def _shell_wrapper(one: Entry, notes: Notes) -> None:
    commands = _inside_shell(one.words())
    if not commands:
        return
    last = commands[-1]
    long = any(word.text in ("serve", "run", "vllm.entrypoints.openai.api_server") for word in last)
    if len(commands) > 1 and long and last[0].text != "exec":
        notes.add(
            "stop-and-name-conflicts",
            one.line,
            "the shell stays in front of the server and swallows SIGTERM",
            corrected=f"… exec {last[0].text} …",
        )


def _supervision(run: Container, service: list[Entry], found: list[Entry], notes: Notes) -> None:
    """Find what lets two supervisors fight, or the next start meet what the last one left."""
    kind = _value(service, "Type")
    cleaned = any(one.key == "ExecStartPre" and re.search(r"\brm\b", one.value) for one in service)
    wants = [one.value for one in found if one.key in ("After", "Requires", "BindsTo", "Wants")]
    restart = run.restart.text if run.restart is not None else "no"
    name = run.name.text if run.name is not None else ""
    rows = (
        (
            restart not in ("no", ""),
            f"--restart {restart}: the engine restarts the container behind systemd's back",
            "without --restart; Restart= of the unit is enough",
        ),
        (
            "detach" in run.flags and kind not in ("oneshot", "forking"),
            "`-d` returns at once, so that systemd takes the service for ended",
            f"{run.program} run without -d",
        ),
        (
            bool(name) and "rm" not in run.flags and not cleaned,
            f"without --rm the name {name} stays taken, and the next start fails",
            f"{run.program} run --rm …, and ExecStartPre=-/usr/bin/{run.program} rm -f NAME",
        ),
        (
            run.program == "docker" and "docker.service" not in " ".join(wants),
            "the unit does not wait for the engine",
            "[Unit] After=docker.service and Requires=docker.service",
        ),
    )
    for wrong, why, corrected in rows:
        if wrong:
            notes.add("stop-and-name-conflicts", run.line, why, corrected=corrected)
    for one in service:
        if one.key == "ExecStop":
            _stopping(run, one, notes)


def _stopping(run: Container, one: Entry, notes: Notes) -> None:
    if re.search(r"\b(?:docker|podman)\s+(?:kill|rm\s+-f)\b", one.value):
        notes.add(
            "stop-and-name-conflicts",
            one.line,
            "the container is killed at once, and workers keep the GPU's memory",
            corrected=f"ExecStop=/usr/bin/{run.program} stop -t {_STOP:.0f} NAME",
        )
    stop = re.search(r"\b(?:docker|podman)\s+stop\b(?P<rest>.*)", one.value)
    if stop and not re.search(r"(?:^|\s)-t|--time", stop["rest"]):
        notes.add(
            "stop-and-name-conflicts",
            one.line,
            "`stop` waits 10 seconds before it kills, less than vLLM needs to end its workers",
            edit=(f"{run.program} stop", f"{run.program} stop -t {_STOP:.0f}"),
        )


def check_restarts(service: list[Entry], found: list[Entry], notes: Notes, *, line: int) -> None:
    """Ask for a limit where a unit restarts what can fail in the same way for ever (C47, C82)."""
    restart = next((one for one in service if one.key == "Restart"), None)
    if restart is None or restart.value in ("no", ""):
        return
    limited = any(
        one.key in ("StartLimitBurst", "StartLimitIntervalSec", "StartLimitInterval")
        for one in found
    )
    off = any(
        one.key in ("StartLimitIntervalSec", "StartLimitInterval") and one.value.strip() == "0"
        for one in found
    )
    if not limited or off:
        notes.add(
            "stop-and-name-conflicts",
            restart.line or line,
            "nothing limits the restarts: a start that takes minutes to fail is tried for ever",
            corrected="[Unit] StartLimitIntervalSec=1h and StartLimitBurst=3",
        )


def _timeouts(service: list[Entry], notes: Notes) -> None:
    pulls = [
        one
        for one in service
        if one.key == "ExecStartPre"
        and re.search(r"\b(?:docker|podman)\s+(?:image\s+)?pull\b", one.value)
    ]
    limit = next((one for one in service if one.key in ("TimeoutStartSec", "TimeoutSec")), None)
    span = seconds(limit.value) if limit is not None else 90.0
    ready = _value(service, "Type") in ("notify", "oneshot", "forking")
    if span is None or not (pulls or ready):
        return
    line = pulls[0].line if pulls else (limit.line if limit is not None else service[0].line)
    if span < 600.0:
        what = "a pull of many gigabytes" if pulls else "the load of the model"
        notes.add(
            "start-timeout",
            limit.line if limit is not None else line,
            f"{what} has to be done within {span:.0f} s, else systemd kills it",
            corrected="TimeoutStartSec=30min; better, pull before the unit is started",
            edit=(f"{limit.key}={limit.value}", "TimeoutStartSec=30min")
            if limit is not None
            else None,
        )


def _waits(service: list[Entry], notes: Notes, *, line: int) -> None:
    restart = _value(service, "Restart")
    if restart in ("", "no"):
        return
    waits = any(
        one.key == "ExecStartPre" and re.search(r"nvidia|preflight|wait", one.value)
        for one in service
    )
    if not waits:
        notes.add(
            "vram-settle-and-boot-race",
            line,
            "a restart does not wait until the last run's GPU memory is free",
            corrected="ExecStartPre=/usr/local/bin/wait-for-gpu …  # with a limit",
        )


def _value(service: list[Entry], key: str) -> str:
    return next((one.value for one in reversed(service) if one.key == key), "")
