"""`lock --cross-check` for real: pip-tools and pip in a container of the `cpu` image's own base.

The index is on loopback; the pair of tools comes from PyPI, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builder.commands import lock, lock_image, release
from builder.commands.context import Context, Outcome
from builder.commands.lock_result import LockResult
from builder.core.boot import RUN_LABEL
from builder.core.second_opinion import TOOLS, Method
from builder.core.settings import Settings
from builder.edge import debs, wheelhouse
from builder.edge.container import open_client
from builder.edge.engine import Engine
from builder.edge.project import read_lock_folder
from builder.edge.reach import open_indexes
from builder.edge.store import Store
from builder.errors import BadInput
from tests.support.lockable import NO_FORGE
from tests.support.tiny_lock import TinyLock, clean, tiny_lock
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.docker, pytest.mark.network]

SECRET = "s3cret"  # noqa: S105 - what the test looks for
NAME = "nightlock-second-opinion"
LONG = pytest.mark.long


@pytest.fixture
def tiny(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, engine_context: Context
) -> Iterator[TinyLock]:
    """Yield a project on the `cpu` image's base, with the session's store and engine.

    Its torch is bound to an index of its own, and its vLLM wants a package that is overridden.
    """
    context, _, _ = release.fill_store(engine_context, "cpu", relock=True)
    store = Store(context.places.store)
    with open_indexes(context.settings, os.environ, connections=8) as indexes:
        wheelhouse.fetch_wheels(
            [pin for pin in TOOLS if not store.has(pin.sha256, pin.size)],
            store,
            indexes,
            image="tiny",
            threads=4,
            on_bytes=lambda _: None,
        )
    pins = read_lock_folder(context.lock_folder("cpu")).platforms["linux/amd64"].debs
    clean(monkeypatch, tmp_path / "home")
    monkeypatch.setattr(debs, "resolve_base", lambda *_: pins)
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    with tiny_lock(tmp_path) as made:
        made.general.add(
            make_wheel("click", "8.2.0", requires=["torchaudio>=9", "six", "idna"]),
            make_wheel("idna", "3.10"),
            make_wheel("six", "1.16.0"),
            make_wheel("six", "1.17.0"),
        )
        made.project.spec(
            "vllm==0.32.0",
            "torch==2.13.0",
            overrides=("torchaudio; sys_platform == 'never'",),
            torch="pytorch-cpu",
        )
        yield made


def cross_check(tiny: TinyLock, engine_context: Context, method: Method) -> Outcome[LockResult]:
    """Lock the project with the engine's own places."""
    context = replace(tiny.project.context, places=engine_context.places)
    return lock.run(context, "tiny", cross_check=method)


def ours(engine: Engine) -> list[str]:
    """Containers and images that a cross-check leaves behind."""
    with open_client(engine, 60) as client:
        images = [str(one.id) for one in client.images.list(name=NAME)]
        containers = client.containers.list(all=True, filters={"label": RUN_LABEL})
        return images + [
            str(one.id) for one in containers if NAME in str(one.attrs["Config"]["Image"])
        ]


@pytest.mark.parametrize("method", ["pip-tools", pytest.param("pip-lock", marks=LONG)])
def test_both_agree_with_a_sound_lock(
    tiny: TinyLock, engine: Engine, engine_context: Context, method: Method
) -> None:
    """With a bound package, an override and an index that asks who comes; nothing is left over."""
    tiny.general.user = f"robot:{SECRET}"
    indexes = {
        "general": tiny.general.url.replace("http://", f"http://robot:{SECRET}@"),
        "pytorch-cpu": tiny.pytorch.url,
    }
    tiny.project.settings = Settings(forges=NO_FORGE, indexes=indexes)
    tiny.general.requests.clear()
    outcome = cross_check(tiny, engine_context, method)
    assert outcome.ok
    assert [] == [row for row in outcome.findings if row.key == "second-opinion-differs"]
    assert "created" == outcome.result.of("tiny").change
    # The bound package was asked for by the resolver in the container, and is not on that index.
    assert tiny.general.asked("/simple/torch/")
    assert SECRET not in tiny.project.said.getvalue()
    assert [] == ours(engine)


@pytest.mark.parametrize("method", ["pip-lock", pytest.param("pip-tools", marks=LONG)])
def test_every_difference_is_named_and_nothing_is_written(
    tiny: TinyLock,
    engine: Engine,
    engine_context: Context,
    method: Method,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One package of another version than there is, one too few, one too many."""
    resolve = lock_image.lock_jobs

    def tampered(*arguments: object, **options: object) -> object:
        found = resolve(*arguments, **options)  # type: ignore[arg-type]
        platform = found["tiny"]["linux/amd64"]
        wheels = {wheel.pin.name: wheel for wheel in platform.wheels}
        six = wheels.pop("six")
        idna = wheels["idna"]
        wheels["idna"] = replace(
            idna, pin=replace(idna.pin, version="3.9", file=idna.pin.file.replace("3.10", "3.9"))
        )
        wheels["extra"] = replace(
            six, pin=replace(six.pin, name="extra", file=six.pin.file.replace("six", "extra"))
        )
        found["tiny"]["linux/amd64"] = replace(platform, wheels=tuple(wheels.values()))
        return found

    monkeypatch.setattr(lock, "lock_jobs", tampered)
    outcome = cross_check(tiny, engine_context, method)
    rows = [row for row in outcome.findings if row.key == "second-opinion-differs"]
    assert [
        ("extra (linux/amd64)", f"uv locked 1.17.0, {method} has no use for it"),
        ("idna (linux/amd64)", f"uv locked 3.9, {method} took 3.10"),
        ("six (linux/amd64)", f"{method} wants 1.17.0, the lock does not have it"),
    ] == [(row.subject, row.evidence) for row in rows if row.subject != "linux/amd64"]
    # pip has the lock as constraints, so it says first that 3.9 cannot be.
    assert (method == "pip-lock") == any(row.subject == "linux/amd64" for row in rows)
    assert (False, "refused") == (outcome.ok, outcome.result.of("tiny").change)
    assert not tiny.project.lock.exists()
    assert [] == ours(engine)


def test_a_foreign_platform_is_refused_before_anything_is_asked(
    tiny: TinyLock, engine_context: Context
) -> None:
    """The target's interpreter would be emulated: exit 2, and what to do instead."""
    tiny.project.spec("vllm", platforms=("linux/amd64", "linux/arm64"))
    tiny.general.requests.clear()
    with pytest.raises(BadInput, match="linux/arm64 would be emulated") as caught:
        cross_check(tiny, engine_context, "pip-tools")
    assert "--platform linux/amd64" in caught.value.action
    assert [] == tiny.general.requests
