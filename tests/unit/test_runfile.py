"""Run files: the five formats of one profile say the same, byte for byte, and nothing is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from builder.core.lint.check import check
from builder.core.lint.commandline import run_command, shell_words
from builder.core.lint.compose_rules import read_service
from builder.core.lint.container import Container, size_in_mib
from builder.core.lint.kubernetes_rules import pods, read_container
from builder.core.lint.quadlet_rules import read_quadlet
from builder.core.lint.unit import entries
from builder.core.lint.yamlfile import documents
from builder.core.profile import HostProfile, parse_host, parse_profile
from builder.core.runfile.pins import find_pins, moved
from builder.core.runfile.spec import FORMS, Form, Gpus, RunSpec, Volume, describe
from builder.core.runfile.write import write
from builder.errors import BadInput

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "0" * 64
IMAGE = f"registry.example:5000/team/vllm@{DIGEST}"
NASTY = (
    "$free",
    "${HOME} $$ $(id)",
    "50%off %i %%",
    '{"a": "b c", "d": [1, 2]}',
    'it\'s "quoted" \\ and\ttabbed',
    "",
    ";",
    "#not-a-comment",
    "two\nlines",
    "-",
    "ünïcode 日本",
    "yes",
    "1e3",
    "a && b | c > d `e`",
)


def spec(**changes: object) -> RunSpec:
    """Describe a deployment with everything in it."""
    whole = RunSpec(
        name="vllm-test",
        image=IMAGE,
        tag="stable",
        profile="test",
        arguments=("/model", "--tensor-parallel-size=2", "--served-model-name=m"),
        environment=(("NCCL_PROTO", "LL"), ("VLLM_ENGINE_READY_TIMEOUT_S", "900")),
        secrets="/etc/vllm/secrets.env",
        gpus=Gpus(count=2),
        shm_mib=16384,
        volumes=(
            Volume(source="/models/m", target="/model", read_only=True),
            Volume(source="vllm-test-cache", target="/cache"),
        ),
        startup=900,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def expanded(text: str) -> str:
    """Do to a word what systemd does before it starts a program."""
    return text.replace("%%", "%").replace("$$", "$")


def read_back(text: str, form: Form) -> Container:
    """Read a file as its program would, by the readers of `lint`."""
    if form == "docker":
        found = [run_command(row, "shell") for row in shell_words(text, 1)]
        return next(one for one in found if one is not None)
    if form == "systemd":
        row = next(one for one in entries(text) if one.key == "ExecStart").words()
        one = run_command([replace(word, text=expanded(word.text)) for word in row], "systemd")
        assert one is not None
        return one
    if form == "quadlet":
        box = read_quadlet(entries(text))
        assert box is not None
        box.arguments = [replace(word, text=expanded(word.text)) for word in box.arguments]
        box.environment = [replace(word, text=expanded(word.text)) for word in box.environment]
        return box
    # Compose and Kubernetes take YAML's value and then turn `$$` into `$`.
    roots = documents(text)
    if form == "compose":
        box = read_service(roots[0].get("services", "vllm"))
    else:
        pod = next(pod for root in roots for pod in pods(root))
        box = read_container(pod.get("containers").list()[0], pod)
    box.arguments = [replace(word, text=word.text.replace("$$", "$")) for word in box.arguments]
    box.environment = [replace(word, text=word.text.replace("$$", "$")) for word in box.environment]
    return box


@pytest.mark.parametrize("form", FORMS)
def test_the_five_formats_say_the_same(form: Form) -> None:
    """Image, arguments, variables, shared memory, port: read back from each, equal to the spec."""
    nasty = [text for text in NASTY if text not in ("", ";") or form != "quadlet"]
    one = spec(arguments=(*spec().arguments, *nasty), environment=(("A", 'b "c" $d %e'),))
    box = read_back(write(one, form), form)
    assert box.image is not None
    assert IMAGE == box.image.text
    assert list(one.arguments) == [word.text for word in box.arguments]
    assert {'A=b "c" $d %e'} == {word.text for word in box.environment}
    assert box.shm is not None
    assert 16384 == size_in_mib(box.shm.text)
    assert box.wants_gpu
    if form != "kubernetes":
        assert ["127.0.0.1:8000:8000"] == [word.text for word in box.ports]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20), max_size=4
    )
)
def test_systemd_escaping_of_any_argument(arguments: list[str]) -> None:
    """C72: whatever an argument holds, systemd's rules give it back; `$free` is one of them."""
    one = spec(arguments=("/model", *arguments))
    refused = not {"", ";"}.isdisjoint(arguments)
    if refused:
        with pytest.raises(BadInput, match="cannot hold the argument"):
            write(one, "quadlet")
    for form in ("systemd", *(() if refused else ("quadlet",))):
        box = read_back(write(one, form), form)
        assert ["/model", *arguments] == [word.text for word in box.arguments]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0\x85", codec="utf-8"), max_size=20),
        max_size=4,
    )
)
def test_compose_interpolation_of_any_argument(arguments: list[str]) -> None:
    """C80: list items and doubled dollars give every argument back, in Kubernetes as well."""
    one = spec(arguments=("/model", *arguments))
    content = yaml.safe_load(write(one, "compose"))
    given_ = [text.replace("$$", "$") for text in content["services"]["vllm"]["command"]]
    assert ["/model", *arguments] == given_
    pod = list(yaml.safe_load_all(write(one, "kubernetes")))[1]["spec"]["template"]["spec"]
    assert ["/model", *arguments] == [
        text.replace("$$", "$") for text in pod["containers"][0]["args"]
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "gpus",
    [Gpus(), Gpus(count=2), Gpus(count=2, cdi=True), Gpus(count=2, chosen=("GPU-a", "GPU-b"))],
    ids=["none", "count", "cdi", "uuids"],
)
def test_lint_finds_nothing_in_our_own_files(form: Form, gpus: Gpus) -> None:
    """What we write is what we ask of others."""
    if form == "kubernetes" and gpus.chosen:
        with pytest.raises(BadInput, match="does not let a pod choose"):
            write(spec(gpus=gpus), form)
        return
    known, problems = check("file", write(spec(gpus=gpus), form))
    assert form == ("docker" if known == "shell" else known)
    expected = {"quadlet-gpu-selinux"} if form == "quadlet" and not gpus.count else set()
    assert expected == {one.key for one in problems}


def test_gpus_are_spelled_in_each_format() -> None:
    """C75 to C77, C79: a list keeps its quotes, CDI names are whole, podman has nothing but CDI."""
    two = spec(gpus=Gpus(count=2, chosen=("GPU-a", "GPU-b")))
    assert """--gpus '"device=GPU-a,GPU-b"'""" in write(two, "docker")
    assert r'--gpus "\"device=GPU-a,GPU-b\""' in write(two, "systemd")
    assert "AddDevice=nvidia.com/gpu=GPU-a\nAddDevice=nvidia.com/gpu=GPU-b\n" in write(
        two, "quadlet"
    )
    device = yaml.safe_load(write(two, "compose"))["services"]["vllm"]["deploy"]["resources"]
    assert [{"driver": "nvidia", "device_ids": ["GPU-a", "GPU-b"], "capabilities": ["gpu"]}] == (
        device["reservations"]["devices"]
    )
    cdi = spec(gpus=Gpus(count=2, cdi=True))
    assert "--device nvidia.com/gpu=0 \\\n  --device nvidia.com/gpu=1" in write(cdi, "docker")


def test_start_timeout_follows_from_one_number() -> None:
    """C44, C73, C74: engine, health check and unit wait for one load, each a little longer."""
    one = spec(startup=1800, environment=(("VLLM_ENGINE_READY_TIMEOUT_S", "1800"),))
    quadlet = {row.key: row.value for row in entries(write(one, "quadlet"))}
    assert ("1800s", "1920") == (quadlet["HealthStartPeriod"], quadlet["TimeoutStartSec"])
    assert "--health-start-period 1800s" in write(one, "docker")
    compose = yaml.safe_load(write(one, "compose"))["services"]["vllm"]
    assert "1800s" == compose["healthcheck"]["start_period"]
    pod = list(yaml.safe_load_all(write(one, "kubernetes")))[1]["spec"]["template"]["spec"]
    probe = pod["containers"][0]["startupProbe"]
    assert 1800 == probe["periodSeconds"] * probe["failureThreshold"]


def test_secrets_are_never_in_a_run_file() -> None:
    """C83: a file or a Secret is named; its content has no way in."""
    for form in FORMS:
        text = write(spec(), form)
        assert "/etc/vllm/secrets.env" in text
        assert "API_KEY" not in text


PROFILES = sorted(path.stem for path in (ROOT / "images" / "profiles").glob("*.toml"))
HOSTS = sorted(path.stem for path in (ROOT / "images" / "profiles" / "hosts").glob("*.toml"))


def host(name: str) -> HostProfile:
    """Read one of the project's host profiles."""
    path = ROOT / "images" / "profiles" / "hosts" / f"{name}.toml"
    return parse_host(path.read_text(), str(path))


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("form", FORMS)
def test_every_profile_of_the_project_can_be_run(name: str, form: Form) -> None:
    """Each profile with each host profile gives a file in which lint finds nothing."""
    path = ROOT / "images" / "profiles" / f"{name}.toml"
    profile = parse_profile(path.read_text(), str(path))
    for hosts in ([], *([host(one)] for one in HOSTS)):
        one = describe(
            profile,
            name=f"vllm-{name}",
            profile_name=name,
            image=IMAGE,
            tag="stable",
            hosts=hosts,
            model="/models/m",
        )
        text = write(one, form)
        problems = check("file", text)[1]
        no_gpu = {"quadlet-gpu-selinux"} if form == "quadlet" and not profile.run.gpus else set()
        assert no_gpu == {row.key for row in problems}
        assert all(reason in text for reason in one.reasons)


def test_nccl_p2p_hang_needs_both_switches() -> None:
    """C42: the host profile sets NCCL's switch and vLLM's."""
    off = host("p2p-off")
    assert {"NCCL_P2P_DISABLE": "1"} == off.environment
    assert ["--disable-custom-all-reduce"] == off.arguments


def test_profiles_that_disagree_are_refused() -> None:
    """A variable is never set to the last one's value in silence."""
    text = (
        'kind = "cpu"\n[server.environment]\nNCCL_PROTO = "LL"\n[[check]]\nname = "a"\n'
        'request = "get"\npath = "/v1/models"\nexpect = { models = true }\n'
    )
    profile = parse_profile(text, "p.toml")
    other = HostProfile(description="h", reason="r", environment={"NCCL_PROTO": "Simple"})
    with pytest.raises(BadInput, match="two profiles set NCCL_PROTO: 'LL' and 'Simple'"):
        describe(
            profile, name="n", profile_name="p", image=IMAGE, tag="", hosts=[other], model="/m"
        )
    with pytest.raises(BadInput, match="no folder of the model"):
        describe(profile, name="n", profile_name="p", image=IMAGE, tag="")


def test_an_argument_with_nul_is_refused() -> None:
    """No program can be given one."""
    with pytest.raises(BadInput, match="cannot hold NUL"):
        write(spec(arguments=("a\0b",)), "systemd")


@pytest.mark.parametrize("form", FORMS)
def test_a_digest_moves_and_nothing_else(form: Form) -> None:
    """Every place of the digest is found with its tag; the rest of the file stays."""
    text = write(spec(), form)
    (pin,) = find_pins(text)
    assert ("registry.example:5000/team/vllm", "stable", DIGEST) == (pin.name, pin.tag, pin.digest)
    new = "sha256:" + "1" * 64
    after = moved(text, pin, new)
    assert text.replace(DIGEST, new) == after
    assert new in after
    assert DIGEST not in after


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (f"image: a.example/b@{DIGEST}  # nightly\n", "nightly"),
        (f'image: "a.example/b@{DIGEST}"  # nightly\n', "nightly"),
        (f"image: a.example/b:v1@{DIGEST}\n", "v1"),
        (f"image: a.example/b@{DIGEST}\n", ""),
        (f"# image a.example/b:stable\nFROM a.example/b@{DIGEST}\n", "stable"),
        (f"# image a.example/other:stable\nFROM a.example/b@{DIGEST}\n", ""),
    ],
)
def test_the_tag_a_pin_follows(text: str, tag: str) -> None:
    """A comment behind it, `name:tag@digest`, or the head of the file; never a guess."""
    (pin,) = find_pins(text)
    assert ("a.example/b", tag) == (pin.name, pin.tag)
