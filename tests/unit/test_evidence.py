"""The evidence bundle: what is in it, and what must never be."""

from __future__ import annotations

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.evidence import bundle, secrets_of
from builder.core.profile import Check, Expect, Profile, ServerTable
from builder.core.smoke import SmokeReport, junit
from builder.core.smoke_html import html
from builder.edge.templates import read_template
from tests.support.report import check_result, make_report

TEMPLATE = read_template("smoke.html.j2")


def profile(arguments: list[str], environment: dict[str, str]) -> Profile:
    """Make one that starts the server so."""
    check = Check(name="x", prompt="x", request="completion", expect=Expect())
    server = ServerTable(arguments=arguments, environment=environment)
    return Profile(kind="cpu", check=[check], server=server)


def bundled(report: SmokeReport, log: str, owner: Profile) -> dict[str, str]:
    """Make the bundle of a container whose engine tells all."""
    server = owner.server
    listed = [f"{name}={value}" for name, value in server.environment.items()]
    files = bundle(
        report,
        log=log,
        inspect={
            "Config": {"Env": [*listed], "Cmd": [*server.arguments]},
            "State": {"ExitCode": 1},
        },
        gpus="no nvidia-smi",
        pages={"report.html": lambda clean: html(clean, TEMPLATE), "junit.xml": junit},
        secrets=secrets_of(owner),
    )
    return {name: data.decode() for name, data in files.items()}


def test_the_bundle_explains_a_failure() -> None:
    """Log, container, versions, GPUs, timeline, the failed check alone, diagnosis, page."""
    report = make_report(check_result("good"), check_result("bad", "fail", "garbage-output"))
    files = bundled(report, "the log", profile([], {}))
    expected = "report.json versions.json inspect.json timeline.json diagnosis.json server.log"
    assert {*expected.split(), "gpu.txt", "report.html", "junit.xml", "check-bad.json"} == set(
        files
    )
    assert "Paris" == json.loads(files["check-bad.json"])["answered"]
    assert "0.32.0" == json.loads(files["versions.json"])["vllm"]
    assert "health" == json.loads(files["timeline.json"])["phases"][0]["name"]
    assert "garbage-output" == json.loads(files["diagnosis.json"])["findings"][0]["key"]
    assert report == SmokeReport.model_validate_json(files["report.json"])


def test_the_secrets_of_a_profile() -> None:
    """By the names of variables, and all that follows the flag."""
    found = secrets_of(
        profile(
            ["/model", "--api-key", "first-key", "second-key", "--port=1", "--api-key=third-key"],
            {"HF_TOKEN": "hub-value", "VLLM_API_KEY": "key-value", "HF_HOME": "/cache"},
        )
    )
    assert {"first-key", "second-key", "third-key", "hub-value", "key-value"} == found


TOKENS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=8, max_size=40
).filter(lambda text: text == text.strip() and not text.startswith("-"))


@settings(max_examples=25, deadline=None)
@given(token=TOKENS, key=TOKENS)
def test_a_planted_token_never_appears(token: str, key: str) -> None:
    """C83: in no file, in no spelling that JSON, XML or HTML gives it; wherever it was said."""
    secret = "Zq7" + token
    other = "Kx9" + key
    owner = profile(["--api-key", other], {"HF_TOKEN": secret})
    said = f"log {secret} and {other}"
    bad = check_result("bad", "fail", "garbage-output").model_copy(
        update={"reason": said, "asked": json.dumps({"user": secret}), "answered": other}
    )
    report = make_report(bad, failure=said)
    for name, text in bundled(report, f"HF_TOKEN={secret} {said}\n" * 2, owner).items():
        for value in (secret, other):
            for spelled in spellings(value):
                assert spelled not in text, name


def spellings(value: str) -> set[str]:
    """Spell a value as the bundle's formats do."""
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        escaped,
        escaped.replace('"', "&quot;"),
        escaped.replace('"', "&#34;").replace("'", "&#39;"),
    }


def test_tokens_known_by_their_shape_are_taken_out() -> None:
    """C83: also of those that the profile did not hand over, as the log's and the image's."""
    report = make_report(failure="Authorization: Bearer abcdefgh12345")
    log = "token hf_abcdefghijklmnop\nhttps://user:pass1234@host/x\n"
    files = bundled(report, log, profile([], {}))
    out = io.StringIO()
    for text in files.values():
        out.write(text)
    for secret in ("abcdefgh12345", "hf_abcdefghijklmnop", "pass1234"):
        assert secret not in out.getvalue()
