"""Credentials of indexes reach the index and nothing else: no lock, message, export or cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import cli
from builder.commands import doctor, export, fetch, lock
from builder.core.settings import Settings
from builder.edge import debs
from builder.errors import BadInput, NightlockError, NotOffered
from tests.support.lockable import NO_FORGE
from tests.support.tiny_lock import CLICK, TinyLock, clean, tiny_lock

SECRET = "s3cret"  # noqa: S105 - what the tests look for


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyLock]:
    """Yield a project whose two indexes ask who comes."""
    clean(monkeypatch, tmp_path / "home")
    monkeypatch.setattr(debs, "fetch_debs", lambda *_, **__: None)
    with tiny_lock(tmp_path) as made:
        made.general.user = made.pytorch.user = f"robot:{SECRET}"
        yield made


def with_user(address: str, user: str) -> str:
    """Put a user into an address."""
    return address.replace("http://", f"http://{user}@")


def configure(tiny: TinyLock, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say the credentials in one of the ways there are."""
    general, pytorch = tiny.general.url, tiny.pytorch.url
    user = f"robot:{SECRET}"
    if how == "settings":
        indexes = {"general": with_user(general, user), "pytorch-cpu": with_user(pytorch, user)}
        tiny.project.settings = Settings(forges=NO_FORGE, indexes=indexes)
    elif how == "pip":
        monkeypatch.setenv("PIP_INDEX_URL", with_user(general, user))
        tiny.project.settings = Settings(
            forges=NO_FORGE, indexes={"pytorch-cpu": with_user(pytorch, user)}
        )
    elif how == "netrc":
        (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login robot password {SECRET}\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    else:
        program = tmp_path / "bin" / "keyring"
        program.parent.mkdir()
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1 $3" = "get robot" ] && case "$2" in 127.0.0.1:*) echo {SECRET}; exit;; esac\n'
            "exit 1\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        indexes = {
            "general": with_user(general, "robot"),
            "pytorch-cpu": with_user(pytorch, "robot"),
        }
        tiny.project.settings = Settings(forges=NO_FORGE, indexes=indexes)


def texts(folder: Path) -> dict[str, str]:
    """Every file that was written, but for what the test itself put there."""
    return {
        str(path.relative_to(folder)): path.read_bytes().decode(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("netrc", "keyring")
    }


@pytest.mark.parametrize("how", ["settings", "pip", "netrc", "keyring"])
def test_credentials_reach_the_index_and_nothing_else(
    tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Lock, check, fetch and export with each way to say them; nothing written has them."""
    configure(tiny, how, tmp_path, monkeypatch)
    context = tiny.project.context
    outcome = lock.run(context, "tiny")
    assert outcome.ok
    assert lock.run(context, "tiny", check=True).ok
    assert {"debian": 1, "general": 2} == fetch.run(context, "tiny").result.indexes
    shown = [
        export.run(context, "tiny", urls=True).text,
        export.run(context, "tiny", style="pylock").text,
        doctor.run(context).text,
        outcome.result.model_dump_json(),
        tiny.project.said.getvalue(),
    ]
    assert tiny.general.url.partition("/simple")[0] in shown[0]
    assert [] == [text for text in shown if SECRET in text]
    written = texts(tmp_path)
    assert "lock/tiny/lock.toml" in written
    assert [] == [name for name, text in written.items() if SECRET in text]


@pytest.mark.parametrize("how", ["settings", "pip", "netrc", "keyring"])
def test_no_error_has_them(
    tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Refused by the index, not found, an unsolvable question, another file."""
    configure(tiny, how, tmp_path, monkeypatch)
    caught: list[NightlockError] = []

    def fails(*arguments: str) -> None:
        with pytest.raises(NightlockError) as error:
            lock.run(tiny.project.context, *arguments)
        caught.append(error.value)

    tiny.project.spec("vllm==9", torch="pytorch-cpu")
    fails("tiny")
    tiny.project.spec("vllm==0.32.0", "torch==9", torch="pytorch-cpu")
    fails("tiny")
    tiny.general.user = tiny.pytorch.user = "robot:another"
    fails("tiny")
    assert [] == [error for error in caught if SECRET in f"{error}{error!r}"]
    assert SECRET not in tiny.project.said.getvalue()


def test_wrong_credentials_are_said_without_them(tiny: TinyLock) -> None:
    """A definite no, with the address and what to do."""
    indexes = {
        "general": with_user(tiny.general.url, f"wrong:{SECRET}"),
        "pytorch-cpu": with_user(tiny.pytorch.url, f"wrong:{SECRET}"),
    }
    tiny.project.settings = Settings(forges=NO_FORGE, indexes=indexes)
    with pytest.raises(NotOffered) as caught:
        lock.run(tiny.project.context, "tiny")
    assert "the server answers 401" in caught.value.what
    assert "~/.netrc" in caught.value.action
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"), [(b"u password p\xe9\n", "not UTF-8"), (f"u {SECRET}".encode(), "line 1")]
)
def test_a_netrc_that_cannot_be_read_is_named(
    tiny: TinyLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, why: str
) -> None:
    """By its path, whatever is wrong with it; nothing of what stands in it is shown."""
    path = tmp_path / "netrc"
    path.write_bytes(b"machine h login " + text)
    monkeypatch.setenv("NETRC", str(path))
    with pytest.raises(BadInput) as caught:
        lock.run(tiny.project.context, "tiny")
    assert (f"netrc cannot be read: {why}", str(path)) == (caught.value.what, caught.value.subject)
    assert SECRET not in str(caught.value)


def test_documents_and_events_have_none(
    tiny: TinyLock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command line, with `--index`, `--json`, `--events` and `--verbose`, when it fails."""
    monkeypatch.setenv("NIGHTLOCK_INDEX_GENERAL", with_user(tiny.general.url, f"robot:{SECRET}"))
    del tiny.general.wheels[CLICK.file]
    address = with_user(tiny.pytorch.url, f"robot:{SECRET}")
    arguments = ["lock", "tiny", "--project", str(tmp_path), "--json", "--verbose"]
    with pytest.raises(SystemExit) as left:
        cli.main([*arguments, "--index", f"pytorch-cpu={address}", "--events", str(tmp_path / "e")])
    said = capsys.readouterr()
    assert (1, False) == (left.value.code, json.loads(said.out)["ok"])
    assert SECRET not in said.out + said.err + (tmp_path / "e").read_text()
