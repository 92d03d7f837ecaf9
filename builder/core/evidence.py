"""The evidence bundle of one smoke: what somebody else needs to understand it, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from pydantic import JsonValue

from builder.core.profile import Profile
from builder.core.redaction import redact
from builder.core.smoke import SmokeReport

_NAME = re.compile(r"(?i)token|secret|passw|credential|api_?key|access_?key|private_?key|auth")
_FLAG = re.compile(r"--(?:hf-)?(?:api-key|token)(?:=|$)")
_SHORTEST = 4
"""Characters; replacing a shorter value everywhere would garble every text."""
_HIDDEN = "[redacted]"


def secrets_of(profile: Profile) -> frozenset[str]:
    """Collect the values that the profile hands the server in secret (C83)."""
    found = {
        value
        for name, value in profile.server.environment.items()
        if _NAME.search(name) is not None
    }
    arguments = profile.server.arguments
    for number, part in enumerate(arguments):
        if _FLAG.match(part) is None:
            continue
        _, given, value = part.partition("=")
        if given:
            found.add(value)
            continue
        # vLLM takes several keys after one flag.
        for follower in arguments[number + 1 :]:
            if follower.startswith("--"):
                break
            found.add(follower)
    return frozenset(value for value in found if len(value) >= _SHORTEST)


def bundle(
    report: SmokeReport,
    *,
    log: str,
    inspect: Mapping[str, JsonValue],
    gpus: str,
    pages: Mapping[str, Callable[[SmokeReport], str]],
    secrets: Iterable[str],
) -> dict[str, bytes]:
    """Return the bundle's files by name; no value of `secrets` is in any of them.

    `inspect` is what the engine says of the container, `gpus` what `nvidia-smi` said, `pages`
    other spellings of the report (HTML, JUnit): each gets one that is clean already, because
    every format writes a secret in another way.
    """
    known = sorted(set(secrets), key=lambda value: (-len(value), value))
    report = _clean(report, known)
    versions: dict[str, JsonValue] = {
        "image": f"{report.name}@{report.digest}",
        "lock": report.lock,
        "build": report.build,
        "vllm": report.vllm,
        "profile": report.profile,
        "profile_digest": report.profile_digest,
        "nightlock": report.nightlock,
        "machine": report.machine.model_dump(mode="json"),
    }
    whole = report.model_dump(mode="json", by_alias=True)
    tables: dict[str, JsonValue] = {
        "report.json": whole,
        "versions.json": versions,
        "inspect.json": dict(inspect),
        "timeline.json": {"phases": whole["phases"], "timeline": whole["timeline"]},
        "diagnosis.json": {"failure": report.failure, "findings": whole["findings"]},
    }
    texts = {"server.log": log, "gpu.txt": gpus}
    for check in report.checks:
        if check.status in ("fail", "inconclusive"):
            tables[f"check-{check.name}.json"] = check.model_dump(mode="json")
    files = {name: _json(table, known) for name, table in tables.items()}
    files |= {name: page(report).encode() for name, page in pages.items()}
    return files | {name: _hidden(text, known).encode() for name, text in texts.items()}


def _clean(report: SmokeReport, known: list[str]) -> SmokeReport:
    """Take secrets out of all that a server, a person or a log wrote into a report."""

    def clean(text: str) -> str:
        return _hidden(text, known)

    checks = tuple(
        check.model_copy(
            update={name: clean(getattr(check, name)) for name in ("reason", "asked", "answered")}
        )
        for check in report.checks
    )
    findings = tuple(
        one.model_copy(update={"subject": clean(one.subject), "evidence": clean(one.evidence)})
        for one in report.findings
    )
    phases = tuple(one.model_copy(update={"note": clean(one.note)}) for one in report.phases)
    spans = tuple(
        span.model_copy(update={"process": clean(span.process)}) for span in report.timeline.spans
    )
    kernels = tuple(clean(text) for text in report.timeline.kernels)
    return report.model_copy(
        update={
            "timeline": report.timeline.model_copy(update={"spans": spans, "kernels": kernels}),
            "failure": clean(report.failure),
            "checks": checks,
            "findings": findings,
            "phases": phases,
        }
    )


def _json(table: JsonValue, known: list[str]) -> bytes:
    text = json.dumps(_walked(table, known), ensure_ascii=False, indent=1, sort_keys=True)
    # Numbers and the seams between values are texts too.
    return (_without(text, known) + "\n").encode()


def _walked(value: JsonValue, known: list[str]) -> JsonValue:
    if isinstance(value, str):
        return _hidden(value, known)
    if isinstance(value, list):
        return [_walked(one, known) for one in value]
    if isinstance(value, dict):
        return {
            _hidden(name, known): _HIDDEN
            if isinstance(one, str) and _NAME.search(name) is not None
            else _walked(one, known)
            for name, one in value.items()
        }
    return value


def _hidden(text: str, known: list[str]) -> str:
    # The known ones again at last: what is taken out of their middle must not leave the rest.
    return _without(redact(_without(text, known)), known)


def _without(text: str, known: list[str]) -> str:
    for value in known:
        for spelled in {
            value,
            json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1],
        }:
            text = text.replace(spelled, _HIDDEN)
    return text
