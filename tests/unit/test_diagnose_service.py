"""What servers, registries, engines and run files say: one test a field case, C54 to C83."""

from __future__ import annotations

import pytest

from tests.support.diagnosing import keys, root_key, root_of

UP = "(APIServer pid=7) INFO:     Application startup complete."


def severities(*lines: str) -> dict[str, str]:
    """Give every finding of a log with its severity."""
    return {finding.key: finding.severity for finding in root_of(*lines).findings("x")}


def test_reasoning_field_rename() -> None:
    """C54: worth knowing, no fault."""
    line = 'data: {"choices":[{"index":0,"delta":{"reasoning": "Let me"}}]}'
    assert {"reasoning-field-rename": "info"} == severities(UP, line)
    assert {"reasoning-field-rename": "info"} == severities('delta: {"reasoning": "x"}')


@pytest.mark.parametrize(
    ("message", "finish", "severity"),
    [
        ('"content": null, "reasoning": "so"', "length", "warning"),
        ('"content": "", "reasoning": "so"', "stop", "warning"),
        ('"content": null', "stop", "error"),
    ],
)
def test_content_null(message: str, finish: str, severity: str) -> None:
    """C55: the reason of the end decides whose fault it is."""
    line = f'{{"message": {{"role": "assistant", {message}}}, "finish_reason": "{finish}"}}'
    assert {"content-null": severity} == severities(line)


def test_tool_calls() -> None:
    """C56: flags that are missing; and not the cause of a server's death."""
    line = (
        '{"object":"error","message":"\\"auto\\" tool choice requires --enable-auto-tool-choice and '
        '--tool-call-parser to be set","type":"BadRequestError","code":400}'
    )
    assert "tool-calls" == root_key(UP, line)
    dead = "(EngineCore pid=51) ERROR 11-30 19:59:33 [core.py:1] RuntimeError: Insufficient space in /dev/shm"
    assert "shm-too-small" == root_key(UP, line, dead)


def test_streaming_usage() -> None:
    """C57: the client's fault."""
    assert {"streaming-usage": "warning"} == severities(
        "Traceback (most recent call last):",
        '  File "/app/client.py", line 9, in read',
        "    text = chunk.choices[0].delta.content",
        "IndexError: list index out of range",
    )


TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat "
    "template if the tokenizer does not define one."
)


def test_chat_template_missing() -> None:
    """C58: harmless at start; told when a request failed with it."""
    start = "(APIServer pid=7) INFO 11-30 19:59:33 [chat.py:1] Warm-up failed: " + TEMPLATE
    assert {"chat-template-missing": "info"} == severities(start, UP)
    body = '{"error":{"message":"' + TEMPLATE + '","type":"BadRequestError","code":400}}'
    assert {"chat-template-missing": "warning"} == severities(UP, body)


def test_model_name_404() -> None:
    """C59: the name is quoted."""
    line = '{"error":{"message":"The model `default` does not exist.","type":"NotFoundError","param":"model","code":404}}'
    found = root_of(UP, line)
    assert found.root is not None
    assert ("model-name-404", True) == (found.root.key, "default" in found.root.cause)


def test_health_is_not_ready() -> None:
    """C60: a probe's own words."""
    line = "GET /health -> 200, POST /v1/chat/completions -> no answer in 300 s"
    assert "health-is-not-ready" == root_key(line)


@pytest.mark.parametrize(
    "content", ["あるいあるいあるいあるいある", "Paris the the the the the", "ab12ab12ab12ab12ab12"]
)
def test_garbage_output(content: str) -> None:
    """C61: what repeats itself; words with spaces between them do not count alone."""
    expected = "garbage-output" if " " not in content else None
    assert expected == root_key(f'{{"role": "assistant", "content": "{content}"}}')
    assert None is root_key('{"role": "assistant", "content": "The capital of France is Paris."}')


def test_testcontainers_reaper() -> None:
    """C62: the helper that is not ready, apart from a server that is not."""
    wait = "Waiting for container <Container: 70bc0a7ee6ef> with image testcontainers/ryuk:{} to be ready ..."
    timeout = "TimeoutError: Timed out waiting for log output matching '.*Started.*'"
    for version in ("0.8.1", "0.13.0"):
        found = root_of(wait.format(version), timeout, noise=False)
        assert found.root is not None
        assert ("testcontainers-reaper", "cause") == (found.root.key, found.root.role)
    assert "testcontainers-reaper" == root_key(wait.format("0.8.1"), noise=False)
    started = "(APIServer pid=7) INFO 11-30 19:59:33 [x.py:1] vLLM API server version 0.31.0"
    assert None is root_key(wait.format("0.8.1"), started, noise=False)
    assert None is root_key(wait.format("0.8.1"), started, UP, noise=False)


@pytest.mark.parametrize(
    "line",
    [
        'failed to resolve reference "docker.io/vllm/vllm-openai:nightly-01d4c1ab": docker.io/vllm/'
        "vllm-openai:nightly-01d4c1ab: not found",
        "Error response from daemon: manifest for vllm/vllm-openai:nightly-01d4c1ab not found: manifest unknown",
    ],
)
def test_nightly_tags_purged(line: str) -> None:
    """C63: a nightly's tag, apart from a base that is gone (C28)."""
    assert "nightly-tags-purged" == root_key(line)


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai:nightly", "vllm/vllm-openai", '"x/y:cu130-nightly"']
)
def test_mutable_tag_broke_users(image: str) -> None:
    """C64: in a compose file that stands in the log; a pinned one is none."""
    assert {"mutable-tag-broke-users": "warning"} == severities(f"    image: {image}")
    assert {} == severities("    image: vllm/vllm-openai:v0.31.0")


def test_tag_vs_content() -> None:
    """C67: both versions are quoted; equal ones are fine."""
    line = "vLLM API server version 0.5.5, image tag v0.6.2"
    found = root_of(line)
    assert found.root is not None
    assert ("tag-vs-content", True) == (found.root.key, "0.5.5" in found.root.cause)
    assert None is root_key("vLLM API server version 0.6.2, image tag v0.6.2")


@pytest.mark.parametrize(
    "line",
    ["Digest mismatch after retag: sha256:4b9e != sha256:6ae2", "Error: no signatures found"],
)
def test_promotion_changes_digest(line: str) -> None:
    """C68: by the promotion, and by cosign."""
    assert "promotion-changes-digest" == root_key(line)


@pytest.mark.parametrize(
    "line",
    [
        "no matching manifest for linux/arm64/v8 in the manifest list entries",
        "exec /usr/local/bin/vllm: exec format error",
    ],
)
def test_arm64_missing(line: str) -> None:
    """C69: before the pull, and after it."""
    assert "arm64-missing" == root_key(line)


def test_cve_and_sbom() -> None:
    """C70: a scanner's row."""
    assert {"cve-and-sbom": "warning"} == severities("CVE-2026-4519  python3.12  deb")


@pytest.mark.parametrize(
    "line",
    [
        "Failed to resolve unit specifiers in 'DISCORD=https://h.example/a%20b': Invalid slot",
        "/etc/systemd/system/v.service:7: Failed to resolve specifiers in URL=https://h/a%20b, ignoring: Invalid slot",
        'Ignoring unknown escape sequences: "a\\qb"',
    ],
)
def test_systemd_escaping(line: str) -> None:
    """C72: three of systemd's sentences."""
    assert "systemd-escaping" == root_key(line)


@pytest.mark.parametrize(
    "line",
    [
        "     Active: failed (Result: timeout) since Mon",
        "vllm.service: start operation timed out. Terminating.",
    ],
)
def test_start_timeout(line: str) -> None:
    """C73: the unit's limit is the cause, the signal that follows is not."""
    signal = "(EngineCore pid=51) INFO 11-30 20:16:01 [core.py:1] [shutdown] EngineCore: trigger received signal=SIGTERM"
    assert "start-timeout" == root_key(line, signal)


def test_health_start_period() -> None:
    """C74: the probe's program is not there; other programs are C51."""
    line = 'OCI runtime exec failed: exec failed: unable to start container process: exec: "{}": executable file not found in $PATH: unknown'
    assert "health-start-period" == root_key(line.format("curl"))
    assert "entrypoint-form" == root_key(line.format("vllm-openai"))


@pytest.mark.parametrize(
    "line",
    [
        'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]',
        "services.vllm.deploy.resources.reservations value Additional properties are not allowed ('devices' was unexpected)",
    ],
)
def test_compose_gpu_syntax(line: str) -> None:
    """C75: engine and schema."""
    assert "compose-gpu-syntax" == root_key(line)


def test_gpus_flag_quoting() -> None:
    """C76: docker's own sentence."""
    assert "gpus-flag-quoting" == root_key(
        "docker: cannot set both Count and DeviceIDs on device request."
    )


@pytest.mark.parametrize(
    "line",
    [
        "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported",
        "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
        "failed to discover GPU vendor from CDI: no known GPU vendor found",
    ],
)
def test_cdi_vs_gpus(line: str) -> None:
    """C77: the way that was asked for is not this host's."""
    assert "cdi-vs-gpus" == root_key(f"docker: Error response from daemon: {line}")


def test_daemon_reload_loses_gpu() -> None:
    """C78: in a container that worked before; not the same as C79."""
    request = '(APIServer pid=7) INFO:     10.0.0.1:4 - "POST /v1/completions HTTP/1.1" 200 OK'
    assert "daemon-reload-loses-gpu" == root_key(
        UP, request, "Failed to initialize NVML: Unknown Error"
    )


def test_quadlet_gpu_selinux() -> None:
    """C79: the device is there and denied."""
    assert "quadlet-gpu-selinux" == root_key("Failed to initialize NVML: Insufficient Permissions")


def test_compose_interpolation() -> None:
    """C80: a template error."""
    line = 'Invalid template: "--limit-mm-per-prompt ${x"'
    assert "compose-interpolation" == root_key(line)


@pytest.mark.parametrize(
    "line",
    [
        "no CUDA device, running on CPU",
        "stat /dev/nvidia-uvm: No such file or directory",
    ],
)
def test_vram_settle_and_boot_race(line: str) -> None:
    """C81: the driver's nodes were not there yet."""
    assert "vram-settle-and-boot-race" == root_key(line)


def test_stop_and_name_conflicts() -> None:
    """C82: the name is quoted."""
    line = 'Conflict. The container name "/core" is already in use by container "9f".'
    found = root_of(f"docker: Error response from daemon: {line}")
    assert found.root is not None
    assert ("stop-and-name-conflicts", True) == (found.root.key, "core" in found.root.cause)


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=7) INFO 11-30 19:58:36 [utils.py:238] non-default args: {'model': '/m', 'api_key': ['sesame-1234'], 'port': 8000}",
        "exec vllm serve /m --api-key sesame-1234",
        "HF_TOKEN=hf_sesame1234abcdef",
    ],
)
def test_secrets_in_argv(line: str) -> None:
    """C83: it is told, and never repeated."""
    found = root_of(line, UP)
    assert {"secrets-in-argv"} == keys(found)
    (finding,) = found.findings("x")
    assert ("warning", False, True) == (
        finding.severity,
        "sesame" in finding.model_dump_json(),
        "[redacted]" in finding.evidence,
    )
