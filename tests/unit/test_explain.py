"""`nightlock explain`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.commands import explain
from builder.commands.context import Context
from builder.core.keys import KEYS
from builder.core.places import Places
from builder.core.settings import Settings
from builder.errors import BadInput
from builder.output import Output


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Make a run that touches nothing."""
    return Context(
        project=tmp_path,
        places=Places.from_environment({"HOME": str(tmp_path)}),
        settings=Settings(),
        output=Output(),
    )


def test_a_key_is_explained_to_a_person(context: Context) -> None:
    """What it means, what to do, where it was seen."""
    outcome = explain.run(context, "flashinfer-trio-mismatch")
    row = KEYS["flashinfer-trio-mismatch"]
    flat = re.sub(r"\s+", " ", outcome.text)
    assert outcome.ok
    assert outcome.text.startswith("flashinfer-trio-mismatch (error)\n")
    for text in (row.title, row.cause, row.action, "field case C01"):
        assert text in flat
    assert "https://github.com/vllm-project/vllm/issues/49804" in outcome.text
    assert 92 >= max(len(line) for line in outcome.text.splitlines())


def test_the_document_has_every_field(context: Context) -> None:
    """The same for programs."""
    result = explain.run(context, "C35").result
    assert "cuda-compat-803" == result.key
    assert ("boot", "error", "C35") == (result.kind, result.severity, result.case)
    assert "https://github.com/vllm-project/vllm/issues/33992" == result.reports[0]


def test_a_key_without_reports_has_no_such_part(context: Context) -> None:
    """Nothing is promised that is not there."""
    assert "Where it was seen" not in explain.run(context, "file-stray").text


@pytest.mark.parametrize("key", KEYS)
def test_every_key_can_be_explained(context: Context, key: str) -> None:
    """No row breaks the text."""
    assert key == explain.run(context, key).result.key


def test_an_unknown_key_names_those_that_are_close(context: Context) -> None:
    """Exit code 2, and what was probably meant."""
    with pytest.raises(BadInput) as caught:
        explain.run(context, "cuda-toolchain-mix")
    assert "cuda-toolchain-mix" == caught.value.subject
    assert "cuda-toolchain-mixed" in caught.value.action


@pytest.mark.parametrize("nothing", ["", " "])
def test_without_a_key_all_are_listed(context: Context, nothing: str) -> None:
    """Each with its title, below the part of the chain where it is met."""
    outcome = explain.run(context, nothing)
    assert outcome.ok
    assert {row.key: row.title for row in KEYS.values()} == {
        row.key: row.title for row in outcome.result.keys
    }
    lines = [line.split(maxsplit=1) for line in outcome.text.splitlines() if line[:2] == "  "]
    assert [[row.key, row.title] for row in outcome.result.keys] == lines
    heads = [line for line in outcome.text.splitlines() if line.endswith(":")]
    assert len(set(heads)) == len(heads)


def test_nonsense_is_told_where_the_list_is(context: Context) -> None:
    """Nothing is close to it."""
    with pytest.raises(BadInput) as caught:
        explain.run(context, "zzzzzzzzzz")
    assert "without a key" in caught.value.action
