"""What the resolver is given, and how its answers are read."""

from __future__ import annotations

import tomllib

import pytest

from builder.core.resolve import (
    OUTPUT,
    Question,
    explain,
    parse_pylock,
    placeholder,
    unnamed,
    unreachable_url,
)
from builder.core.simple import Candidate
from builder.core.wheel_target import WheelTarget
from builder.errors import Refused
from tests.support.small_lock import pin

TARGET = WheelTarget(python="3.11", glibc="2.36", machine="x86_64")
URL = "https://example.org/files/a-1-py3-none-any.whl"


def test_bound_packages_have_an_explicit_index_of_their_own() -> None:
    """index-shadowing: nothing else can come from there."""
    question = Question(
        target=TARGET, requirements=("vllm==1", "torch"), pages={"torch": "file:///snapshot"}
    )
    project = tomllib.loads(question.files()["pyproject.toml"])
    assert ["vllm==1", "torch"] == project["project"]["dependencies"]
    assert "==3.11.*" == project["project"]["requires-python"]
    uv = project["tool"]["uv"]
    assert {"torch": {"index": "of-torch"}} == uv["sources"]
    assert [{"name": "of-torch", "url": "file:///snapshot", "explicit": True}] == uv["index"]


def test_constraints_overrides_and_preferences_are_files() -> None:
    """One line each; the earlier lock as an earlier output, sorted."""
    question = Question(
        target=TARGET,
        requirements=("vllm",),
        constraints=("a<2",),
        overrides=("b; sys_platform == 'never'",),
        pages={},
        preferences=(pin("idna", "3.10", 1), pin("click", "8.1.8", 1)),
    )
    files = question.files()
    assert ("a<2\n", "b; sys_platform == 'never'\n") == (
        files["constraints.txt"],
        files["overrides.txt"],
    )
    assert [
        {"name": "click", "version": "8.1.8"},
        {"name": "idna", "version": "3.10"},
    ] == tomllib.loads(files[OUTPUT])["packages"]


def test_a_pylock_is_read() -> None:
    """Every wheel of a package, with hash and size where there is one."""
    text = f"""
lock-version = "1.0"
[[packages]]
name = "A.b"
version = "1"
wheels = [
  {{ url = "{URL}", size = 17, hashes = {{ sha256 = "{"a" * 64}" }} }},
  {{ url = "file:///x/a-1-cp311-cp311-linux_x86_64.whl", hashes = {{ sha256 = "{"b" * 64}" }} }},
]
"""
    (package,) = parse_pylock(text, "general")
    assert ("a-b", "1") == (package.name, package.version)
    assert [("a-1-py3-none-any.whl", 17), ("a-1-cp311-cp311-linux_x86_64.whl", None)] == [
        (wheel.file, wheel.size) for wheel in package.wheels
    ]


def test_a_package_without_wheels_is_refused() -> None:
    """Only wheels are locked."""
    text = (
        '[[packages]]\nname = "a"\nversion = "1"\nsdist = { url = "https://example.org/a.tgz" }\n'
    )
    with pytest.raises(Refused, match="a has no wheel for the target"):
        parse_pylock(text, "general")


def test_bound_packages_that_nobody_names_are_found() -> None:
    """By any spelling."""
    assert {"triton"} == unnamed(["vllm==1", "Torch[x]>2; os_name == 'posix'"], ["torch", "triton"])


def test_a_placeholder_depends_on_the_file_alone() -> None:
    """Where it lies today must not move the resolver's cache or answer."""
    one, two = (
        Candidate(file="a-1-py3-none-any.whl", url=url, place="x") for url in (URL, "file:///y")
    )
    assert placeholder(one) == placeholder(two)
    assert 64 == len(placeholder(one))


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (
            (
                "error: No solution found when resolving dependencies\n"
                "  cause: Because there is no version of numpy==99 and nightlock-image depends on "
                "numpy==99, we can conclude that your requirements are unsatisfiable."
            ),
            (
                "the requirements cannot be met: Because there is no version of numpy==99 and the "
                "image depends on numpy==99."
            ),
        ),
        (
            (
                "error: No solution found when resolving dependencies\n"
                "  cause: Because all versions of x have no usable wheels and nightlock-image "
                "depends on x, we can conclude that your requirements are unsatisfiable.\n\n"
                "hint: Wheels are required for `x` because building from source is disabled"
            ),
            (
                "no wheel fits the target: Because all versions of x have no usable wheels and the "
                "image depends on x. Wheels are required for `x` because building from source is "
                "disabled"
            ),
        ),
    ],
)
def test_the_resolvers_explanation_is_in_our_words(said: str, what: str) -> None:
    """Without its marks and without the sentence that says nothing."""
    error = explain(said, "general at https://example.org", "https://example.org")
    assert error is not None
    assert what == error.what


def test_other_words_are_left_to_others() -> None:
    """A crash of the resolver is no statement about requirements; a network error has a URL."""
    assert explain("thread 'main' panicked", "general", "") is None
    said = "error: Failed to fetch: `https://u:p@example.org/simple/a/`\n cause: dns error"
    assert explain(said, "general", "") is None
    assert "https://example.org/simple/a/" == unreachable_url(said)
    assert "" == unreachable_url("thread 'main' panicked")
