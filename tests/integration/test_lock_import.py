"""`lock --from`: real files of uv become preferences; no network beyond loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from builder.commands import lock
from builder.commands.context import Outcome
from builder.commands.lock_result import LockResult
from builder.errors import BadInput, HashMismatch
from tests.support.tiny_lock import CLICK, TinyLock, clean, tiny_lock
from tests.support.wheels import make_wheel

NEWER = make_wheel("click", "8.3.0")
SIX = make_wheel("six", "1.17.0")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyLock]:
    """Yield a project whose index has two versions of click; nothing is locked."""
    clean(monkeypatch, tmp_path / "home")
    with tiny_lock(tmp_path) as made:
        made.general.add(NEWER, SIX)
        yield made


def lock_from(tiny: TinyLock, text: str, **options: object) -> Outcome[LockResult]:
    """Lock with an import."""
    path = tiny.project.root / "requirements.txt"
    path.write_text(text)
    return lock.run(tiny.project.context, "tiny", import_from=path, **options)  # type: ignore[arg-type]


def reasons(outcome: Outcome[LockResult]) -> dict[str, str]:
    """Subject → evidence of the pins that were not kept."""
    return {row.subject: row.evidence for row in outcome.findings if row.key == "import-not-kept"}


def test_imported_versions_are_kept_where_they_may(tiny: TinyLock) -> None:
    """Against the newest, against an earlier lock, and only as long as they are imported."""
    assert lock.run(tiny.project.context, "tiny").ok
    assert tiny.project.line("click").startswith("click==8.3.0 ")
    outcome = lock_from(tiny, f"click==8.1.0 \\\n    --hash=sha256:{CLICK.sha256}\n")
    assert {} == reasons(outcome)
    assert tiny.project.line("click").startswith(f"click==8.1.0 --hash=sha256:{CLICK.sha256} ")
    before = tiny.project.lock_files()
    lock.run(tiny.project.context, "tiny")
    assert before == tiny.project.lock_files()


def test_a_file_of_uv_is_taken_whole(tiny: TinyLock, tmp_path: Path) -> None:
    """What `uv pip compile --generate-hashes` wrote imports without a word."""
    (tmp_path / "in.txt").write_text("click<8.2\n")
    subprocess.run(
        [
            find_uv_bin(), "pip", "compile", "-q", "--no-config", "--generate-hashes",
            "--no-cache", "--python", sys.executable, "--index-url", tiny.general.url,
            "in.txt", "-o", "out.txt",
        ],
        check=True,
        cwd=tmp_path,
        timeout=120,
    )  # fmt: skip
    text = (tmp_path / "out.txt").read_text()
    assert CLICK.sha256 in text
    assert {} == reasons(lock_from(tiny, text))
    assert tiny.project.line("click").startswith("click==8.1.0 ")


def test_each_pin_that_could_not_be_kept_is_named_with_its_reason(tiny: TinyLock) -> None:
    """By the image, by a package, by nobody's need, by the index."""
    tiny.project.spec(
        "vllm==0.32.0", "torch==2.13.0", "six", constraints=("six>1.16",), torch="pytorch-cpu"
    )
    text = "click==7.0\nsix==1.16.0\nrequests==2.0\ntorch==2.12.0\nidna>=3\n"
    outcome = lock_from(tiny, text)
    assert outcome.ok
    path = tiny.project.root / "requirements.txt"
    assert {
        "idna>=3": f"{path}: it names no exact version",
        "click (linux/amd64)": f"{path}:1 pins 7.0: vllm 0.32.0 wants click>=8; locked is 8.3.0",
        "six (linux/amd64)": f"{path}:2 pins 1.16.0: the image wants six>1.16; locked is 1.17.0",
        "requests (linux/amd64)": f"{path}:3 pins 2.0: nothing in the image needs it",
        "torch (linux/amd64)": f"{path}:4 pins 2.12.0: the image wants torch==2.13.0; "
        "locked is 2.13.0+cpu",
    } == reasons(outcome)
    outcome = lock_from(tiny, "click==8.2.0\n")
    assert "has no wheel of it that fits Python 3.11" in reasons(outcome)["click (linux/amd64)"]


def test_other_hashes_are_a_refusal_that_names_both(tiny: TinyLock) -> None:
    """Nothing is written; the person may decide for the index's file."""
    text = f"click==8.1.0 --hash=sha256:{'0' * 64}\n"
    with pytest.raises(HashMismatch) as caught:
        lock_from(tiny, text)
    assert CLICK.sha256 in caught.value.what
    assert "0" * 64 in caught.value.what
    assert f"{tiny.project.root / 'requirements.txt'}:1" == caught.value.subject
    assert not tiny.project.lock.exists()
    outcome = lock_from(tiny, text, upgrade_packages=("click",))
    assert outcome.ok
    assert "it was named with --upgrade-package" in reasons(outcome)["click (linux/amd64)"]


def test_a_file_that_is_not_there_is_bad_input(tiny: TinyLock, tmp_path: Path) -> None:
    """Before anything is asked."""
    with pytest.raises(BadInput):
        lock.run(tiny.project.context, "tiny", import_from=tmp_path / "nowhere.txt")
    assert [] == tiny.general.requests
