"""A base from a real registry with extra packages: locked, fetched, rendered, built, run."""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.commands import build, fetch, lock_base, render
from builder.commands.build import BuildResult
from builder.commands.bundle import take_in_bundle
from builder.commands.context import Context
from builder.commands.lock_image import Job
from builder.commands.render_base import find_or_make_base
from builder.core.buildid import Invocation
from builder.core.debian import addresses
from builder.core.debs import debs_digest
from builder.core.dockerfile import base_context
from builder.core.labels import BASE_DIGEST, BUILD_ID
from builder.core.lock import BaseLock
from builder.core.reference import ImageRef
from builder.core.spec import parse_spec
from builder.edge import buildx
from builder.edge.apt import AptRoot, host_sources
from builder.edge.debs import fetch_debs
from builder.edge.engine import Engine
from builder.edge.mmdebstrap import find_mmdebstrap, unpack_mmdebstrap
from builder.edge.project import write_lock
from builder.edge.registry import Registry
from builder.edge.rootfs import make_base
from builder.edge.store import Store
from builder.output import Output
from tests.support.base_images import LayeredImage
from tests.support.mini_image import AMD64, ROOT, mini_lock, mini_spec, spec_text

pytestmark = [pytest.mark.docker, pytest.mark.network]

DEADLINE = 120.0
"""Seconds within which a container must have ended."""


@dataclass(frozen=True, kw_only=True)
class Based:
    """The mini project on a base in the registry."""

    context: Context
    engine: Engine
    repository: ImageRef
    base: ImageRef
    digest: str
    """Of the base's manifest."""

    def docker(self, *words: str) -> str:
        """Run the engine's client and return what it printed."""
        ran = subprocess.run(
            [self.engine.docker, *words],
            env={**os.environ, **self.engine.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        assert ran.returncode == 0, ran.stdout
        return ran.stdout


@pytest.fixture(scope="module")
def based(
    engine: Engine, engine_context: Context, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Based]:
    """Push a Debian without Python as a base, and lock the mini image on it with packages."""
    folder = tmp_path_factory.mktemp("based")
    name = ImageRef.parse(f"{engine.registry}/nightlock-test/{uuid.uuid4().hex[:12]}/mini")
    base = replace(name, repository=f"{name.repository}-base", tag="bookworm")
    image = LayeredImage(
        [_debian(engine_context, folder)],
        # As hardened bases: nobody runs as root, and that must not stop dpkg.
        config={"User": "65534:65534", "Env": ["PATH=/usr/bin:/bin", "BASE=yes"]},
    )
    image.push(engine.registry, base.repository, base.tag)
    context = replace(engine_context, project=folder, output=Output())
    _project(context, str(base))
    fetch.run(context, "mini")
    yield Based(context=context, engine=engine, repository=name, base=base, digest=image.digest)
    for repository in (name, base):
        with Registry.open(repository.registry, os.environ) as registry:
            for tag in list(registry.tags(repository)):
                ref = repository.with_tag(tag)
                registry.delete(ref, registry.find_digest(ref))


def _debian(context: Context, folder: Path) -> bytes:
    """Make a base layer of what is essential: dpkg, and neither apt nor Python."""
    settings, store = context.settings.debian, Store(context.places.store)
    sources = host_sources("bookworm", settings)
    root = AptRoot(folder / "apt", sources, "amd64")
    root.update()
    pins = root.resolve(["?essential"], essential=False)
    fetch_debs(pins, store, addresses(sources))
    tools = context.places.cache / "tools"
    program = find_mmdebstrap(tools) or unpack_mmdebstrap(tools, settings)
    made = make_base("bookworm", pins, store, context.places.state / "base", program)
    return gzip.compress(made.path.read_bytes(), 1, mtime=0)


def _project(context: Context, base: str) -> None:
    """Write spec, template and a lock whose base comes from the step of `lock`."""
    spec = mini_spec()
    table = spec.base.model_copy(
        update={"debian": None, "image": base, "packages": ["python3", "tini"]}
    )
    spec = spec.model_copy(update={"base": table})
    spec = parse_spec(spec_text(spec), "images/mini/image.toml")
    image = context.project / "images/mini"
    image.mkdir(parents=True)
    (context.project / "images/_shared").symlink_to(ROOT / "images/_shared")
    (image / "Dockerfile.j2").write_text('{% extends "_shared/image.j2" %}\n')
    (image / "image.toml").write_text(spec_text(spec))
    job = Job(
        spec=spec,
        digest=spec.digest,
        previous=None,
        platforms=(AMD64,),
        moving=frozenset(),
        upgrade=False,
    )
    (job,) = lock_base.with_bases(context, [job])
    found = job.bases[AMD64]
    made = mini_lock(spec, found.debs)
    header = made.header.model_copy(
        update={
            "base": BaseLock(
                image=base, images={AMD64: found.digest}, debs={AMD64: debs_digest(found.debs)}
            )
        }
    )
    write_lock(context.project, replace(made, header=header))


@pytest.fixture(scope="module")
def built(based: Based) -> BuildResult:
    """Build it as a user does."""
    return build.run(based.context, "mini", push=based.repository.name).result


def test_labels_and_build_carry_the_base(based: Based, built: BuildResult) -> None:
    """Its name, its digest, and the base's own layer at the bottom."""
    assert based.digest == built.base_digest
    assert based.digest == built.labels[BASE_DIGEST]
    assert based.digest == built.labels["org.opencontainers.image.base.digest"]
    assert str(based.base) == built.labels["org.opencontainers.image.base.name"]
    assert build.run(based.context, "mini", push=based.repository.name).result.cached


def test_the_image_runs_on_its_base(based: Based, built: BuildResult) -> None:
    """Packages are installed for dpkg and for Python; the base's variables stay, its user goes."""
    script = (
        "import os, subprocess, yaml, click\n"
        "print(os.getuid(), os.environ['BASE'], yaml.__with_libyaml__)\n"
        "print(subprocess.check_output(['dpkg', '--audit']).decode() or 'audited')\n"
        "print(subprocess.check_output(['dpkg-query', '-W', '-f', '${Status}', 'python3']))\n"
    )
    said = based.docker(
        "run", "--rm", "--network", "none", "--read-only", built.reference, "python", "-c", script
    )
    assert "2000 yes True\naudited\nb'install ok installed'" in said
    left = based.docker(
        "run",
        "--rm",
        "--user",
        "0",
        "--entrypoint",
        "sh",
        built.reference,
        "-c",
        "find /var/log /var/cache /mnt /packages.py /var/lib/dpkg/lock -type f; ls -A /mnt",
    )
    assert "/var/log/" not in left
    assert "/var/cache/" not in left


def test_a_bundle_carries_the_base(based: Based, built: BuildResult, tmp_path: Path) -> None:
    """To a machine without a registry: its layout and its packages, for both builders."""
    folder = tmp_path / "bundle"
    row = fetch.run(based.context, "mini", bundle=folder).result.bundle
    assert row is not None
    assert {AMD64: built.digest} == row.digests
    assert (folder / "linux-amd64/base/oci-layout").is_file()
    assert (folder / "linux-amd64/debs/order.txt").is_file()
    places = replace(based.context.places, cache=tmp_path / "cache", state=tmp_path / "state")
    elsewhere = replace(based.context, places=places)
    take_in_bundle(elsewhere, "mini", folder)
    lock = render.plan_build(elsewhere, "mini").lock
    assert based.digest == find_or_make_base(elsewhere, lock, AMD64).digest


def test_two_builds_give_one_digest(based: Based, built: BuildResult, tmp_path: Path) -> None:
    """Without cache, by the command that the Dockerfile begins with; dpkg leaves no clock."""
    out = tmp_path / "rendered"
    said = render.run(based.context, "mini", out=out).result
    first = (out / "Dockerfile").read_text().splitlines()[0].removeprefix("# ")
    assert said.command == first
    assert f"--build-context base-image=oci-layout://./base@{based.digest}" in first
    manifest = (out / "base/index.json").read_text()
    assert based.digest in manifest
    lock = render.plan_build(based.context, "mini").lock
    invocation = Invocation(
        platform=AMD64,
        epoch=lock.header.epoch,
        name=f"{based.repository.name}:again",
        labels={key: built.labels[key] for key in (BUILD_ID, BASE_DIGEST)},
        annotations=built.labels,
        push=True,
        cache=False,
        contexts=base_context(lock, AMD64),
    )
    digest = buildx.build(based.engine, invocation, out, lambda _: None)
    with Registry.open(based.repository.registry, os.environ) as registry:
        again = registry.manifest(based.repository.with_tag("again"))
    # Layers first: they say where a difference is.
    assert [row.digest for row in built.layers] == [row.digest for row in again.body.layers]
    assert built.digest == digest
    env = {**os.environ, **based.engine.environment}
    words = shlex.split(first)
    ran = subprocess.run(
        [based.engine.docker, *words[1:]],
        cwd=out,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert ran.returncode == 0, ran.stderr
    based.docker("image", "rm", "--force", "nightlock/mini:local")
