"""Defects of run files and Dockerfiles, by the key of their field case; and none in good ones."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.lint.check import check, recognise
from builder.core.lint.place import applied
from builder.errors import BadInput

DIGEST = "vllm/vllm-openai@sha256:" + "0" * 64


def found(name: str, text: str) -> set[tuple[str, int]]:
    """Key and line of each defect that is more than a remark."""
    _, problems = check(name, textwrap.dedent(text).lstrip("\n"))
    return {(one.key, one.line) for one in problems if one.severity != "info"}


def keys(name: str, text: str) -> set[str]:
    """Keys alone."""
    return {key for key, _ in found(name, text)}


def fixed(name: str, text: str) -> str:
    """Apply what is mechanical, once."""
    text = textwrap.dedent(text).lstrip("\n")
    return applied(text, check(name, text)[1])


def unit(service: str, head: str = "After=docker.service\nStartLimitBurst=3") -> str:
    """Write a unit around its [Service] lines; those begin on line 5."""
    lines = head.split("\n")
    assert len(lines) == 2
    return f"[Unit]\n{lines[0]}\n{lines[1]}\n[Service]\n{textwrap.dedent(service).strip()}\n"


def run(options: str = "", arguments: str = "--model /model") -> str:
    """Write a good `docker run` of vLLM with further options."""
    return f"docker run --rm --shm-size 16g {options} {DIGEST} {arguments}"


@pytest.mark.parametrize(
    ("image", "moves"),
    [
        ("vllm/vllm-openai", True),
        ("vllm/vllm-openai:latest", True),
        ("vllm/vllm-openai:nightly", True),
        ("vllm/vllm-openai:cu130-nightly", True),
        ("registry.example:5000/team/vllm:stable", True),
        ("vllm/vllm-openai:nightly-8f3c1d2e4a5b6c7d8e9f", False),
        ("vllm/vllm-openai:v0.33.0-cu130", False),
        (DIGEST, False),
        ("${IMAGE}", False),
    ],
)
def test_mutable_tag_broke_users(image: str, moves: bool) -> None:
    """C64: a tag that moves, or none, is refused; versions, digests and variables are not."""
    text = f"services:\n  a:\n    image: {image}\n    shm_size: 1gb\n    stop_grace_period: 60s\n"
    assert moves == (("mutable-tag-broke-users", 3) in found("compose.yaml", text))


def test_mutable_tag_of_a_pod() -> None:
    """C64: in Kubernetes as well, whatever the workload is."""
    text = """
    apiVersion: apps/v1
    kind: Deployment
    spec:
      template:
        spec:
          containers:
            - name: vllm
              image: vllm/vllm-openai:nightly
    """
    assert ("mutable-tag-broke-users", 8) in found("pod.yaml", text)


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("Environment=URL=https://h.example/a%20b", "Environment=URL=https://h.example/a%%20b"),
        ("Environment=NOTE=50%off", "Environment=NOTE=50%%off"),
        (
            "ExecStartPre=/bin/sh -c 'free=1; test ${free} -gt 0'",
            "ExecStartPre=/bin/sh -c 'free=1; test $${free} -gt 0'",
        ),
        (r'ExecStartPre=/bin/echo "a\qb"', r'ExecStartPre=/bin/echo "a\\qb"'),
    ],
)
def test_systemd_escaping(line: str, fix: str) -> None:
    """C72: what systemd would change is found, and the corrected line is found good."""
    text = unit(f"{line}\nExecStart=/usr/bin/true")
    assert {("systemd-escaping", 5)} == found("a.service", text)
    assert fix in fixed("a.service", text).split("\n")
    assert set() == found("a.service", fixed("a.service", text))


@pytest.mark.parametrize(
    "line",
    [
        "ExecStartPre=/usr/bin/test $free -gt 80000",
        'ExecStartPre=/usr/bin/test "${free}" -gt 80000',
        "ExecStart=/usr/bin/vllm serve /m | tee /var/log/vllm.log",
        "ExecStart=/usr/bin/vllm serve /m && echo done",
        "ExecStart=/usr/bin/vllm serve $(cat /etc/model)",
    ],
)
def test_systemd_escaping_without_a_fix(line: str) -> None:
    """C72: `$free` of the story and shell operators need a decision, so nothing is changed."""
    text = unit(line)
    assert ("systemd-escaping", 5) in found("a.service", text)
    assert text == fixed("a.service", text)


@pytest.mark.parametrize(
    "lines",
    [
        "Environment=PORT=8000\nExecStart=/usr/bin/vllm serve /m --port ${PORT}",
        "EnvironmentFile=/etc/vllm.env\nExecStart=/usr/bin/vllm serve $MODEL",
        "ExecStart=/usr/bin/vllm serve /models/%i --name %n",
        "ExecStart=/usr/bin/vllm serve /m --format 100%%",
        "ExecStart=/bin/sh -c 'exec vllm serve /m > /var/log/vllm.log'",
        "ExecStartPre=/bin/sh -c 'free=3; test $free -gt 2'\nExecStart=/usr/bin/true",
        "ExecReload=/bin/kill -HUP $MAINPID\nExecStart=/usr/bin/true",
        r'ExecStart=/usr/bin/vllm serve /m --hf-overrides "{\"a\": 1}"',
    ],
)
def test_systemd_escaping_that_is_meant(lines: str) -> None:
    """Specifiers, variables the unit sets, and what a shell is given are no defects."""
    assert set() == found("a.service", unit(lines))


def test_start_timeout() -> None:
    """C73: a pull within systemd's 90 s, and a healthy quadlet with a longer start period."""
    text = unit(f"ExecStartPre=/usr/bin/docker pull {DIGEST}\nExecStart=/usr/bin/{run()}")
    assert {("start-timeout", 5)} == found("a.service", text)
    longer = text.replace("[Service]", "[Service]\nTimeoutStartSec=30min")
    assert set() == found("a.service", longer)
    short = text.replace("[Service]", "[Service]\nTimeoutStartSec=2min")
    assert {("start-timeout", 5)} == found("a.service", short)
    assert set() == found("a.service", fixed("a.service", short))
    quadlet = f"""
    [Container]
    Image={DIGEST}
    ShmSize=16g
    AddDevice=nvidia.com/gpu=all
    Notify=healthy
    HealthStartPeriod=15m
    """
    assert {("start-timeout", 5)} == found("a.container", quadlet)
    assert set() == found(
        "a.container", textwrap.dedent(quadlet) + "[Service]\nTimeoutStartSec=20min\n"
    )
    assert {("start-timeout", 8)} == found(
        "a.container", textwrap.dedent(quadlet) + "[Service]\nTimeoutStartSec=10min\n"
    )


def compose(extra: str) -> str:
    """Write a good compose service; `extra` lines begin on line 6."""
    lines = textwrap.indent(textwrap.dedent(extra).strip("\n"), "    ")
    return (
        f"services:\n  vllm:\n    image: {DIGEST}\n    shm_size: 16gb\n"
        f"    stop_grace_period: 60s\n{lines}\n"
    )


def test_health_start_period() -> None:
    """C74: a start period shorter than a load, and a probe that the image need not have."""
    short = compose("healthcheck:\n  test: [CMD, python3, -c, pass]\n  start_period: 60s\n")
    assert {("health-start-period", 8)} == found("compose.yaml", short)
    assert "start_period: 30m" in fixed("compose.yaml", short)
    assert set() == found("compose.yaml", fixed("compose.yaml", short))
    curl = compose("healthcheck:\n  test: [CMD, curl, -f, x]\n  start_period: 30m\n")
    assert {("health-start-period", 7)} == found("compose.yaml", curl)
    none = compose("healthcheck:\n  disable: true\n")
    assert set() == found("compose.yaml", none)
    docker = "FROM base@sha256:" + "1" * 64 + "\nRUN pip install vllm==1\nHEALTHCHECK CMD true\n"
    assert {("health-start-period", 3)} == found("Dockerfile", docker)


def test_health_start_period_of_a_pod() -> None:
    """C74: probes that give up before a model is loaded kill the pod for ever."""
    text = f"""
    kind: Pod
    spec:
      containers:
        - image: {DIGEST}
          volumeMounts: [{{name: shm, mountPath: /dev/shm}}]
          livenessProbe:
            httpGet: {{path: /health, port: 8000}}
            initialDelaySeconds: 60
      volumes: [{{name: shm, emptyDir: {{medium: Memory, sizeLimit: 16Gi}}}}]
    """
    assert {("health-start-period", 7)} == found("pod.yaml", text)
    patient = textwrap.dedent(text).replace("initialDelaySeconds: 60", "initialDelaySeconds: 900")
    assert set() == found("pod.yaml", patient)


@pytest.mark.parametrize(
    ("device", "line"),
    [
        ("{driver: nvidia, count: 1}", 10),
        ("{driver: nvidia, count: 1, device_ids: ['0'], capabilities: [gpu]}", 10),
        ("{driver: nvidia, device_ids: [0], capabilities: [gpu]}", 10),
        ("{driver: nvidia, device_ids: ['0', '1'], capabilities: [gpu]}", 0),
        ("{driver: nvidia, count: all, capabilities: [gpu]}", 0),
    ],
)
def test_compose_gpu_syntax(device: str, line: int) -> None:
    """C75: count and device_ids exclude each other, ids are strings, capabilities are needed."""
    text = compose(f"deploy:\n  resources:\n    reservations:\n      devices:\n        - {device}")
    assert ({("compose-gpu-syntax", line)} if line else set()) == found("compose.yaml", text)
    if "[0]" in device:
        assert set() == found("compose.yaml", fixed("compose.yaml", text))


def test_compose_gpu_in_the_wrong_place() -> None:
    """C75: `devices` outside of reservations is not read."""
    text = compose("deploy:\n  resources:\n    devices:\n      - {driver: nvidia}")
    assert "compose-gpu-syntax" in keys("compose.yaml", text)


@pytest.mark.parametrize(
    ("name", "prefix"), [("run.sh", "#!/bin/sh\n"), ("a.service", "")], ids=["script", "unit"]
)
def test_gpus_flag_quoting(name: str, prefix: str) -> None:
    """C76: a list of devices without quotes of its own, and the correction of each format."""
    line = run("--gpus device=0,1")
    text = prefix + (line if prefix else unit(f"ExecStart=/usr/bin/{line}"))
    assert {"gpus-flag-quoting"} == keys(name, text)
    assert """--gpus '"device=0,1"' """ in fixed(name, text)
    assert set() == keys(name, fixed(name, text))


@pytest.mark.parametrize(
    "gpus", ["all", "2", "device=0", "'\"device=0,1\"'", "'\"device=GPU-1,GPU-2\"'"]
)
def test_gpus_flag_that_is_right(gpus: str) -> None:
    """All, a count, one device, and a quoted list are read as they are meant."""
    assert set() == keys("run.sh", run(f"--gpus {gpus}"))


def test_cdi_vs_gpus() -> None:
    """C77: two ways of asking for a GPU in one container."""
    assert {"cdi-vs-gpus"} == keys("run.sh", run("--gpus all --device nvidia.com/gpu=all"))
    assert {"cdi-vs-gpus"} == keys("run.sh", run("--runtime nvidia --device nvidia.com/gpu=0"))
    assert set() == keys("run.sh", run("--device nvidia.com/gpu=all"))


def test_daemon_reload_loses_gpu() -> None:
    """C78: a script that reloads systemd beside a container of the older way."""
    reload = "systemctl daemon-reload\n"
    assert ("daemon-reload-loses-gpu", 2) in found("a.sh", run("--gpus all") + "\n" + reload)
    assert set() == found("a.sh", run("--device nvidia.com/gpu=all") + "\n" + reload)
    assert set() == found("a.sh", run("") + "\n" + reload)


def test_quadlet_gpu_selinux() -> None:
    """C79: a quadlet that gives no GPU is an error; without the label option it is a remark."""
    text = f"[Container]\nImage={DIGEST}\nShmSize=16g\n"
    assert {("quadlet-gpu-selinux", 2)} == found("a.container", text)
    given_one = text + "AddDevice=nvidia.com/gpu=all\n"
    assert set() == found("a.container", given_one)
    assert ["quadlet-gpu-selinux"] == [one.key for one in check("a.container", given_one)[1]]
    assert [] == check("a.container", given_one + "SecurityLabelDisable=true\n")[1]


@pytest.mark.parametrize(
    ("extra", "fix"),
    [
        ("environment:\n  PASS: a$1b", "PASS: a$$1b"),
        ("command: [sh, -c, 'free=1; echo $free']", "echo $$free']"),
        ("""command: '--hf-overrides {"a":1}'""", ""),
    ],
)
def test_compose_interpolation(extra: str, fix: str) -> None:
    """C80: a dollar sign that compose takes, and JSON in a command of one string."""
    text = compose(extra)
    assert {"compose-interpolation"} == keys("compose.yaml", text)
    if fix:
        assert fix in fixed("compose.yaml", text)
        assert set() == keys("compose.yaml", fixed("compose.yaml", text))


@pytest.mark.parametrize(
    "extra",
    [
        "command: [--model, '${MODEL:-/model}', --hf-overrides, '{\"a\": 1}']",
        "command: --model /model --port 8000",
        "environment:\n  PRICE: $$5",
        "command: [sh, -c, 'free=1; echo $$free']",
    ],
)
def test_compose_interpolation_that_is_meant(extra: str) -> None:
    """Variables of compose, doubled dollars and lists are right."""
    assert set() == found("compose.yaml", compose(extra))


def test_vram_settle_and_boot_race() -> None:
    """C81: a unit that restarts a GPU container and waits for nothing."""
    service = f"Restart=on-failure\nExecStart=/usr/bin/{run('--gpus all')}"
    assert {("vram-settle-and-boot-race", 6)} == found("a.service", unit(service))
    waits = "ExecStartPre=/usr/local/bin/wait-for-gpu GPU-1\n" + service
    assert set() == found("a.service", unit(waits))


@pytest.mark.parametrize(
    "service",
    [
        f"ExecStart=/usr/bin/{run('--restart always')}",
        f"ExecStart=/usr/bin/{run('-d')}",
        f"ExecStart=/usr/bin/docker run --shm-size 1g --name core {DIGEST} /m",
        f"ExecStart=/usr/bin/{run('--name core')}\nExecStop=/usr/bin/docker stop core",
        f"ExecStart=/usr/bin/{run('--name core')}\nExecStop=/usr/bin/docker kill core",
        f"ExecStart=/bin/sh -c 'sleep 1; {run()}'",
    ],
)
def test_stop_and_name_conflicts(service: str) -> None:
    """C82: two supervisors, a name that stays taken, a stop that is too hard, a shell in front."""
    assert {"stop-and-name-conflicts"} == keys("a.service", unit(service))


def test_stop_and_name_conflicts_of_the_whole_unit() -> None:
    """C82: restarts without a limit, and a unit that does not wait for the engine."""
    service = f"Restart=always\nExecStartPre=/bin/wait\nExecStart=/usr/bin/{run('--gpus all')}"
    text = unit(service, head="After=docker.service\nWants=docker.service")
    assert {("stop-and-name-conflicts", 5)} == found("a.service", text)
    text = unit(f"ExecStart=/usr/bin/{run()}", head="After=network.target\nStartLimitBurst=3")
    assert {("stop-and-name-conflicts", 5)} == found("a.service", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", run("-e VLLM_API_KEY=sk-1")),
        ("run.sh", run("-e HF_TOKEN=$HF_TOKEN")),
        ("run.sh", run(arguments="--model /m --api-key sk-1")),
        ("run.sh", run(arguments="--model /m --api-key=sk-1")),
        ("compose.yaml", compose("environment:\n  HF_TOKEN: hf_abc")),
        ("compose.yaml", compose("environment: [VLLM_API_KEY=sk-1]")),
        (
            "a.service",
            unit(f"EnvironmentFile=/x\nExecStart=/usr/bin/{run('-e HF_TOKEN=${HF_TOKEN}')}"),
        ),
    ],
)
def test_secrets_in_argv(name: str, text: str) -> None:
    """C83: keys in arguments, in the file, or expanded into either."""
    assert {"secrets-in-argv"} == keys(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", run("-e VLLM_API_KEY --env-file /etc/vllm.env")),
        ("run.sh", run("-e TOKENIZERS_PARALLELISM=false -e MAX_TOKENS=3")),
        ("compose.yaml", compose("environment:\n  HF_TOKEN: ${HF_TOKEN}")),
        ("compose.yaml", compose("env_file: [secrets.env]")),
    ],
)
def test_secrets_by_reference(name: str, text: str) -> None:
    """Names without a value and files are how secrets are given."""
    assert set() == keys(name, text)


def test_port_published_to_all() -> None:
    """A port without an address is open past the firewall; with one it is not."""
    assert {"port-published-to-all"} == keys("run.sh", run("-p 8000:8000"))
    assert set() == keys("run.sh", run("-p 127.0.0.1:8000:8000"))
    assert {"port-published-to-all"} == keys("compose.yaml", compose('ports: ["8000:8000"]'))


def test_shm_too_small() -> None:
    """C41: no size, or Docker's default; a shared ipc has its host's."""
    bare = f"docker run --rm {DIGEST} /m"
    assert {"shm-too-small"} == keys("run.sh", bare)
    assert {"shm-too-small"} == keys("run.sh", bare.replace("--rm", "--rm --shm-size=64m"))
    assert set() == keys("run.sh", bare.replace("--rm", "--rm --ipc=host"))
    assert set() == keys("run.sh", bare.replace("--rm", "--rm --shm-size=1073741824"))


def test_entrypoint_form() -> None:
    """C51: `serve` given to an image whose entrypoint is `vllm serve`."""
    assert {"entrypoint-form"} == keys("run.sh", run(arguments="serve /m"))
    assert {"entrypoint-form"} == keys("run.sh", run(arguments="vllm serve /m"))
    assert set() == keys("run.sh", run("--entrypoint bash", arguments="serve /m"))


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("NVIDIA_DISABLE_REQUIRE=1", {"driver-too-old"}),
        ("NVIDIA_DISABLE_REQUIRE=false", set()),
        ("NVIDIA_DISABLE_REQUIRES=1", {"driver-too-old"}),
    ],
)
def test_driver_too_old_is_let_in(variable: str, found: set[str]) -> None:
    """C34: the container toolkit's check is switched off; the variable's two spellings."""
    assert found == keys("run.sh", run(f"-e {variable}"))


def test_version_check_bypassed() -> None:
    """C04: the variable that switches FlashInfer's check off, wherever it is set."""
    variable = "FLASHINFER_DISABLE_VERSION_CHECK=1"
    assert {"version-check-bypassed"} == keys("run.sh", run(f"-e {variable}"))
    assert {"version-check-bypassed"} == keys("Dockerfile", f"FROM scratch\nENV {variable}\n")


BASE = "FROM nvidia/cuda:13.0.1-devel-ubuntu24.04@sha256:" + "2" * 64


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("wrong-nvcc", "RUN apt-get install -y nvidia-cuda-toolkit"),
        ("cuda-compat-803", "RUN apt-get install -y cuda-compat-13-0"),
        ("cuda-compat-803", "ENV LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH"),
        (
            "cuda-compat-803",
            "RUN echo /usr/local/cuda/compat > /etc/ld.so.conf.d/00.conf && ldconfig",
        ),
        ("apt-drift", "RUN apt-get install -y libnccl2=2.28.9-1"),
        ("cubin-download-in-build", "RUN python3 -m flashinfer download-cubin"),
        ("layer-duplication", "RUN pip install vllm==1\nRUN chown -R 1000 /opt/venv"),
        ("layer-duplication", "RUN pip install vllm==1\nRUN pip install -U vllm==2"),
        ("wrong-cuda-soname", "RUN pip install nvidia-nccl-cu12==2.28"),
        ("source-build-resources", "WORKDIR /vllm\nRUN cd /src/vllm && pip install -e ."),
        (
            "index-shadowing",
            "RUN pip install vllm --extra-index-url https://wheels.vllm.ai/nightly",
        ),
        ("index-shadowing", "RUN uv pip install vllm --index-strategy unsafe-best-match"),
        ("torch-backend-auto", "RUN uv pip install vllm --torch-backend=auto"),
        ("secret-in-layer", "ENV HF_TOKEN=hf_abc"),
        ("stop-and-name-conflicts", "ENTRYPOINT python3 -m vllm.entrypoints.openai.api_server"),
    ],
)
def test_defects_of_a_dockerfile(key: str, lines: str) -> None:
    """Kind 2: each is found on the line where it stands, and alone."""
    last = 1 + len(lines.split("\n"))
    assert {(key, last)} == found("Dockerfile", f"{BASE}\n{lines}\n")


def test_no_c_compiler_at_runtime() -> None:
    """C25: a runtime base without gcc cannot launch a Triton kernel."""
    text = BASE.replace("devel", "runtime") + "\nRUN pip install vllm==1\n"
    assert {("no-c-compiler-at-runtime", 1)} == found("Dockerfile", text)
    assert set() == found("Dockerfile", text + "RUN apt-get install -y gcc\n")


def test_base_tag_removed() -> None:
    """C28: a base by tag alone; a stage of the same file is no base."""
    text = "FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS one\nFROM one\n"
    assert {("base-tag-removed", 1)} == found("Dockerfile", text)


def test_lines_of_continued_instructions() -> None:
    """A defect inside a long RUN is found on its own line, comments and options notwithstanding."""
    text = f"""
    {BASE}
    RUN --mount=type=cache,target=/root/.cache \\
        # comment
        apt-get update && \\
        apt-get install -y \\
          gcc \\
          cuda-compat-13-0
    """
    assert {("cuda-compat-803", 7)} == found("Dockerfile", text)


def test_lines_of_continued_units() -> None:
    """A defect in a continued ExecStart is found on its own line."""
    text = unit(
        f"ExecStart=/usr/bin/docker run --rm --shm-size 1g \\\n  -p 8000:8000 \\\n  {DIGEST} /m"
    )
    assert {("port-published-to-all", 6)} == found("a.service", text)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("x", "[Service]\nExecStart=/bin/true", "systemd"),
        ("x", "[Unit]\n[Container]\nImage=a", "quadlet"),
        ("x.yml", "services:\n  a: {}\n", "compose"),
        ("x.yml", "apiVersion: v1\nkind: Pod\n", "kubernetes"),
        ("Dockerfile.cuda", "ARG X\n", "dockerfile"),
        ("x", "# syntax\nARG A=1\nFROM a\n", "dockerfile"),
        ("x", "#!/usr/bin/env bash\n", "shell"),
        ("notes.md", "Try `docker run x`.", "shell"),
        ("x.yml", "a: 1\n", None),
        ("setup.py", "import os\n", None),
        ("dockerfile.py", "from os import path\n", None),
        ("Dockerfile.j2", "{% block a %}\n", None),
    ],
)
def test_the_format_is_recognised(name: str, text: str, form: str | None) -> None:
    """By name where it is plain, else by content."""
    assert form == recognise(name, text)


def test_what_is_no_run_file_is_refused() -> None:
    """Bad YAML names its line; an unknown file names the option."""
    with pytest.raises(BadInput, match="not YAML") as caught:
        check("c.yaml", "services:\n  a: [\n")
    assert "c.yaml:3" == caught.value.subject
    with pytest.raises(BadInput, match="neither a unit"):
        check("setup.py", "import os\n")


@given(
    st.sampled_from(["a.service", "a.container", "compose.yaml", "pod.yaml", "Dockerfile", "a.sh"]),
    st.text(alphabet="ab=:-'\"\\$%{}[]()|&<>\n \tRUNFOMECHSTdocker/", max_size=200),
)
def test_odd_text_is_read_or_refused(name: str, text: str) -> None:
    """Whatever stands in a file: problems or BadInput, with lines that exist."""
    heads = {
        "a.service": "[Service]\nExecStart=docker run ",
        "a.container": "[Container]\n",
        "compose.yaml": "services:\n  a:\n    command: ",
        "pod.yaml": "kind: Pod\nspec: ",
        "Dockerfile": "FROM a\n",
        "a.sh": "docker run ",
    }
    whole = heads[name] + text
    try:
        _, problems = check(name, whole)
    except BadInput:
        return
    count = len(whole.split("\n"))
    assert [] == [one for one in problems if not 0 < one.line <= count]
    again = applied(whole, problems)
    assert count == len(again.split("\n"))
