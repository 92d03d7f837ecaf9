"""The phases of a boot and the checks after it, each with its own deadline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue

from builder.commands.smoke_watch import Watch
from builder.core.answer import Answer, Reply, read_answer
from builder.core.boot import Exit, Expired
from builder.core.burst import judge_burst
from builder.core.drift import Score
from builder.core.finding import Finding
from builder.core.judge import Facts, judge, model_ids
from builder.core.profile import Burst, Check, Profile
from builder.core.ruling import Verdict
from builder.core.smoke import CheckResult, Phase
from builder.core.timeline import Timeline
from builder.edge.openai import OpenAI
from builder.edge.pool import Stop, each
from builder.edge.server import Server
from builder.errors import BootFailed
from builder.output import Output

_POLL = 0.25
_TAIL = 30
_EXCERPT = 1000


@dataclass(slots=True)
class Session:
    """One boot while it goes on; what was seen stays here when it breaks."""

    profile: Profile
    subject: str
    version: str
    """vLLM's version by the image's labels."""
    output: Output
    phases: list[Phase] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    log: Timeline = field(default_factory=Timeline)
    """What the log said of the start, in seconds since the container ran."""
    findings: list[Finding] = field(default_factory=list)
    """Of the boot itself, beside its checks."""
    model: str = ""
    key: str = ""
    """Finding key of what broke, where the log may not say."""
    before: Mapping[str, Sequence[Score]] = field(default_factory=dict)
    """Log probabilities of the last smoke that passed, by check."""
    inspected: dict[str, JsonValue] = field(default_factory=dict)
    """What the engine said of the container."""

    def until_ready(self, server: Server, client: OpenAI) -> None:
        """Ready is a real answer in time, not a 200 on /health (C60).

        Raises BootFailed as soon as the container ends or a deadline passes.
        """
        limits = self.profile.deadlines
        watch = Watch(self.output, limits.phases)
        try:
            self._until_ready(server, client, watch)
        finally:
            watch.end()
        first, second = self.phases[-2:]
        if first.seconds > limits.second_answer >= second.seconds:
            cold = "cold kernels: compiled during the first request"
            self.phases[-2] = first.model_copy(update={"note": cold})

    def _until_ready(self, server: Server, client: OpenAI, watch: Watch) -> None:
        limits = self.profile.deadlines
        with self.output.step("health", "waiting for /health"):
            self._timed("health", limits.health, lambda: self._healthy(server, client, watch))
        with self.output.step("ready", "asking for models and first answers"):
            self._timed("models", limits.models, lambda: self._models(server, client))
            for name, seconds in (
                ("first-answer", limits.first_answer),
                ("second-answer", limits.second_answer),
            ):
                self._timed(name, seconds, partial(self._answered, server, client, seconds, watch))

    def run_checks(self, server: Server, client: OpenAI) -> None:
        """Ask everything the profile asks; raises BootFailed when the container ends meanwhile."""
        with self.output.step("checks", f"{len(self.profile.check)} checks"):
            for check in self.profile.check:
                result = self._checked(server, client, check)
                self.checks.append(result)
                self.output.detail(f"  {result.name}: {result.status}: {result.reason}")

    def _checked(self, server: Server, client: OpenAI, check: Check) -> CheckResult:
        answer, verdict, asked = self._judged(server, client, check, 1)
        if verdict.again:
            answer, verdict, asked = self._judged(server, client, check, 4)
        figures: dict[str, float] = {}
        if check.burst is not None and verdict.status == "pass":
            answer, verdict, figures = self._burst(server, client, check, check.burst)
        self.answers[check.name] = answer
        return CheckResult(
            name=check.name,
            request=f"{'GET' if check.request == 'get' else 'POST'} {check.url}",
            status=verdict.status,
            reason=verdict.reason,
            key=verdict.key,
            blame=verdict.blame,
            seconds=round(answer.reply.seconds, 3),
            first_seconds=round(answer.reply.first_seconds, 3),
            asked=asked[:_EXCERPT],
            answered=_shown(answer)[:_EXCERPT],
            figures=figures,
            scores=answer.scores if check.expect.max_drift is not None else (),
        )

    def _burst(
        self, server: Server, client: OpenAI, check: Check, burst: Burst
    ) -> tuple[Answer, Verdict, dict[str, float]]:
        """Ask the same many times, several at once; the worst answer is the check's."""
        seconds = check.deadline or self.profile.deadlines.check
        body = check.body(self.model, version=self.version)
        until = time.monotonic() + seconds

        def one(_number: int, _stop: Stop) -> Reply:
            left = until - time.monotonic()
            # Nobody waits any more: what has not begun is not asked.
            return client.post(check.url, body, left) if left > 0 else Reply(status=0)

        started = time.monotonic()
        got = server.call(
            lambda: each(one, range(burst.requests), threads=burst.concurrency), until - started
        )
        took = time.monotonic() - started
        if isinstance(got, Exit):
            raise self._ended(server, got)
        if isinstance(got, Expired):
            said = f"{burst.requests} requests were not answered within {got.seconds:.0f} s"
            answer = read_answer(Reply(status=0, failure=said), streamed=check.stream)
            return answer, judge(check, answer, self._facts()), {}
        answers = [read_answer(reply, streamed=check.stream) for reply in got]
        verdicts = [judge(check, answer, self._facts()) for answer in answers]
        number, verdict, figures = judge_burst(answers, verdicts, burst.concurrency, took)
        return answers[number], verdict, figures

    def _facts(self) -> Facts:
        return Facts(
            served_name=self.profile.server.served_name,
            version=self.version,
            claims_tools=self.profile.claims_tools,
            earlier=self.answers,
            before=self.before,
        )

    def _judged(
        self, server: Server, client: OpenAI, check: Check, more_tokens: int
    ) -> tuple[Answer, Verdict, str]:
        seconds = check.deadline or self.profile.deadlines.check
        if check.request == "get":
            asked = ""
            reply = self._ask(server, lambda: client.get(check.url, seconds), seconds)
        else:
            body = check.body(self.model, more_tokens, self.version)
            asked = json.dumps(body, ensure_ascii=False)
            reply = self._ask(server, lambda: client.post(check.url, body, seconds), seconds)
        answer = read_answer(reply, streamed=check.stream)
        return answer, judge(check, answer, self._facts()), asked

    def _healthy(self, server: Server, client: OpenAI, watch: Watch) -> None:
        started = time.monotonic()
        limit = self.profile.deadlines.health
        while True:
            reply = self._ask(server, lambda: client.get("/health", 5), 5, settle=0)
            if reply.status == 200:
                return
            end = server.wait(_POLL)
            if end is not None:
                raise self._ended(server, end)
            now = time.monotonic()
            if now - started > limit:
                self.key = "engine-ready-timeout"
                said = reply.failure or f"HTTP {reply.status}"
                raise self._failed(server, f"/health did not say 200 within {limit:g} s ({said})")
            late = watch.look(server.log)
            if late:
                self.key = "engine-ready-timeout"
                raise self._failed(server, late)

    def _models(self, server: Server, client: OpenAI) -> None:
        limit = self.profile.deadlines.models
        reply = self._ask(server, lambda: client.get("/v1/models", limit), limit)
        try:
            ids = model_ids(json.loads(reply.body))
        except ValueError:
            ids = []
        if not ids:
            self.key = "model-name-404"
            said = reply.failure or f"HTTP {reply.status} {reply.body[:200]}"
            raise self._failed(server, f"/v1/models lists no model: {said}")
        wanted = self.profile.server.served_name
        self.model = wanted if wanted in ids else ids[0]

    def _answered(self, server: Server, client: OpenAI, seconds: float, watch: Watch) -> None:
        body: dict[str, JsonValue] = {
            "model": self.model,
            "prompt": "Hello",
            "max_tokens": 1,
            "temperature": 0,
        }
        reply = self._ask(
            server,
            lambda: client.post("/v1/completions", body, seconds),
            seconds,
            waiting=lambda: watch.wait(server.log),
        )
        if reply.failure or reply.status != 200:
            self.key = "health-is-not-ready"
            said = reply.failure or f"HTTP {reply.status} {reply.body[:200]}"
            raise self._failed(server, f"/health says 200, a completion got no answer: {said}")

    def _ask(
        self,
        server: Server,
        ask: Callable[[], Reply],
        seconds: float,
        *,
        settle: float = 2.0,
        waiting: Callable[[], None] | None = None,
    ) -> Reply:
        got = server.call(ask, seconds + 1, waiting)
        if isinstance(got, Exit):
            raise self._ended(server, got)
        if isinstance(got, Expired):
            return Reply(status=0, failure=f"no whole answer within {seconds:g} s", seconds=seconds)
        # A broken connection is often the first sign of an end that the engine tells a bit later.
        end = server.wait(settle) if got.failure and settle else None
        if end is not None:
            raise self._ended(server, end)
        return got

    def _timed(self, name: str, deadline: float, work: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            work()
        finally:
            seconds = round(time.monotonic() - started, 3)
            self.phases.append(Phase(name=name, seconds=seconds, deadline=deadline))

    def _ended(self, server: Server, end: Exit) -> BootFailed:
        # The last lines may still be on their way when the engine tells the end.
        server.log.settle()
        error = self._failed(server, f"the container {end.text}")
        error.status = end.code
        return error

    def _failed(self, server: Server, what: str) -> BootFailed:
        return BootFailed(
            what,
            subject=self.subject,
            action="read the log in the report's folder",
            tail="\n".join(server.log.tail(_TAIL)),
        )


def _shown(answer: Answer) -> str:
    """Show what a person wants to see of it."""
    if answer.reply.failure or answer.reply.status != 200 or answer.problems:
        return answer.reply.body
    calls = "; ".join(f"{call.name}({call.arguments})" for call in answer.tool_calls)
    return calls or answer.text or answer.reply.body
