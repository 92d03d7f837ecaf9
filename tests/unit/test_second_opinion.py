"""The second opinion as data: what is asked, what came back, where the two differ."""

from __future__ import annotations

import io
import shlex
import zipfile

import pytest
from packaging.metadata import parse_email
from packaging.utils import parse_wheel_filename

from builder.core.second_opinion import (
    TOOLS,
    Ask,
    Method,
    answer,
    ask,
    compare,
    conflict,
    is_conflict,
)
from tests.support.locked import locked_platform, locked_wheel

TORCH = locked_wheel(
    "torch",
    "2.13.0+cpu",
    index="pytorch-cpu",
    file="torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
)
VLLM = locked_wheel(
    "vllm",
    "0.33.0",
    requires=["torch==2.13.0", "torchaudio==2.13.0; extra == 'fast'", "numpy"],
    file="vllm-0.33.0-1-cp38-abi3-manylinux_2_28_x86_64.whl",
)
NUMPY = locked_wheel("numpy", "2.0.0")
LOCKED = locked_platform(
    TORCH,
    VLLM,
    NUMPY,
    requirements=["vllm==0.33.0", "torchaudio"],
    constraints=["numpy<3"],
    overrides=["setuptools>80"],
)
OVERRIDES = ["torchaudio; sys_platform == 'never'"]


def asked(method: Method = "pip-tools", *, seeded: bool = True) -> Ask:
    """Ask about the three."""
    return ask(
        method,
        LOCKED,
        OVERRIDES,
        index="https://index.example/simple",
        environment={"HTTPS_PROXY": "http://robot:s3cret@proxy.example", "HOME": "/x y"},
        seeded=seeded,
    )


def lines(question: Ask, name: str) -> list[str]:
    """Lines of one file."""
    return question.files[name].decode().splitlines()


def stubs(question: Ask) -> dict[str, bytes]:
    """File name → bytes of the wheels that are made up."""
    return {
        name.removeprefix("wheels/"): data
        for name, data in question.files.items()
        if name.endswith(".whl")
    }


def test_the_pair_is_pinned_to_its_bytes() -> None:
    """Pip-tools works with this pip and hardly any other."""
    pins = {pin.name: pin for pin in TOOLS}
    assert ("26.3", "7.6.2") == (pins["pip"].version, pins["pip-tools"].version)
    assert all(64 == len(pin.sha256) for pin in TOOLS)


def test_the_questions_of_both() -> None:
    """Pip-tools has the lock as its earlier output; pip, which keeps nothing, as constraints."""
    seeds = ["numpy==2.0.0", "torch==2.13.0+cpu", "vllm==0.33.0"]
    tools = asked()
    assert seeds == lines(tools, "locked.txt")
    assert ["numpy<3", "torch==2.13.0+cpu"] == lines(tools, "constraints.txt")
    lock = asked("pip-lock")
    assert seeds == sorted(lines(lock, "constraints.txt")[1:])
    assert "locked.txt" not in lock.files
    bare = asked("pip-lock", seeded=False)
    assert ["numpy<3", "torch==2.13.0+cpu"] == lines(bare, "constraints.txt")


def test_overrides_are_laid_over_what_is_asked_and_over_metadata() -> None:
    """An override takes the place of a requirement; an extra's gate stays."""
    question = asked()
    assert ["vllm==0.33.0", 'torchaudio ; (sys_platform == "never")'] == lines(question, "asked.in")
    name = "vllm-0.33.0-99999nightlock-cp38-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(io.BytesIO(stubs(question)[name])) as archive:
        raw, rest = parse_email(archive.read("vllm-0.33.0.dist-info/METADATA"))
    assert {} == rest
    assert [
        "torch==2.13.0",
        "torchaudio ; (sys_platform == \"never\") and extra == 'fast'",
        "numpy",
    ] == raw["requires_dist"]
    assert ("vllm", "0.33.0", ">=3.9", ["fast"]) == (
        raw["name"],
        raw["version"],
        raw["requires_python"],
        raw["provides_extra"],
    )


def test_only_what_an_index_cannot_say_is_made_up() -> None:
    """Bound packages and those with overridden requirements, under names installers prefer."""
    names = sorted(stubs(asked()))
    assert ["torch", "vllm"] == [parse_wheel_filename(name)[0] for name in names]
    builds = [parse_wheel_filename(name)[2] for name in names]
    assert [(99999, "nightlock")] * 2 == builds
    assert parse_wheel_filename(TORCH.pin.file)[3] == parse_wheel_filename(names[0])[3]


def test_the_resolver_sees_what_we_say_and_nothing_else() -> None:
    """An empty environment with ours in it; words with spaces stay words."""
    (text,) = lines(asked(), "ask.sh")
    words = shlex.split(text)
    assert ["cd", "/nightlock", "&&", "exec", "env", "-i"] == words[:6]
    assert "HOME=/x y" in words
    assert "https://index.example/simple" == words[words.index("--index-url") + 1]


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (
            "pip-tools",
            "click==8.1.8\nTyping_Extensions==4.12.2  # via x\n# six==1\n--no-binary x\n",
        ),
        (
            "pip-lock",
            (
                'lock-version = "1.0"\n[[packages]]\nname = "click"\nversion = "8.1.8"\n'
                '[[packages]]\nname = "typing-extensions"\nversion = "4.12.2"\n'
            ),
        ),
    ],
)
def test_both_answers_are_read(method: Method, text: str) -> None:
    """Names are normalised."""
    assert {"click": "8.1.8", "typing-extensions": "4.12.2"} == answer(method, text)


def test_every_package_that_differs_is_named() -> None:
    """Another version, one too few, one too many; what agrees is silent."""
    pins = [locked_wheel(name, "1").pin for name in ("a", "b", "c")]
    rows = compare(pins, {"a": "1", "b": "2", "d": "4"}, method="pip-tools", platform="linux/amd64")
    assert [
        ("b (linux/amd64)", "uv locked 1, pip-tools took 2"),
        ("c (linux/amd64)", "uv locked 1, pip-tools has no use for it"),
        ("d (linux/amd64)", "pip-tools wants 4, the lock does not have it"),
    ] == [(row.subject, row.evidence) for row in rows]
    assert {("second-opinion-differs", "error")} == {(row.key, row.severity) for row in rows}


SAID = """\
Collecting x
ERROR: Cannot install torch because these package versions have conflicting dependencies.

The conflict is caused by:
    jinja2 3.1.6 depends on MarkupSafe>=2.0
    The user requested (constraint) markupsafe==2.0.1

To fix this you could try to:
1. loosen the range
ERROR: ResolutionImpossible: for help visit https://pip.example
"""


def test_a_conflict_is_told_from_a_network_that_is_down() -> None:
    """The first is an answer, the second is to be tried again."""
    assert is_conflict(SAID)
    assert not is_conflict("ERROR: Could not install packages due to an OSError: timed out")
    assert (
        "pip-lock cannot install what was locked: jinja2 3.1.6 depends on MarkupSafe>=2.0; "
        "The user requested (constraint) markupsafe==2.0.1"
        == conflict(SAID, method="pip-lock", platform="linux/amd64").evidence
    )
    short = conflict("ERROR: No matching distribution found for x", method="pip-lock", platform="p")
    assert short.evidence.endswith("ERROR: No matching distribution found for x")
