"""Rules on Dockerfiles of vLLM images: the build defects that show in the text."""

from __future__ import annotations

import re

from builder.core.bypass import check_settings
from builder.core.lint.compose_rules import check_probe
from builder.core.lint.container_rules import check_image
from builder.core.lint.dockerfile import (
    Instruction,
    Stage,
    commands,
    exec_form,
    instructions,
    settings,
    stages,
)
from builder.core.lint.place import Notes, Word
from builder.core.lint.unit import seconds

_COMPILERS = re.compile(r"^(?:gcc|g\+\+|clang|build-essential)(?:-\d+)?(?:=.*)?$")
_SECRET = re.compile(r"(?i)(?:^|_)(?:api_?key|token|secret|password|passwd)$")
_LARGE = re.compile(r"^(?:/opt/|/usr/local|/usr/lib|/app|/workspace|.*site-packages|.*venv)")


def check_dockerfile(text: str, notes: Notes) -> None:
    """Check a Dockerfile."""
    parts = stages(instructions(text))
    names = {stage.name for stage in parts if stage.name}
    for stage in parts:
        if stage.base not in names and stage.base != "scratch":
            _base(stage, notes)
        installed: list[str] = []
        for one in stage.instructions:
            if one.name == "RUN":
                _whole(one, notes, stage=stage)
                for command in commands(one):
                    _command(command, notes, stage=stage, installed=installed)
            elif one.name in ("ENV", "ARG"):
                _setting(one, notes)
    if parts:
        _final(parts, notes)


def _base(stage: Stage, notes: Notes) -> None:
    word = Word(text=stage.base, line=stage.line)
    before = len(notes.found)
    check_image(word, notes, ours=True)
    if len(notes.found) == before and "@" not in stage.base and "$" not in stage.base:
        notes.add(
            "base-tag-removed",
            stage.line,
            f"{stage.base}: a tag can be moved or deleted, and this file cannot be built any more",
            corrected=f"FROM {stage.base}@sha256:…",
            severity="warning",
        )


def _command(command: list[Word], notes: Notes, *, stage: Stage, installed: list[str]) -> None:
    names = [word.text for word in command]
    line = command[0].line
    text = " ".join(names)
    if re.search(r"\b(?:apt|apt-get)\b.*\binstall\b", text):
        _apt(command, notes)
    pip = re.search(r"\bpip3?\b.*\binstall\b", text) is not None
    if pip:
        _pip(command, notes, stage=stage, installed=installed)
    if "download-cubin" in text or re.search(r"flashinfer\S*\s+(?:--)?download", text):
        notes.add(
            "cubin-download-in-build",
            line,
            "cubins come over the network in the middle of the build, from a store that may refuse",
            corrected="pip install flashinfer-cubin==<the version of flashinfer-python>",
        )
    large = (
        names[:1]
        and names[0] in ("chown", "chmod")
        and any(one in ("-R", "--recursive") for one in names)
    )
    if large and any(_LARGE.match(one) for one in names[1:]):
        notes.add(
            "layer-duplication",
            line,
            f"`{' '.join(names[:4])}` stores every file it touches a second time",
            corrected="COPY --chown=… / --chmod=…, or in the RUN that writes the files",
        )


def _whole(one: Instruction, notes: Notes, *, stage: Stage) -> None:
    """Find what shows only in a RUN as a whole."""
    text = one.value
    listed = re.search(r"cuda\S*/compat\b", text) and re.search(r"ld\.so\.conf", text)
    if listed and not re.search(r"\brm\b", text):
        notes.add(
            "cuda-compat-803",
            one.line,
            "the image's own libcuda comes before the driver's",
            corrected="rm -rf /usr/local/cuda/compat /etc/ld.so.conf.d/*compat* && ldconfig",
        )
    source = re.search(r"\bpip3?\s+install\b[^&|;]*\s(?:\.|-e|git\+https\S*/vllm\S*)(?:\s|$)", text)
    about = text + "".join(row.value for row in stage.instructions if row.name == "WORKDIR")
    if source and "vllm" in about and not _has(stage, "MAX_JOBS"):
        notes.add(
            "source-build-resources",
            one.line,
            "without MAX_JOBS every core compiles, each with gigabytes of memory",
            corrected="ENV MAX_JOBS=4",
        )


def _apt(command: list[Word], notes: Notes) -> None:
    for word in command:
        if word.text.split("=", 1)[0] == "nvidia-cuda-toolkit":
            notes.add(
                "wrong-nvcc",
                word.line,
                "the distribution's nvcc is older than CUDA 12.9 and may come first on PATH",
                corrected="without nvidia-cuda-toolkit; CUDA_HOME of the image's own toolkit",
            )
        elif word.text.startswith("cuda-compat"):
            notes.add(
                "cuda-compat-803",
                word.line,
                f"{word.text} puts an older libcuda on the loader's path",
                corrected="without cuda-compat",
            )
        elif re.fullmatch(r"[a-z0-9][a-z0-9+.-]+=[^*\s]+", word.text) and "$" not in word.text:
            notes.add(
                "apt-drift",
                word.line,
                f"{word.text}: archives drop a version once it is replaced, and the build fails",
                corrected="the name alone and a dated snapshot, or locked .deb files",
                severity="warning",
            )


def _pip(command: list[Word], notes: Notes, *, stage: Stage, installed: list[str]) -> None:
    names = [word.text for word in command]
    line = command[0].line
    for one in check_settings({}, names, subject=""):
        notes.add(one.key, line, one.evidence, corrected="", severity=one.severity)
    cuda13 = re.search(r"cuda:13|cu13\d", stage.base + " ".join(names)) is not None
    for name in names:
        if cuda13 and re.match(r"[a-z0-9-]+-cu12(?:[=<>~!].*)?$", name):
            notes.add(
                "wrong-cuda-soname",
                line,
                f"{name} links CUDA 12 libraries in a CUDA 13 image",
                corrected=name.replace("-cu12", "-cu13"),
            )
    packages = {re.split(r"[=<>~!\[;@ ]", one, maxsplit=1)[0].lower() for one in names}
    upgrade = any(one in ("-U", "--upgrade", "--force-reinstall") for one in names)
    again = sorted(packages & set(installed) & {"vllm", "torch", "flashinfer-python"})
    if again and upgrade:
        notes.add(
            "layer-duplication",
            line,
            f"{', '.join(again)} installed before is replaced here, and both copies are shipped",
            corrected="one RUN that installs the final version",
        )
    installed += packages


def _has(stage: Stage, name: str) -> bool:
    return any(name in one.value for one in stage.instructions if one.name in ("ENV", "ARG", "RUN"))


def _setting(one: Instruction, notes: Notes) -> None:
    for word in settings(one):
        name, equals, value = word.text.partition("=")
        if not equals or not value:
            continue
        for found in check_settings({name: value}, subject=""):
            notes.add(
                found.key,
                word.line,
                found.evidence,
                corrected=f"without {name}",
                severity=found.severity,
            )
        if _SECRET.search(name) and "$" not in value:
            notes.add(
                "secret-in-layer",
                word.line,
                f"the value of {name} is in the image for everyone who pulls it",
                corrected=f"RUN --mount=type=secret,id={name.lower()} …, or -e {name} at run time",
            )
        if name == "LD_LIBRARY_PATH" and "compat" in value:
            notes.add(
                "cuda-compat-803",
                word.line,
                "the image's own libcuda comes before the driver's",
                corrected="LD_LIBRARY_PATH without the compat folder",
            )


def _final(parts: list[Stage], notes: Notes) -> None:
    chain = _ancestors(parts)
    last = parts[-1]
    texts = [one for stage in chain for one in stage.instructions]
    installs = [
        word.text
        for one in texts
        if one.name == "RUN"
        for command in commands(one)
        for word in command
    ]
    serves = any("vllm" in one.value for one in texts)
    base = chain[-1].base
    if (
        serves
        and re.search(r"nvidia/cuda:\S*(?:-runtime|-base)", base)
        and not any(_COMPILERS.match(one) for one in installs)
    ):
        notes.add(
            "no-c-compiler-at-runtime",
            chain[-1].line,
            f"{base} has no C compiler, and Triton needs one for its first kernel",
            corrected="RUN apt-get install … gcc g++ libc6-dev python3-dev",
        )
    for one in last.instructions:
        if one.name == "HEALTHCHECK" and serves:
            _health(one, notes, tools=installs)
        if one.name in ("ENTRYPOINT", "CMD") and exec_form(one.value) is None:
            shell_only = re.match(r"(?:exec\s|\[)", one.value) is None
            if one.name == "ENTRYPOINT" and shell_only and one.value:
                notes.add(
                    "stop-and-name-conflicts",
                    one.line,
                    "the shell form leaves a shell in front of the server, which swallows SIGTERM",
                    corrected=f'ENTRYPOINT ["{one.value.split()[0]}", …]',
                )


def _ancestors(parts: list[Stage]) -> list[Stage]:
    """Return the last stage and those it is built upon, nearest first."""
    chain = [parts[-1]]
    while True:
        earlier = [one for one in parts if one.name and one.name == chain[-1].base]
        if not earlier or earlier[0] in chain:
            return chain
        chain.append(earlier[0])


def _health(one: Instruction, notes: Notes, *, tools: list[str]) -> None:
    if one.value.strip().upper() == "NONE":
        return
    match = re.search(r"--start-period=(\S+)", one.value)
    span = seconds(match.group(1)) if match else 0.0
    if span is not None and span < 300.0:
        notes.add(
            "health-start-period",
            one.line,
            f"a start period of {span:.0f} s: unhealthy before the model is loaded",
            corrected="HEALTHCHECK --start-period=30m …",
            edit=(match.group(), "--start-period=30m") if match else None,
        )
    program = re.search(r"\b(curl|wget)\b", one.value)
    if program and program.group(1) not in tools:
        check_probe([one.value], one.line, notes)
