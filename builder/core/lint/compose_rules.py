"""Rules on compose files (Compose specification)."""

from __future__ import annotations

import re

from builder.core.lint.commandline import shell_words
from builder.core.lint.container import Container
from builder.core.lint.container_rules import check_container
from builder.core.lint.place import Notes, Word
from builder.core.lint.unit import seconds
from builder.core.lint.yamlfile import Node

_LOAD = 300.0
"""Seconds: no start period below it covers the load of a large model."""
_BAD_DOLLAR = re.compile(r"\$(?![A-Za-z_{$])")
_SHELL_VARIABLE = re.compile(r"(?<!\$)\$(?:\{(\w+)\}|(\w+))")


def check_compose(root: Node, notes: Notes) -> None:
    """Check every service of a compose file."""
    for name, service in root.get("services").items():
        box = read_service(service)
        check_container(box, notes)
        _gpus(service, notes)
        _interpolation(service, notes)
        if box.serves_vllm:
            _health(service, notes)
            _stop(name, service, notes)


def read_service(service: Node) -> Container:
    """Read one service."""
    box = Container(form="compose", line=service.line, program="compose")
    image = service.get("image")
    if image.there:
        box.image, box.line = image.word(), image.line
    box.arguments = _command(service.get("command"))
    entrypoint = service.get("entrypoint")
    if entrypoint.there:
        box.entrypoint = Word(text=entrypoint.text or "…", line=entrypoint.line)
    environment = service.get("environment")
    box.environment = [item.word() for item in environment.list()] + [
        Word(text=f"{key}={value.text}", line=value.line) for key, value in environment.items()
    ]
    box.ports = [port.word() for port in service.get("ports").list() if port.text]
    box.devices = [device.word() for device in service.get("devices").list() if device.text]
    for field, key in (("runtime", "runtime"), ("shm", "shm_size"), ("ipc", "ipc")):
        if service.get(key).there:
            setattr(box, field, service.get(key).word())
    box.asks_gpu = service.get("gpus").there or any(
        "gpu" in [one.text for one in device.get("capabilities").list()]
        or device.get("driver").text == "nvidia"
        for device in _reserved(service)
    )
    return box


def _command(command: Node) -> list[Word]:
    if command.is_list:
        return [item.word() for item in command.list()]
    return [
        Word(text=word.text, line=command.line)
        for row in shell_words(command.text, command.line)
        for word in row
    ]


def _reserved(service: Node) -> list[Node]:
    return service.get("deploy", "resources", "reservations", "devices").list()


def _gpus(service: Node, notes: Notes) -> None:
    def add(line: int, why: str, corrected: str) -> None:
        notes.add("compose-gpu-syntax", line, why, corrected=corrected)

    for device in _reserved(service):
        capabilities = [one.text for one in device.get("capabilities").list()]
        if not capabilities:
            add(
                device.line,
                "without `capabilities` the file is refused, or no GPU is given",
                "capabilities: [gpu]",
            )
        count, ids = device.get("count"), device.get("device_ids")
        if count.there and ids.there:
            add(ids.line, "`count` and `device_ids` exclude each other", "one of the two")
        for one in ids.list():
            if not one.is_text:
                raw = one.word().raw
                notes.add(
                    "compose-gpu-syntax",
                    one.line,
                    f"device_ids are strings; `{one.text}` is a number",
                    corrected="" if raw == one.text else f"device_ids: ['{one.text}']",
                    edit=(f"[{raw}]", f"['{raw}']") if raw == one.text else None,
                )
    for path in (("deploy", "resources", "devices"), ("deploy", "resources", "limits", "devices")):
        misplaced = service.get(*path)
        if misplaced.there:
            add(
                misplaced.line,
                f"`devices` below {'.'.join(path[:-1])} is not read",
                "deploy.resources.reservations.devices",
            )


def _interpolation(service: Node, notes: Notes) -> None:
    for key in ("command", "entrypoint", "environment", "healthcheck"):
        for scalar in _scalars(service.get(key)):
            word = scalar.word()
            text = word.text.replace("$$", "\0\0")
            if _BAD_DOLLAR.search(text):
                notes.add(
                    "compose-interpolation",
                    scalar.line,
                    f"`$` in {word.text!r} begins no variable: compose refuses the file",
                    edit=(word.raw, _doubled(word.raw)) if word.raw else None,
                    corrected="" if word.raw else "$$ for every dollar sign",
                )
                continue
            for match in _SHELL_VARIABLE.finditer(text):
                name = match.group(1) or match.group(2)
                if re.search(rf"(?:^|[\s;(]){name}=|\bfor {name} in\b", text):
                    notes.add(
                        "compose-interpolation",
                        scalar.line,
                        f"compose fills in {match.group()} before the shell sets {name}",
                        edit=(match.group(), "$" + match.group()),
                    )
    for key in ("command", "entrypoint"):
        command = service.get(key)
        if (
            command.text
            and re.search(r"[{\[]\s*\\?\"", command.text)
            and not re.search(r"'[{\[]", command.text)
        ):
            notes.add(
                "compose-interpolation",
                command.line,
                f"a `{key}` in one string is split by shell rules, and JSON loses its quotes",
                corrected=f"{key}: as a list, one item an argument",
            )


def _doubled(raw: str) -> str:
    return _BAD_DOLLAR.sub("$$", raw.replace("$$", "\0")).replace("\0", "$$")


def _scalars(node: Node) -> list[Node]:
    if node.text:
        return [node]
    below = node.list() + [value for _, value in node.items()]
    return [scalar for one in below for scalar in _scalars(one)]


def _health(service: Node, notes: Notes) -> None:
    health = service.get("healthcheck")
    if not health.there or health.get("disable").text == "true":
        return
    check_probe(
        [one.text for one in health.get("test").list()] or [health.get("test").text],
        health.get("test").line,
        notes,
    )
    period = health.get("start_period")
    span = seconds(period.text) if period.there else 0.0
    if span is not None and span < _LOAD and health.get("test").there:
        notes.add(
            "health-start-period",
            period.line or health.line,
            f"a start period of {span:.0f} s: unhealthy before the model is loaded",
            corrected="start_period: 30m",
            edit=(f"start_period: {period.word().raw}", "start_period: 30m")
            if period.word().raw
            else None,
        )


def check_probe(words: list[str], line: int, notes: Notes) -> None:
    """Find a probe whose program the image may not have (C74)."""
    text = " ".join(words)
    program = re.search(r"(?:^|[\s;|&])(curl|wget)\b", text)
    if program:
        notes.add(
            "health-start-period",
            line,
            f"the probe needs {program.group(1)}, which a serving image need not have",
            corrected="the image's own health check (leave `test` out), or python3 with urllib",
            severity="warning",
        )


def _stop(name: str, service: Node, notes: Notes) -> None:
    grace = service.get("stop_grace_period")
    span = seconds(grace.text) if grace.there else 10.0
    if span is not None and span < 30.0:
        notes.add(
            "stop-and-name-conflicts",
            grace.line or service.line,
            f"service {name} is killed after {span:.0f} s, before vLLM has ended its workers",
            corrected="stop_grace_period: 60s",
        )
    restart = service.get("restart")
    if restart.text in ("always", "unless-stopped"):
        notes.add(
            "stop-and-name-conflicts",
            restart.line,
            f"restart: {restart.text} has no limit: a start that fails is tried for ever",
            corrected='restart: "on-failure:3"',
            edit=(f"restart: {restart.word().raw}", 'restart: "on-failure:3"'),
        )
