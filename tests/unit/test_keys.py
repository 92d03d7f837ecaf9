"""The table of finding keys."""

from __future__ import annotations

import re

import pytest

from builder.core.keys import KEYS, close_to, find_key, finding

CASES = [f"C{number:02}" for number in range(1, 84)]
"""The field cases that the vocabulary comes from."""

CONTRACT = (
    "cuda-toolchain-mixed",
    "path-owned-twice",
    "file-edited",
    "file-stray",
    "dependency-conflict",
    "secret-in-layer",
    "foreign-index",
    "not-locked",
    "model-incomplete",
)


def test_every_field_case_has_one_key() -> None:
    """C01 to C83, each once, in their order."""
    assert CASES == sorted(row.case for row in KEYS.values() if row.case)


def test_no_table_repeats_a_key() -> None:
    """The dictionary did not swallow a row."""
    from builder.core.keys import (  # noqa: PLC0415
        api,
        boot,
        build,
        image,
        inside,
        lock,
        manifest,
        release,
        sources,
    )

    tables = (lock, sources, build, image, inside, boot, api, release, manifest)
    assert len(KEYS) == sum(len(table.KEYS) for table in tables)


@pytest.mark.parametrize("key", CONTRACT)
def test_the_contracts_own_keys_are_there(key: str) -> None:
    """Those that are no field case."""
    assert key == KEYS[key].key


@pytest.mark.parametrize("key", KEYS)
def test_a_row_is_complete(key: str) -> None:
    """Names are stable words, texts are sentences, reports can be found."""
    row = KEYS[key]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", key)
    assert row.title
    assert "." != row.title[-1]
    assert all(text.endswith((".", "?")) for text in (row.cause, row.action))
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in row.reports)
    assert len(row.reports) == len(set(row.reports))


def test_no_row_advises_the_bypass() -> None:
    """A check is never switched off to get past it."""
    assert [] == [key for key, row in KEYS.items() if "DISABLE_VERSION_CHECK" in row.action]


def test_a_finding_takes_its_texts_from_the_table() -> None:
    """Only subject and evidence are new each time."""
    row = KEYS["flashinfer-trio-mismatch"]
    made = finding("flashinfer-trio-mismatch", subject="flashinfer-cubin", evidence="0.6.3, 0.6.4")
    assert ("error", row.cause, row.action) == (made.severity, made.cause, made.action)
    assert ("flashinfer-cubin", "0.6.3, 0.6.4") == (made.subject, made.evidence)


def test_a_finding_may_say_it_otherwise() -> None:
    """Circumstances override single texts."""
    made = finding(
        "manylinux-floor",
        subject="a.whl",
        evidence="ok",
        severity="info",
        cause="because",
        action="nothing",
    )
    assert ("info", "because", "nothing") == (made.severity, made.cause, made.action)


def test_an_unknown_key_is_our_bug() -> None:
    """No finding is made without its row."""
    with pytest.raises(KeyError):
        finding("no-such-key", subject="", evidence="")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("cuda-compat-803", "cuda-compat-803"),
        (" CUDA_COMPAT_803 ", "cuda-compat-803"),
        ("c35", "cuda-compat-803"),
        ("C84", None),
        ("", None),
    ],
)
def test_a_row_is_found_by_key_or_case(text: str, key: str | None) -> None:
    """Spelling does not matter; a case that does not exist is nothing."""
    row = find_key(text)
    assert key == (row.key if row else None)


def test_the_closest_key_comes_first() -> None:
    """A slip of the finger, a part of a key, and nonsense."""
    assert "flashinfer-trio-mismatch" == close_to("flashinfer-trio-mismach")[0]
    assert "wrong-nvcc" in close_to("nvcc")
    assert [] == close_to("zzzzzzzzzz")
    assert [] == close_to("")
