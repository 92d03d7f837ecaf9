"""Rules on one container, whatever file starts it."""

from __future__ import annotations

import re

from builder.core.bypass import check_settings
from builder.core.lint.container import Container, is_cdi, size_in_mib
from builder.core.lint.place import Notes, Word
from builder.core.reference import ImageRef
from builder.errors import BadInput

_MOVING = re.compile(
    r"(?:.*[-_.])?(?:latest|nightly|stable|candidate|edge|main|master|dev|rolling)(?:[-_.].*)?"
)
_VERSIONED = re.compile(r"\d+\.\d+|[0-9a-f]{9,40}|\d{6,8}")
_SECRET = re.compile(
    r"(?i)(?:^|_)(?:api_?key|token|secret|password|passwd|access_?key|private_?key|credentials?)$"
)
_SECRET_OPTIONS = ("--api-key", "--hf-token", "--token")
_SHM_MIB = 1024.0
"""Smallest /dev/shm for several GPUs; vLLM's own ring buffers take 160 MiB and NCCL's the rest."""


def check_container(found: Container, notes: Notes) -> None:
    """Apply every rule that needs no more than the container itself."""
    check_image(found.image, notes, ours=found.serves_vllm)
    _gpus(found, notes)
    _secrets(found, notes)
    _ports(found, notes)
    _bypass(found, notes)
    if found.serves_vllm:
        _shared_memory(found, notes)
        _entrypoint(found, notes)


def check_image(image: Word | None, notes: Notes, *, ours: bool) -> None:
    """Refuse a reference that may be another image tomorrow (C64)."""
    if image is None or not image.text or "$" in image.text or "{{" in image.text:
        return
    try:
        reference = ImageRef.parse(image.text)
    except BadInput:
        return
    if reference.digest:
        return
    tag = reference.tag
    if tag and (not _MOVING.fullmatch(tag) or _VERSIONED.search(tag)):
        return
    shown = f"the tag `{tag}` moves" if tag else "no tag means `latest`, which moves"
    notes.add(
        "mutable-tag-broke-users",
        image.line,
        f"{image.text}: {shown}; the next pull may bring another image",
        corrected=f"{image.text.removesuffix(':' + tag)}@sha256:…  # {tag or 'latest'}; "
        "`docker buildx imagetools inspect` prints the digest",
        severity=None if ours else "warning",
    )


def _gpus(found: Container, notes: Notes) -> None:
    for word in found.gpus:
        value = word.text
        if value.startswith("device=") and "," in value:
            fixed = _quoted_gpus(found, word)
            notes.add(
                "gpus-flag-quoting",
                word.line,
                f"--gpus {value} is read as CSV, so the second device becomes an option of its own",
                corrected="" if fixed else "--gpus '\"device=0,1\"'",
                edit=fixed,
            )
    cdi = [word for word in found.devices if is_cdi(word.text)]
    runtime = found.runtime is not None and "nvidia" in found.runtime.text
    if cdi and (found.gpus or runtime):
        other = "--gpus" if found.gpus else "the NVIDIA runtime"
        notes.add(
            "cdi-vs-gpus",
            cdi[0].line,
            f"{cdi[0].text} is a CDI device, and {other} is the older way; the two do not mix",
            corrected=f"--device {cdi[0].text} alone",
        )


def _quoted_gpus(found: Container, word: Word) -> tuple[str, str] | None:
    """Spell a list of devices with the quotes its format needs."""
    if not word.raw:
        return None
    raw = word.raw.removeprefix("--gpus=")
    if '"' in raw.strip("'\"") or found.form == "kubernetes":
        return None
    inner = raw.strip("'\"")
    # In a unit systemd takes the outer quotes off, in a script the shell: both leave the inner.
    return (raw, f"'\"{inner}\"'")


def _secrets(found: Container, notes: Notes) -> None:
    for word in found.environment:
        name, equals, value = word.text.partition("=")
        if not equals or not value or not _SECRET.search(name):
            continue
        if found.form in ("compose", "kubernetes") and "$" in value.replace("$$", ""):
            continue
        seen = "$" in value
        notes.add(
            "secrets-in-argv",
            word.line,
            f"{name} is expanded into the command line, where every user of the host can read it"
            if seen
            else f"the value of {name} stands in the file and in `docker inspect`",
            corrected=_as_reference(found, name),
            edit=(word.raw, name) if seen and word.raw and found.form == "shell" else None,
        )
    texts = [word.text for word in found.arguments]
    for at, text in enumerate(texts):
        option, equals, value = text.partition("=")
        if option not in _SECRET_OPTIONS:
            continue
        if not equals and at + 1 >= len(texts):
            continue
        value = value if equals else texts[at + 1]
        if value.startswith("-") or not value:
            continue
        notes.add(
            "secrets-in-argv",
            found.arguments[at].line,
            f"{option} puts the key into the process list and into vLLM's own start-up line",
            corrected=f"without {option}; " + _as_reference(found, "VLLM_API_KEY"),
        )


def _as_reference(found: Container, name: str) -> str:
    if found.form == "compose":
        return "env_file: [./secrets.env]  # mode 0600"
    if found.form == "kubernetes":
        return f"{name}: valueFrom: secretKeyRef: …"
    if found.form == "quadlet":
        return "EnvironmentFile=/etc/…/secrets.env (mode 0600)"
    if found.form == "systemd":
        return f"EnvironmentFile=/etc/…/secrets.env (mode 0600) and -e {name} without a value"
    return f"-e {name} without a value, or --env-file FILE with mode 0600"


def _ports(found: Container, notes: Notes) -> None:
    if not found.serves_vllm or found.form == "kubernetes":
        return
    for word in found.ports:
        match = re.fullmatch(r"(\d+(?:-\d+)?):(\d+(?:-\d+)?)(?:/(?:tcp|udp))?", word.text)
        if match:
            notes.add(
                "port-published-to-all",
                word.line,
                f"{word.text} listens on every address, past the host's own firewall rules",
                corrected=f"127.0.0.1:{word.text}  # or the one address that others reach",
            )


def _bypass(found: Container, notes: Notes) -> None:
    for word in found.environment:
        name, _, value = word.text.partition("=")
        for one in check_settings({name: value}, subject=""):
            notes.add(
                one.key,
                word.line,
                one.evidence,
                corrected=f"without {name}",
                severity=one.severity,
            )


def _shared_memory(found: Container, notes: Notes) -> None:
    if found.ipc is not None and found.ipc.text in ("host", "shareable"):
        return
    if found.ipc is not None and found.ipc.text.startswith("container:"):
        return
    if found.shm is not None:
        size = size_in_mib(found.shm.text)
        if size is not None and size < _SHM_MIB / 2 and (found.parallel > 1 or size <= 64):
            notes.add(
                "shm-too-small",
                found.shm.line,
                f"shared memory of {found.shm.text} is too small for vLLM's own buffers and NCCL",
                corrected=_shm_line(found),
            )
        return
    notes.add(
        "shm-too-small",
        found.line,
        "nothing sets the size of /dev/shm, and the default of 64 MiB kills vLLM's engine",
        corrected=_shm_line(found),
        severity=None if found.parallel > 1 else "warning",
    )


def _shm_line(found: Container) -> str:
    gib = 16 if found.parallel > 1 else 1
    return {
        "compose": f"shm_size: {gib}gb",
        "quadlet": f"ShmSize={gib}g",
        "kubernetes": f"an emptyDir volume with medium: Memory, sizeLimit: {gib}Gi at /dev/shm",
    }.get(found.form, f"--shm-size {gib}g")


def _entrypoint(found: Container, notes: Notes) -> None:
    image = found.image.text if found.image is not None else ""
    if found.entrypoint is not None or "vllm/vllm-openai" not in image:
        return
    words = [word.text for word in found.arguments[:2]]
    if words[:1] == ["serve"] or words == ["vllm", "serve"]:
        shown = " ".join(words[: 2 if words[0] == "vllm" else 1])
        notes.add(
            "entrypoint-form",
            found.arguments[0].line,
            f"the entrypoint of {image} is `vllm serve` already; `{shown}` is given twice",
            corrected=f"{image} MODEL --flags",
        )
