"""A server that answers as vLLM does, and misbehaves on demand.

Standard library alone: it also runs inside the tiny image, where the container tests boot it. Takes
vLLM's flags and ignores them; what it does wrong comes from the variable MISBEHAVE: `exit` (with
EXIT_CODE, after printing EXIT_LINE), `never-healthy`, `hang`, `slow-first`, `dead`, `wrong`,
`no-tools`, `cut`, `die-in-check`, `stubborn` (ignores SIGTERM), `old-version`, `unheld` (to no
schema), `truncates` (prompts), `mute` (no metrics), `repeats`, `one-wrong` (the fifth answer),
`drifts` (its probabilities).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REASONING = "The question is about France. Its capital is Paris."
STORY = (
    "Far out on a grey rock stood an old lighthouse. Its keeper climbed one hundred and twelve "
    "steps every evening to wake the great lamp, and sang so loudly that sailors could steer by "
    "her voice."
)


def say(line: str) -> None:
    """Log a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Server(ThreadingHTTPServer):
    """What it remembers between requests."""

    daemon_threads = True
    misbehave = ""
    version = "0.32.0"
    completions = 0


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write as uvicorn does."""
        say(f"INFO:     {self.address_string()} - {format % args}")

    def do_GET(self) -> None:
        """Health, models, version."""
        if self.path == "/health":
            self._send(503 if self.server.misbehave == "never-healthy" else 200, None)
        elif self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": "smoke", "object": "model"}]})
        elif self.path == "/version":
            self._send(200, {"version": self.server.version})
        elif self.path == "/metrics":
            mute = self.server.misbehave == "mute"
            names = ("num_requests_running", "generation_tokens_total")
            lines = "".join(
                f"# HELP vllm:{name} x\n" + ("" if mute else f'vllm:{name}{{model="smoke"}} 0.0\n')
                for name in names
            )
            self._send_data(200, lines.encode())
        else:
            self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Completions and chats."""
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.server.completions += 1
        self._misbehave()
        if self.path == "/v1/completions":
            text = " Paris" if body["max_tokens"] > 1 else " x"
            whole = _whole({"index": 0, "text": text, "finish_reason": "stop"})
            if "logprobs" in body:
                value = -1.5 if self.server.misbehave == "drifts" else -0.25
                table = {"tokens": [text], "token_logprobs": [value]}
                whole["choices"][0]["logprobs"] = table
            if self.server.misbehave != "truncates":
                whole["usage"]["prompt_tokens"] = len(body["prompt"].split())
            self._send(200, whole)
            return
        how = self.server.misbehave
        if how == "one-wrong":
            how = "wrong" if self.server.completions == 5 else ""
        message, finish = answer(body, how)
        if body.get("stream"):
            self._stream(message, finish)
        else:
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self._send(200, _whole(choice))

    def _misbehave(self) -> None:
        how, number = self.server.misbehave, self.server.completions
        if how == "hang" or (how == "slow-first" and number == 1):
            time.sleep(3600 if how == "hang" else 1.5)
        if how == "die-in-check" and number > 2:
            say("CUDA error: an illegal memory access was encountered")
            os._exit(139)

    def _send(self, status: int, body: object) -> None:
        if self.server.misbehave == "dead" and self.path != "/health":
            status, body = 503, {"error": {"message": "EngineDeadError", "type": "x", "code": 503}}
        self._send_data(status, b"" if body is None else json.dumps(body).encode())

    def _send_data(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, message: dict[str, Any], finish: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta in pieces(message):
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if self.server.misbehave == "cut":
            return
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        self._event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, body: object) -> None:
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())


def _whole(choice: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}


def answer(body: dict[str, Any], misbehave: str) -> tuple[dict[str, Any], str]:
    """Know by heart what the smoke model knows."""
    asked = str(body["messages"][-1]["content"])
    message: dict[str, Any] = {"role": "assistant", "content": None, "reasoning": None}
    if "weather" in asked:
        call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        if misbehave == "no-tools":
            return message | {"content": f"<tool_call>{json.dumps(call)}</tool_call>"}, "stop"
        return message | {"tool_calls": [{"type": "function", "function": call}]}, "tool_calls"
    known = {"capital": "Paris", "story": STORY, "Japanese": "こんにちは 👋"}
    message["content"] = next((text for word, text in known.items() if word in asked), "?")
    if "response_format" in body and misbehave != "unheld":
        message["content"] = '"Paris"' if "JSON" not in asked else '{"capital": "Paris"}'
    if misbehave == "repeats":
        message["content"] = "the lamp " * 40
    if misbehave == "wrong" and "capital" in asked:
        message["content"] = "Lyon"
    if body.get("chat_template_kwargs", {}).get("enable_thinking"):
        message["reasoning"] = REASONING
    return message, "stop"


def pieces(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Cut a message as a stream does."""
    yield {"role": "assistant", "content": ""}
    for field in ("reasoning", "content"):
        text = message[field] or ""
        yield from ({field: text[at : at + 2]} for at in range(0, len(text), 2))
    for call in message.get("tool_calls", ()):
        function = call["function"]
        yield {"tool_calls": [{"index": 0, "id": "1", "function": {"name": function["name"]}}]}
        for char in function["arguments"]:
            yield {"tool_calls": [{"index": 0, "function": {"arguments": char}}]}


def main() -> None:
    """Serve on port 8000 until SIGTERM."""
    misbehave = os.environ.get("MISBEHAVE", "")
    say(f"vLLM API server version 0.32.0, arguments {sys.argv[1:]}")
    model = Path("/model")
    if model.is_dir():
        say(f"model folder holds {sorted(path.name for path in model.iterdir())}")
    if misbehave == "exit":
        say(os.environ.get("EXIT_LINE", "RuntimeError: Engine core initialization failed."))
        sys.exit(int(os.environ.get("EXIT_CODE", "1")))
    server = Server(("0.0.0.0", 8000), Handler)
    server.misbehave = misbehave
    server.version = "0.31.0" if misbehave == "old-version" else "0.32.0"

    def stop(_number: int, _frame: object) -> None:
        say("Shutting down")
        if misbehave != "stubborn":
            threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    server.serve_forever()


if __name__ == "__main__":
    main()
