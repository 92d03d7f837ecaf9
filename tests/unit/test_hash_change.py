"""hash-mismatch: one error text, and which of its causes it is (C13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builder.core.hash_change import Arrived, Cause, Expected, classify, explain, refusal

LOCKED = Expected(
    file="vllm-0.23.0-2-cp38-abi3-manylinux_2_28_x86_64.whl",
    sha256="2c" * 32,
    size=1000,
    index="vllm",
)
CAME = Arrived(sha256="70" * 32, size=1000, place="vllm at https://v.example", announced=1000)


@pytest.mark.parametrize(
    ("arrived", "cause", "evidence"),
    [
        # Fewer bytes than were announced, or than the lock names when nothing was.
        (replace(CAME, size=400), "truncated", "cut short: 400 of 1000 bytes"),
        (replace(CAME, size=400, announced=None), "truncated", "cut short: 400 of 1000 bytes"),
        (replace(CAME, size=400, announced=700), "truncated", "cut short: 400 of 700 bytes"),
        # All that was announced came, and it is shorter: another file.
        (replace(CAME, size=400, announced=400), "replaced", "400 bytes instead of 1000"),
        (replace(CAME, size=1400, announced=1400), "replaced", "1400 bytes instead of 1000"),
        (CAME, "replaced", "other bytes of the same length"),
        (
            replace(CAME, modified="Mon, 30 Nov 2026 03:20:11 GMT"),
            "replaced",
            "last modified Mon, 30 Nov 2026 03:20:11 GMT",
        ),
        (replace(CAME, metadata_sha256="2c" * 32), "metadata-hash", "hash of the file's METADATA"),
        (
            replace(CAME, place="find-links at /w", foreign=True),
            "other-index",
            "lies at find-links at /w, not at its own index vllm",
        ),
        # Cut short comes first, whoever sent it.
        (replace(CAME, foreign=True, size=1), "truncated", "1 of 1000"),
        # A page alone: nothing came.
        (
            replace(CAME, size=0, announced=None),
            "replaced",
            "vllm at https://v.example lists another one under the same name",
        ),
        (replace(CAME, head=b"\n<!DOCTYPE html><html>"), "web-page", "a web page came"),
    ],
)
def test_hash_mismatch(arrived: Arrived, cause: Cause, evidence: str) -> None:
    """Each cause, with both hashes and something to do."""
    assert cause == classify(LOCKED, arrived)
    found = explain(LOCKED, arrived, "nightlock lock cuda13-sm120 --upgrade-package vllm")
    assert found is not None
    assert ("hash-mismatch", "error", LOCKED.file) == (found.key, found.severity, found.subject)
    assert evidence in found.evidence
    assert "2c2c2c" in found.evidence
    assert "707070" in found.evidence
    # Cut short and web pages are tried again; a deliberate lock is for the others.
    assert (cause in {"truncated", "web-page"}) != ("--upgrade-package vllm" in found.action)


def test_the_right_bytes_are_right_wherever_they_come_from() -> None:
    """A mirror is as good as the index."""
    arrived = replace(CAME, sha256=LOCKED.sha256, foreign=True)
    assert "same" == classify(LOCKED, arrived)
    assert explain(LOCKED, arrived, "") is None
    with pytest.raises(ValueError, match="is what the lock names"):
        refusal(LOCKED, arrived, "", subject="https://v.example")


def test_a_refusal_says_it_all_at_once() -> None:
    """File, place, cause, both hashes, the way out; the finding says the same."""
    error = refusal(LOCKED, CAME, "nightlock lock gpu", subject="https://v.example/vllm.whl")
    assert error.what.startswith(f"{LOCKED.file} from vllm at https://v.example: the file was repl")
    assert "`nightlock lock gpu`" in error.action
    assert ["hash-mismatch"] == [row.key for row in error.findings]
    assert LOCKED.sha256 in error.what
    assert CAME.sha256 in error.what


def test_while_locking_the_index_is_who_said_so() -> None:
    """There is no lock to make again; another mirror may be right."""
    found = explain(replace(LOCKED, said_by="the index"), CAME, "")
    assert found is not None
    assert "the index names sha256 2c2c" in found.evidence
    assert "--index" in found.action
    assert "lock this one" not in found.action
