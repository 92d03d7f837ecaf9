"""Rules on podman's quadlets (podman-systemd.unit(5))."""

from __future__ import annotations

from builder.core.lint.container import Container, is_cdi
from builder.core.lint.container_rules import check_container
from builder.core.lint.place import Notes, Word
from builder.core.lint.unit import Entry, entries, seconds
from builder.core.lint.unit_rules import check_restarts, check_values

_START = 90.0
"""systemd's DefaultTimeoutStartSec."""


def read_quadlet(found: list[Entry]) -> Container | None:
    """Read `[Container]`; None when the file has none."""
    rows = [one for one in found if one.section == "Container"]
    if not rows:
        return None
    box = Container(form="quadlet", line=rows[0].line, program="podman")
    for one in rows:
        word = Word(text=one.value, line=one.line, raw=one.value)
        if one.key in _FIELDS:
            setattr(box, _FIELDS[one.key], word)
        elif one.key in _ROWS:
            getattr(box, _ROWS[one.key]).append(word)
        elif one.key == "Exec":
            box.arguments = one.words()
        elif one.key == "Environment":
            box.environment += one.words()
        elif one.key == "PodmanArgs":
            _podman(box, one.words())
    if box.image is not None:
        box.line = box.image.line
    return box


_FIELDS = {"Image": "image", "ShmSize": "shm", "Pull": "pull", "Entrypoint": "entrypoint"}
_ROWS = {"AddDevice": "devices", "PublishPort": "ports"}


def _podman(box: Container, parts: list[Word]) -> None:
    for at, part in enumerate(parts):
        name, equals, value = part.text.partition("=")
        following = parts[at + 1].text if at + 1 < len(parts) else ""
        word = Word(text=value if equals else following, line=part.line)
        if name == "--gpus":
            box.gpus.append(word)
        elif name == "--device":
            box.devices.append(word)
        elif name == "--ipc":
            box.ipc = word
        elif name == "--shm-size":
            box.shm = word


def check_quadlet(text: str, notes: Notes) -> None:
    """Check a `.container` file."""
    found = entries(text)
    box = read_quadlet(found)
    if box is None:
        return
    service = [one for one in found if one.section == "Service"]
    rows = [one for one in found if one.section == "Container"]
    check_values(service + rows, notes, quadlet=True)
    check_container(box, notes)
    check_restarts(service, found, notes, line=box.line)
    _healthy(rows, service, notes)
    if not box.serves_vllm:
        return
    device = any(is_cdi(one.text) or "nvidia" in one.text for one in box.devices)
    if not device and not box.gpus and "cpu" not in (box.image.text if box.image else ""):
        notes.add(
            "quadlet-gpu-selinux",
            box.line,
            "no GPU is given to the container: it fails, or serves from the CPU",
            corrected="AddDevice=nvidia.com/gpu=all",
        )
    elif not any(one.key == "SecurityLabelDisable" for one in rows):
        notes.add(
            "quadlet-gpu-selinux",
            box.line,
            "where SELinux enforces, the container may not open the device",
            corrected="SecurityLabelDisable=true",
            severity="info",
        )


def _healthy(rows: list[Entry], service: list[Entry], notes: Notes) -> None:
    notify = next((one for one in rows if one.key == "Notify"), None)
    period = next((one for one in rows if one.key == "HealthStartPeriod"), None)
    if notify is None or notify.value != "healthy":
        return
    limit = next((one for one in service if one.key in ("TimeoutStartSec", "TimeoutSec")), None)
    span = seconds(limit.value) if limit is not None else _START
    load = seconds(period.value) if period is not None else 0.0
    if span is None or load is None or span > max(load, _START):
        return
    wanted = f"TimeoutStartSec={load + 120:.0f}" if load else "TimeoutStartSec=30min"
    notes.add(
        "start-timeout",
        limit.line if limit is not None else notify.line,
        f"Notify=healthy makes the health check part of the start, which is given {span:.0f} s"
        + (f", less than its start period of {load:.0f} s" if load >= span else ""),
        corrected=f"[Service] {wanted}",
    )
