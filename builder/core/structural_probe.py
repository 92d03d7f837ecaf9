"""What an image is asked from inside, and what it answers: `builder/runtime/probes/structural.py`.

Nothing here trusts the answer: it is read as data, and one that does not fit is no answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from builder.core.lock import Lock
from builder.core.target import architecture, compiled_for

PROGRAM_SECONDS = 600.0
"""Each program in the image gets as long; compiling a kernel takes 20 s on two idle cores."""
ALL_SECONDS = 1500.0
"""The whole container."""

_MODULES = (
    ("torch", "torch"),
    ("torchvision", "torchvision"),
    ("torchaudio", "torchaudio"),
    ("triton", "triton"),
    ("flashinfer-python", "flashinfer"),
    ("nvidia-cutlass-dsl", "cutlass"),
)
"""Package → module that must import wherever the lock names the package."""


class _Answer(BaseModel):
    # A later program may say more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Surroundings(_Answer):
    """Who the program was, and what it could reach."""

    uid: int
    gid: int
    user: str
    home: str
    caches: str
    refused: dict[str, str]
    """Folder that must be writable and is not → the system's words."""
    root: str
    """Why `/` cannot be written; empty: it can."""
    networks: list[str]
    python: str
    executable: str
    prefix: str
    cores: int


class Installed(_Answer):
    """One package by its METADATA."""

    name: str
    version: str


class WrongFile(_Answer):
    """One file that is not as its package's RECORD says."""

    path: str
    package: str
    why: str
    sha256: str = ""
    """Of the file that is there, where another was listed; bare hex."""


class TreeLook(_Answer):
    """The environment's files beside all RECORDs."""

    files: int
    bytes: int
    counts: dict[Literal["edited", "missing", "stray"], int]
    """How many of a kind; `wrong` names the first of them."""
    wrong: dict[Literal["edited", "missing", "stray"], list[WrongFile]]
    seconds: float


class Ran(_Answer):
    """One program in the image."""

    status: int | None
    """None: it was stopped at its deadline."""
    out: str
    err: str
    """The end of what it said."""
    seconds: float

    def rows(self) -> list[dict[str, JsonValue]]:
        """Read its answers, one JSON object a line; other lines are left out."""
        found = []
        for line in self.out.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                found.append(row)
        return found


class Probe(_Answer):
    """The whole answer."""

    surroundings: Surroundings
    packages: list[Installed]
    tree: TreeLook
    programs: dict[str, Ran]

    @classmethod
    def parse(cls, text: str) -> Probe | None:
        """Read what the container printed; None when that is no answer."""
        try:
            return cls.model_validate_json(text.strip().rpartition("\n")[2])
        except ValidationError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one image is asked."""

    modules: tuple[str, ...]
    commands: dict[str, list[str]]
    architectures: tuple[str, ...]
    """As FLASHINFER_CUDA_ARCH_LIST spells them; empty: nothing is compiled."""

    def text(self) -> str:
        """Spell it as the program's argument."""
        return json.dumps(
            {
                "modules": self.modules,
                "commands": self.commands,
                "architectures": self.architectures,
                "seconds": PROGRAM_SECONDS,
            }
        )


def question(lock: Lock, platform: str, targets: tuple[str, ...], *, ptxas: str) -> Question:
    """Say what follows from a lock; `targets` are the image's, as `sm_120`.

    `ptxas` is the program that asks Triton's assembler: `builder/runtime/probes/ptxas.py`.
    """
    content, vllm = lock.platforms[platform], lock.header.vllm
    modules = [module for package, module in _MODULES if content.wheel(package)]
    jit = bool(lock.header.target.cuda) and content.wheel("flashinfer-python") is not None
    known = [code for target in targets if (code := architecture(target)) is not None]
    commands: dict[str, list[str]] = {}
    # It asks for the metadata of a distribution called `vllm`, which others do not have.
    if vllm.package == "vllm":
        commands["version"] = ["vllm", "--version"]
    if known and content.wheel("triton"):
        gpus = [f"{code.major}{code.minor}" for code in known]
        commands["ptxas"] = ["python", "-c", ptxas, *gpus]
    return Question(
        modules=(*modules, "vllm"),
        commands=commands,
        architectures=tuple(compiled_for(code).listed for code in known) if jit else (),
    )
