"""The offline bundle for real: an engine of its own, without a network, gives the same digest."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.commands import build, fetch
from builder.commands.context import Context
from builder.core.reference import ImageRef
from builder.edge.engine import Engine
from tests.support.engine_client import forget
from tests.support.mini_image import mini_project
from tests.support.namespace import Namespace, namespace, share, started

pytestmark = [
    pytest.mark.docker,
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and a private engine need root"),
]


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """A bundle, and what was built here of the same lock."""

    folder: Path
    digest: str


@pytest.fixture(scope="module")
def bundled(
    engine: Engine, engine_context: Context, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bundled]:
    """Build the mini image here, write its bundle, and copy it as to another machine."""
    top = tmp_path_factory.mktemp("bundled")
    context = mini_project(engine_context, top / "project")
    repository = ImageRef.parse(f"{engine.registry}/nightlock-test/{uuid.uuid4().hex[:12]}")
    try:
        built = build.run(context, "mini", push=repository.name).result
        row = fetch.run(context, "mini", bundle=top / "bundle").result.bundle
        assert row is not None
        assert {"linux/amd64": built.digest} == row.digests
        shutil.copytree(top / "bundle", top / "copy")
        yield Bundled(folder=top / "copy", digest=built.digest)
    finally:
        forget(engine, repository)


@pytest.fixture(scope="module")
def alone(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """Start a second private engine: another data root, no network but its own loopback."""
    top = tmp_path_factory.mktemp("alone")
    share(unpacked, top / "state")
    with namespace(top / "state") as inside:
        _, running = started(inside)
        own = {"XDG_CACHE_HOME": str(top / "cache"), "HOME": str(top)}
        yield replace(running, extra=running.extra | own)
    shutil.rmtree(top)


def test_the_copy_is_whole(bundled: Bundled) -> None:
    """As its README has it checked; the digest to expect stands there too."""
    subprocess.run(
        ["sha256sum", "--quiet", "--check", "--strict", "SHA256SUMS"],
        cwd=bundled.folder,
        check=True,
    )
    assert bundled.digest in (bundled.folder / "README.md").read_text()


def test_docker_alone_gives_the_same_digest(bundled: Bundled, alone: Namespace) -> None:
    """The README's own lines, without nightlock; on another engine, uncached, without a network."""
    said = (bundled.folder / "README.md").read_text()
    found = re.search(r"```\ncd (linux-amd64)\n(docker buildx build .*)\n```", said)
    assert found is not None
    docker = alone.nightlock("engine", "status")["result"]["docker"]
    words = shlex.split(found[2])
    metadata = bundled.folder.parent / "metadata.json"
    command = shlex.join(["--metadata-file", str(metadata), *words[3:]])
    place = shlex.quote(str(bundled.folder / found[1]))
    alone.run("sh", "-c", f"cd {place} && {docker} buildx build {command}")
    assert bundled.digest == json.loads(metadata.read_text())["containerimage.digest"]


def test_nightlock_gives_the_same_digest(bundled: Bundled, alone: Namespace) -> None:
    """From an empty store, by the bundle's own project; then it knows its files."""
    words = ("build", "mini", "--bundle", str(bundled.folder))
    project = ("--project", str(bundled.folder / "project"))
    result = alone.nightlock(*words, *project)["result"]
    assert (bundled.digest, False) == (result["digest"], result["cached"])
    assert alone.nightlock("fetch", "mini", *project)["result"]["bytes_fetched"] == 0
