"""What a server answered, read from a JSON body or an event stream, in any shape vLLM has used.

Sources: vLLM `entrypoints/openai` responses (0.6 to 0.33), the WHATWG event-stream grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from builder.core.drift import Score, scores_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One HTTP exchange as it came."""

    status: int
    """HTTP status; 0 when there was none."""
    body: str = ""
    failure: str = ""
    """Why the exchange broke, in words; the body holds what had come until then."""
    seconds: float = 0.0
    first_seconds: float = 0.0
    """Until the first byte of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call the server's parser found in what the model wrote."""

    name: str
    arguments: str
    """JSON text, as it came."""

    def parsed(self) -> JsonValue:
        """Arguments as data; None when they are no JSON."""
        try:
            value: JsonValue = json.loads(self.arguments)
        except ValueError:
            return None
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the server counted them."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply in one shape, whether it was streamed or not."""

    reply: Reply
    content: str | None = None
    reasoning: str | None = None
    reasoning_field: str = ""
    """`reasoning`, or `reasoning_content` of older versions (C54)."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    usage: Usage | None = None
    chunks: int = 0
    """Events that carried text or a part of a call; 0 when not streamed."""
    scores: tuple[Score, ...] = ()
    """Tokens with their log probabilities, where they were asked for."""
    problems: tuple[str, ...] = ()
    """What breaks the protocol: a cut stream, two totals, an event that is no JSON."""
    error_type: str = ""
    error_message: str = ""

    @property
    def text(self) -> str:
        """Content, or nothing."""
        return self.content or ""


def read_answer(reply: Reply, *, streamed: bool) -> Answer:
    """Bring a reply into one shape; never raises, what is odd stands in `problems`."""
    if reply.status != 200:
        kind, message = _error(reply.body)
        return Answer(reply=reply, error_type=kind, error_message=message)
    return _from_stream(reply) if streamed else _from_body(reply)


def _from_body(reply: Reply) -> Answer:
    body = _object(reply.body)
    if body is None:
        return Answer(reply=reply, problems=("the body is not a JSON object",))
    assembly = _Assembly()
    assembly.take(body, "message")
    return assembly.answer(reply, streamed=False)


def _from_stream(reply: Reply) -> Answer:
    assembly = _Assembly()
    done = False
    for data in events(reply.body):
        if data == "[DONE]":
            done = True
            continue
        chunk = _object(data)
        if chunk is None:
            assembly.problems.append(f"an event is no JSON object: {data[:80]!r}")
        elif "error" in chunk:
            kind, message = _error(data)
            assembly.problems.append(f"the stream ended in an error: {kind} {message}".strip())
        else:
            assembly.take(chunk, "delta")
    if not done:
        assembly.problems.append("stream cut: the connection ended without [DONE]")
    return assembly.answer(reply, streamed=True)


def events(text: str) -> Iterator[str]:
    """Yield the data of each event of a stream; comments and other fields are skipped.

    WHATWG HTML 9.2.6, except that a last event without its blank line counts: cut streams are
    told by their missing `[DONE]`, and what had come should be shown.
    """
    data: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    if data:
        yield "\n".join(data)


@dataclass(slots=True)
class _Call:
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Assembly:
    """Parts of an answer while they come."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_field: str = ""
    calls: dict[int, _Call] = field(default_factory=dict)
    finish_reason: str = ""
    usages: list[Usage] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    totals: int = 0
    chunks: int = 0
    problems: list[str] = field(default_factory=list)

    def take(self, chunk: Mapping[str, JsonValue], part: str) -> None:
        """Add a body (`part` is `message`) or one event of a stream (`delta`)."""
        choices = chunk.get("choices")
        usage = _usage(chunk.get("usage"))
        if usage is not None:
            self.usages.append(usage)
            # C57: the total comes alone in the last event, or with every event, or not at all.
            self.totals += not choices
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        choice = choices[0]
        self.scores += scores_of(choice)
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason
        source = choice.get(part)
        message = source if isinstance(source, dict) else {"content": choice.get("text")}
        carried = self._texts(message)
        if self._calls(message.get("tool_calls")) or carried:
            self.chunks += 1

    def _texts(self, message: Mapping[str, JsonValue]) -> bool:
        content = message.get("content")
        if isinstance(content, str):
            self.content = (self.content or "") + content
        carried = bool(content)
        for name in ("reasoning", "reasoning_content"):
            value = message.get(name)
            # Some versions send both names with one text; the newer one is read first.
            if isinstance(value, str) and value and self.reasoning_field in ("", name):
                self.reasoning_field = name
                self.reasoning = (self.reasoning or "") + value
                carried = True
        return carried

    def _calls(self, parts: JsonValue) -> bool:
        if not isinstance(parts, list):
            return False
        for part in parts:
            if not isinstance(part, dict):
                continue
            index = part.get("index")
            place = index if isinstance(index, int) else len(self.calls)
            call = self.calls.setdefault(place, _Call())
            function = part.get("function")
            if isinstance(function, dict):
                call.name = call.name or _text(function.get("name"))
                call.arguments += _text(function.get("arguments"))
        return bool(parts)

    def answer(self, reply: Reply, *, streamed: bool) -> Answer:
        """Close the answer."""
        problems = list(self.problems)
        if self.totals > 1:
            problems.append(f"{self.totals} usage totals in one stream")
        counts = [usage.completion for usage in self.usages]
        if counts != sorted(counts):
            problems.append("the usage of a later event is smaller than that of an earlier one")
        return Answer(
            reply=reply,
            content=self.content,
            reasoning=self.reasoning,
            reasoning_field=self.reasoning_field,
            tool_calls=tuple(
                ToolCall(name=call.name, arguments=call.arguments)
                for _, call in sorted(self.calls.items())
            ),
            finish_reason=self.finish_reason,
            usage=self.usages[-1] if self.usages else None,
            chunks=self.chunks if streamed else 0,
            scores=tuple(self.scores),
            problems=tuple(problems),
        )


def _object(text: str) -> dict[str, JsonValue] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _usage(value: JsonValue) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if not isinstance(prompt, int):
        return None
    return Usage(prompt=prompt, completion=completion if isinstance(completion, int) else 0)


def _error(body: str) -> tuple[str, str]:
    """Type and message of an error: OpenAI's shape, vLLM's older flat one, FastAPI's detail."""
    value = _object(body)
    if value is None:
        return "", body.strip()[:300]
    inner = value.get("error")
    source = inner if isinstance(inner, dict) else value
    message = _text(source.get("message")) or _text(source.get("detail")) or body.strip()[:300]
    return _text(source.get("type")), message
