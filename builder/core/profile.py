"""Smoke profiles: `images/profiles/NAME.toml`, how an image is booted and what it must answer."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from builder.core.lock import digest_of
from builder.core.spec import parse_toml
from builder.core.structure import structure_fields, unknown_keywords
from builder.core.timeline import PhaseName

Seconds = Annotated[float, Field(gt=0, le=86_400)]
_GPU = r"^(\d+|(GPU|MIG)-[0-9A-Za-z-]+|[a-z0-9.-]+/[a-z0-9.-]+=[A-Za-z0-9_.:-]+)$"
_VOLUME = r"^[^:]+:/[^:]*(:(ro|rw))?$"
_GRACE = 10.0
"""Seconds that a stop may take longer than vLLM's own limit."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelTable(_Table):
    """`[model]`: the checkpoint that is served."""

    folder: str = ""
    """On this machine, relative to the project; empty where the image or a volume has it."""
    mount: Annotated[str, Field(pattern=r"^/.+")] = "/model"
    """Where the container sees it, read-only."""
    repository: str = ""
    """What the folder holds, by its public name; said to the operator, never fetched."""


class ServerTable(_Table):
    """`[server]`: how the container is started."""

    arguments: list[str] = []
    """After the image's entrypoint."""
    environment: dict[str, str] = {}
    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    """Inside the container."""
    host_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """On this machine, loopback only; 0 takes a free one."""
    shm_mib: Annotated[int, Field(ge=1)] = 1024
    """Size of /dev/shm; Docker's own 64 MiB kills vLLM's engine (C41)."""
    served_name: str = ""
    """The model id that /v1/models must list; empty accepts any."""
    gpus: list[Annotated[str, Field(pattern=_GPU)]] = []
    """Which GPUs `smoke` takes: indices, UUIDs or CDI names; empty takes any `run.gpus`."""
    ipc: Literal["", "host", "private", "shareable"] = ""
    """IPC namespace; empty for the engine's default."""
    volumes: list[Annotated[str, Field(pattern=_VOLUME)]] = []
    """`SOURCE:TARGET[:ro]`, as Docker's -v."""

    @model_validator(mode="after")
    def _one_kind_of_gpu(self) -> ServerTable:
        if len({"=" in name for name in self.gpus}) > 1:
            raise ValueError("`gpus` are CDI names or they are not: both cannot be asked for")
        return self

    @property
    def shutdown_seconds(self) -> float:
        """What vLLM itself gives requests in flight after SIGTERM (`--shutdown-timeout`)."""
        joined = " ".join(self.arguments)
        found = re.search(r"--shutdown[-_]timeout[= ](\d+)", joined)
        return float(found[1]) if found else 0.0


class Deadlines(_Table):
    """`[deadlines]`, in seconds, each for its own phase."""

    start: Seconds = 120
    """From `create` until the container runs; the pull comes before."""
    health: Seconds = 600
    """Until /health says 200."""
    models: Seconds = 30
    first_answer: Seconds = 600
    """First completion; may compile kernels (C60)."""
    second_answer: Seconds = 30
    check: Seconds = 120
    """Each check that has no `deadline` of its own."""
    stop: Seconds = 30
    """After SIGTERM, before SIGKILL; where vLLM takes longer by its own arguments, so do we."""
    phases: dict[PhaseName, Seconds] = {}
    """Phase of the log → what it may take, as `weights = 900`; /health's deadline holds as well."""
    gpu_memory: Seconds = 60
    """After the stop, until the GPUs' memory is free again (C46)."""


class RunTable(_Table):
    """`[run]`: how the profile is deployed."""

    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    startup: Seconds | None = None
    """What the first start may take; unset, the deadline of /health. Every limit of a run file
    follows from it."""


class HostProfile(_Table):
    """`images/profiles/hosts/NAME.toml`: what one kind of host needs, whatever it serves (C42)."""

    description: str
    reason: str
    """Why, for the head of the run file."""
    environment: dict[str, str] = {}
    arguments: list[str] = []


class ExpectedCall(_Table):
    """A tool call that must come."""

    name: str
    arguments: dict[str, JsonValue]


class Expect(_Table):
    """`[check.expect]`: all that is given must hold."""

    content: str | None = None
    """Exactly this text."""
    contains: list[str] = []
    """Each of these somewhere in the text."""
    reasoning: str | None = None
    """Exactly this text, split off from the content."""
    tool_calls: list[ExpectedCall] | None = None
    """Exactly these calls, in order; arguments compared as data."""
    finish_reason: str | None = None
    min_chunks: Annotated[int, Field(ge=1)] | None = None
    """Events that carry text, at least."""
    usage: bool = False
    """A usage total must come."""
    same_as: str | None = None
    """An earlier check with the same answer and token counts, as streaming must have."""
    min_prompt_tokens: Annotated[int, Field(ge=1)] | None = None
    """The usage counts at least so many tokens of prompt: a long one arrived whole."""
    max_drift: Annotated[float, Field(gt=0)] | None = None
    """Nats: log probabilities of the same tokens move no further, on average, from those of the
    last smoke of this repository and profile that passed (C61)."""
    metrics: list[str] = []
    """Each of these is a sample in Prometheus' text format."""
    models: bool = False
    """The list of models is not empty and has `server.served_name`."""
    version: bool = False
    """The server's version is the one the image's labels name (C67)."""


class Burst(_Table):
    """`[check.burst]`: the request is sent many times, several at once."""

    requests: Annotated[int, Field(ge=2, le=512)] = 16
    concurrency: Annotated[int, Field(ge=2, le=64)] = 4


class Check(_Table):
    """`[[check]]`: one request and what must come back."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    request: Literal["chat", "completion", "get"] = "chat"
    path: Annotated[str, Field(pattern=r"^/")] | None = None
    messages: list[dict[str, JsonValue]] = []
    prompt: str | None = None
    tools: list[dict[str, JsonValue]] = []
    stream: bool = False
    parameters: dict[str, JsonValue] = {}
    """Further fields of the request; temperature is 0 unless given."""
    repeat: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How often the prompt, or the last message's text, is written one after the other."""
    structure: dict[str, JsonValue] = {}
    """JSON schema that the server must hold its answer to, and the answer is held to here."""
    structure_form: Literal["response_format", "extra"] = "response_format"
    """OpenAI's field, or vLLM's own, by its version."""
    burst: Burst | None = None
    deadline: Seconds | None = None
    """Of the whole check, a burst included."""
    expect: Expect

    @model_validator(mode="after")
    def _fits_its_request(self) -> Check:
        wanted = {"chat": "messages", "completion": "prompt", "get": "path"}
        for request, key in wanted.items():
            given = bool(getattr(self, key))
            if given != (request == self.request):
                verb = "needs" if request == self.request else "takes no"
                raise ValueError(f"request {self.request!r} {verb} `{key}`")
        if self.request == "get" and self.stream:
            raise ValueError("request 'get' is not streamed")
        looks = self.expect.models or self.expect.version or bool(self.expect.metrics)
        if looks and self.request != "get":
            raise ValueError("`models`, `version`, `metrics` are expectations of request 'get'")
        if self.request == "get" and self.expect.max_drift is not None:
            raise ValueError("request 'get' has no probabilities for `max_drift`")
        if self.request == "get" and (self.structure or self.burst or self.repeat > 1):
            raise ValueError("request 'get' takes no `structure`, `burst` or `repeat`")
        odd = unknown_keywords(self.structure)
        if odd:
            raise ValueError(f"`structure` has keywords that are not checked: {', '.join(odd)}")
        if self.expect.min_chunks is not None and not self.stream:
            raise ValueError("`min_chunks` needs `stream = true`")
        return self

    @property
    def url(self) -> str:
        """Path that is asked."""
        paths = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
        return self.path or paths[self.request]

    def body(self, model: str, more_tokens: int = 1, version: str = "") -> dict[str, JsonValue]:
        """Return the request's JSON; `more_tokens` multiplies the token limit (C55).

        `version` is vLLM's: the name of a field may follow from it.
        """
        body: dict[str, JsonValue] = {"model": model, "temperature": 0, "max_tokens": 256}
        if self.request == "chat":
            # pydantic's JsonValue is invariant in lists; a copy has the wider type.
            messages = [dict(message) for message in self.messages]
            text = messages[-1].get("content")
            if isinstance(text, str):
                messages[-1]["content"] = text * self.repeat
            body["messages"] = list[JsonValue](messages)
        else:
            body["prompt"] = (self.prompt or "") * self.repeat
        if self.tools:
            body["tools"] = list(self.tools)
        if self.structure:
            body |= structure_fields(self.structure, self.structure_form, version)
        if self.expect.max_drift is not None:
            body["logprobs"] = True if self.request == "chat" else 1
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= self.parameters
        limit = body["max_tokens"]
        if isinstance(limit, int):
            body["max_tokens"] = limit * more_tokens
        return body


class Profile(_Table):
    """One profile."""

    kind: Annotated[str, Field(pattern=r"^(cpu|gpu:sm_\d+[af]?)$")]
    """Kind of the receipt that a pass earns."""
    model: ModelTable = ModelTable()
    server: ServerTable = ServerTable()
    run: RunTable = RunTable()
    deadlines: Deadlines = Deadlines()
    check: Annotated[list[Check], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_right(self) -> Profile:
        seen: set[str] = set()
        for check in self.check:
            if check.name in seen:
                raise ValueError(f"check {check.name!r} stands twice")
            other = check.expect.same_as
            if other is not None and other not in seen:
                raise ValueError(f"check {check.name!r}: no earlier check {other!r} for `same_as`")
            seen.add(check.name)
        return self

    @property
    def claims_tools(self) -> bool:
        """Whether the server is told to parse tool calls (C56)."""
        return any(part.startswith("--tool-call-parser") for part in self.server.arguments)

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL: longer than vLLM's own limit (C46)."""
        own = self.server.shutdown_seconds
        return max(self.deadlines.stop, own + _GRACE if own else 0)

    def digest(self, model: str) -> str:
        """Digest of all that decides what a pass means; `model` is the checkpoint's own digest."""
        content = {"profile": self.model_dump(mode="json"), "model": model}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return digest_of(text.encode())


def parse_host(text: str, path: str) -> HostProfile:
    """Parse a host profile; every problem of the file in one SpecError, with key paths."""
    return parse_toml(HostProfile, text, path)


def parse_profile(text: str, path: str) -> Profile:
    """Parse a profile; every problem of the file in one SpecError, with key paths."""
    return parse_toml(Profile, text, path)
