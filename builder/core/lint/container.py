"""One container that a file starts, in words that are the same for every format."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from builder.core.lint.place import Format, Word


@dataclass(slots=True, kw_only=True)
class Container:
    """What one `docker run`, service, quadlet or pod container asks for."""

    form: Format
    """The file it stands in."""
    line: int
    program: str = "docker"
    """`docker`, `podman`, or what reads the file."""
    image: Word | None = None
    arguments: list[Word] = field(default_factory=list)
    environment: list[Word] = field(default_factory=list)
    """`NAME=value`, or `NAME` alone."""
    gpus: list[Word] = field(default_factory=list)
    devices: list[Word] = field(default_factory=list)
    runtime: Word | None = None
    shm: Word | None = None
    ipc: Word | None = None
    ports: list[Word] = field(default_factory=list)
    name: Word | None = None
    restart: Word | None = None
    pull: Word | None = None
    entrypoint: Word | None = None
    flags: set[str] = field(default_factory=set)
    """Options without a value: `rm`, `init`, `detach`."""
    asks_gpu: bool = False
    """Also where a format has another way than `gpus` and `devices`."""

    @property
    def serves_vllm(self) -> bool:
        """Whether it is a vLLM server, by its image or its command."""
        image = self.image.text.lower() if self.image is not None else ""
        if "vllm" in image or "nightlock" in image:
            return True
        words = [word.text for word in self.arguments]
        return "vllm.entrypoints.openai.api_server" in words or _pair(words, "vllm", "serve")

    @property
    def wants_gpu(self) -> bool:
        """Whether any way of asking for a GPU is used."""
        return self.asks_gpu or bool(self.gpus) or any(is_cdi(word.text) for word in self.devices)

    def option(self, name: str) -> str:
        """Value of an argument of the server; empty when it is not given."""
        words = [word.text for word in self.arguments]
        for at, word in enumerate(words):
            given, equals, value = word.partition("=")
            if given.replace("_", "-") == name:
                return value if equals else (words[at + 1] if at + 1 < len(words) else "")
        return ""

    @property
    def parallel(self) -> int:
        """How many GPUs one server uses together, as far as the arguments say."""
        sizes = [self.option("--tensor-parallel-size") or self.option("-tp")]
        sizes.append(self.option("--pipeline-parallel-size") or self.option("-pp"))
        product = 1
        for size in sizes:
            product *= int(size) if size.isdigit() else 1
        return product


def _pair(words: Iterable[str], first: str, second: str) -> bool:
    row = list(words)
    return any(a.endswith(first) and b == second for a, b in itertools.pairwise(row))


def is_cdi(device: str) -> bool:
    """Whether a device is a CDI name, as `nvidia.com/gpu=all` (CDI specification, device names)."""
    return re.fullmatch(r"[a-z0-9.-]+/[A-Za-z0-9_.-]+=.+", device) is not None


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


def size_in_mib(text: str) -> float | None:
    """Read `16g`, `64m`, `1073741824`, `16Gi`; None when it is no size."""
    match = _SIZE.fullmatch(text.strip().strip("'\""))
    if match is None:
        return None
    factor = {"": 1 / 2**20, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}
    return float(match.group(1)) * factor[match.group(2).lower()]
