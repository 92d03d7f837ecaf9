"""`lock --migrate`: a lock of the schema before, without resolving anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.commands import lock
from builder.core import lock_header
from builder.core.lock import digest_of
from builder.errors import BadInput, LockFileError
from tests.support.tiny_lock import TinyLock, clean, tiny_lock


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyLock]:
    """Yield a project that is locked."""
    clean(monkeypatch, tmp_path / "home")
    with tiny_lock(tmp_path) as made:
        assert lock.run(made.project.context, "tiny").ok
        made.general.requests.clear()
        made.pytorch.requests.clear()
        yield made


def test_a_lock_of_today_has_nothing_to_migrate(tiny: TinyLock) -> None:
    """It is said, and not a byte changes."""
    before = tiny.project.lock_files()
    outcome = lock.run(tiny.project.context, "tiny", migrate=True)
    assert (True, "unchanged") == (outcome.ok, outcome.result.of("tiny").change)
    assert "tiny: its schema is today's (1): nothing to migrate" == outcome.text
    assert before == tiny.project.lock_files()


def test_a_lock_of_the_schema_before_is_rewritten(
    tiny: TinyLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked anything; the lock is as good as before, under another digest."""
    before = tiny.project.lock_files()
    monkeypatch.setattr(lock_header, "SCHEMA", 2)
    assert (
        "`nightlock lock tiny --migrate`" in lock.run(tiny.project.context, "tiny", check=True).text
    )
    tiny.general.requests.clear()
    tiny.pytorch.requests.clear()
    outcome = lock.run(tiny.project.context, "tiny", migrate=True)
    after = tiny.project.lock_files()
    assert ("updated", digest_of(after["lock.toml"])) == (
        outcome.result.of("tiny").change,
        outcome.result.of("tiny").digest,
    )
    assert outcome.text.startswith("tiny: from schema 1 to 2; sha256:")
    assert [] == [*tiny.general.requests, *tiny.pytorch.requests]
    assert {"lock.toml"} == {name for name in after if after[name] != before[name]}
    assert after["lock.toml"] == before["lock.toml"].replace(
        b"schema_version = 1", b"schema_version = 2"
    )
    assert lock.run(tiny.project.context, "tiny", check=True).ok
    assert "unchanged" == lock.run(tiny.project.context, "tiny").result.of("tiny").change


def test_an_unknown_schema_is_refused_with_the_command_to_run(
    tiny: TinyLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two schemas ago cannot be read; the lock stays as it is."""
    before = tiny.project.lock_files()
    monkeypatch.setattr(lock_header, "SCHEMA", 3)
    with pytest.raises(LockFileError) as caught:
        lock.run(tiny.project.context, "tiny", migrate=True)
    assert 2 == caught.value.exit_code
    assert "nightlock lock" in caught.value.action
    assert before == tiny.project.lock_files()


def test_it_goes_alone(tiny: TinyLock) -> None:
    """Resolving at the same time would hide what changed."""
    with pytest.raises(BadInput, match="goes alone"):
        lock.run(tiny.project.context, "tiny", migrate=True, upgrade=True)
