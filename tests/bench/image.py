"""What layers planned by a lock are worth: our image against the Dockerfile most people write.

    python tests/bench/image.py [IMAGE]

Theirs is `FROM` the same base and one `pip install` of the same wheels, from a folder, without a
network. Both are built from nothing, built again from nothing, and built after one file of the
vLLM wheel has changed. Bytes are those of manifests, as a pull moves them. Beside that it measures
what byte code is worth in our image. What is printed goes into README.md beside this file.

It needs an engine on this machine without other work (build caches are pruned, all of them), the
image's files in the store (`nightlock fetch IMAGE`), 45 GB of free disk where the engine keeps its
data, and most of an hour on two cores. What it pushes goes to a registry of its own.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from builder.core.buildid import EXPORTER
from builder.core.lock import Lock, digest_of
from builder.core.places import Places
from builder.edge.project import read_lock, write_lock
from builder.edge.store import Store

ROOT = Path(__file__).parents[2]
NEEDED = 45_000_000_000
"""Free bytes below which nothing is begun."""
PIP = "pip==26.3"
PLAIN = """FROM scratch AS base
ADD base.tar /
FROM base
RUN --network=none --mount=type=bind,source=wheels,target=/wheels \\
    python3 /wheels/{pip}/pip install --break-system-packages --root-user-action=ignore \\
    --no-cache-dir --no-index --find-links /wheels {requirements}
ENTRYPOINT ["vllm", "serve"]
"""
IMPORTS = """
import time; start = time.monotonic()
import torch, flashinfer, vllm.entrypoints.openai.api_server
print(time.monotonic() - start)
"""
WITHOUT = ("--env=PYTHONPYCACHEPREFIX=/nosuch", "--env=PYTHONDONTWRITEBYTECODE=1")
"""Python looks for byte code where there is none, and keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One build, pushed."""

    name: str
    """Of the image in the engine."""
    digest: str
    layers: Mapping[str, int]
    """Digest → compressed bytes."""
    seconds: float
    """Of the whole command: build, export and push."""

    @property
    def bytes(self) -> int:
        """What a machine without any layer pulls."""
        return sum(self.layers.values())

    def pulled_after(self, older: Built) -> int:
        """Bytes that a machine with the older image pulls."""
        return sum(size for layer, size in self.layers.items() if layer not in older.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine that answers, and a registry of this run."""

    docker: str
    environment: dict[str, str]
    registry: str
    blobs: Path
    """What that registry keeps."""

    def docker_run(self, *words: str) -> str:
        """Run the client; its progress goes to our stderr."""
        return subprocess.run(
            [self.docker, *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def prune(self) -> None:
        """Forget every build, the images of this run, and what was pushed."""
        names = self.docker_run("image", "ls", "--quiet", f"{self.registry}/*").split()
        if names:
            self.docker_run("image", "rm", "--force", *sorted(set(names)))
        self.docker_run("builder", "prune", "--all", "--force")
        # A registry reads its folder anew for each request.
        shutil.rmtree(self.blobs, ignore_errors=True)

    def manifest(self, name: str, tag: str) -> tuple[str, dict[str, int]]:
        """Read digest and layers from the registry."""
        answer = httpx.get(
            f"http://{self.registry}/v2/{name}/manifests/{tag}",
            headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
        )
        data = answer.raise_for_status().content
        rows = json.loads(data)["layers"]
        return digest_of(data), {row["digest"]: row["size"] for row in rows}


def nightlock(project: Path, *arguments: str) -> dict[str, Any]:
    """Run the command in a project and return its result."""
    ran = subprocess.run(
        [sys.executable, "-m", "builder", *arguments, "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=False,
    )
    document: dict[str, Any] = json.loads(ran.stdout)
    if ran.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {document['error']}")
    return document["result"]  # type: ignore[no-any-return]


@contextmanager
def engine(scratch: Path) -> Iterator[Engine]:
    """Find the engine and run a registry beside it."""
    status = nightlock(ROOT, "engine", "status")
    if not status["private"]:
        raise SystemExit("this measures on nightlock's private engine: `nightlock engine start`")
    docker = Path(status["docker"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config, blobs = scratch / "registry.json", scratch / "registry"
    config.write_text(
        json.dumps(
            {
                "version": 0.1,
                "log": {"level": "error", "accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(blobs)}},
                "http": {"addr": f"127.0.0.1:{port}"},
            }
        )
    )
    program = subprocess.Popen([docker.with_name("docker-registry"), "serve", config])
    environment = {
        **os.environ,
        "DOCKER_HOST": status["host"],
        "DOCKER_CONFIG": str(Places.from_environment(os.environ).state / "engine" / "client"),
    }
    found = Engine(
        docker=str(docker),
        environment=environment,
        registry=f"localhost:{port}",
        blobs=blobs,
    )
    try:
        yield found
    finally:
        found.prune()
        program.terminate()
        program.wait()


def build_ours(engine: Engine, project: Path, image: str) -> Built:
    """Build with nightlock."""
    started = time.monotonic()
    result = nightlock(project, "build", image, "--push", f"{engine.registry}/ours")
    seconds = time.monotonic() - started
    tag = result["tags"][0]
    digest, layers = engine.manifest("ours", tag)
    name = f"{engine.registry}/ours:{tag}"
    return said(Built(name=name, digest=digest, layers=layers, seconds=seconds))


def build_plain(engine: Engine, folder: Path) -> Built:
    """Build a folder with the same exporter."""
    name = f"{engine.registry}/plain:1"
    output = EXPORTER | {"name": name, "push": "true"}
    words = ["buildx", "build", "--network", "none", "--provenance=false", "--output"]
    started = time.monotonic()
    options = ",".join(f"{key}={value}" for key, value in output.items())
    engine.docker_run(*words, options, str(folder))
    seconds = time.monotonic() - started
    digest, layers = engine.manifest("plain", "1")
    return said(Built(name=name, digest=digest, layers=layers, seconds=seconds))


def said(built: Built) -> Built:
    """Name a build on stderr: a run that is stopped has then not been for nothing."""
    sys.stderr.write(
        f"{built.name} {built.digest}: {len(built.layers)} layers, {built.bytes} bytes, "
        f"{built.seconds:.1f} s\n"
    )
    return built


def byte_code(engine: Engine, name: str) -> str:
    """Measure imports with and without byte code, turn by turn, in new containers."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(3):
        for compiled, times in seconds.items():
            options = () if compiled else WITHOUT
            command = ("run", "--rm", "--network=none", *options, name, "python", "-c", IMPORTS)
            times.append(float(engine.docker_run(*command).split()[-1]))
    (with_it, without) = (
        f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"
        for times in seconds.values()
    )
    return f"imports: {with_it} s with byte code, {without} s without"


def edited(wheel: Path, target: Path) -> None:
    """Copy a wheel with one module changed, and its RECORD true again."""
    with zipfile.ZipFile(wheel) as old:
        changed = next(name for name in old.namelist() if name.endswith("/_version.py"))
        record = next(name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        data = old.read(changed) + b"# another night\n"
        mark = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows = list(csv.reader(old.read(record).decode().splitlines()))
        rows = [
            [changed, f"sha256={mark}", str(len(data))] if row[0] == changed else row
            for row in rows
        ]
        lines = "".join(",".join(f'"{c}"' if "," in c else c for c in row) + "\n" for row in rows)
        new = {changed: data, record: lines.encode()}
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
            for entry in old.infolist():
                out.writestr(entry, new.get(entry.filename) or old.read(entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """The same project one night later: another vLLM wheel, all else as it was."""

    project: Path
    wheel: Path
    """In the store."""
    file: str


def next_night(scratch: Path, image: str, lock: Lock, store: Store) -> Night:
    """Write a project whose lock names the changed wheel."""
    (platform,) = lock.platforms
    content = lock.platforms[platform]
    package = lock.header.vllm.package
    (pin,) = (pin for pin in content.wheels if pin.name == package)
    changed = scratch / pin.file
    edited(store.path(pin.sha256), changed)
    sha256 = store.add(changed)
    new = replace(pin, sha256=sha256, size=changed.stat().st_size)
    changed.unlink()
    wheels = tuple(new if one is pin else one for one in content.wheels)
    project = scratch / "project"
    shutil.copytree(ROOT / "images", project / "images")
    shutil.copy(ROOT / "pyproject.toml", project)
    platforms = {platform: replace(content, wheels=wheels)}
    write_lock(project, replace(lock, platforms=platforms))
    if read_lock(project, image).digest == lock.digest:
        raise SystemExit("the next night's lock is the same")
    return Night(project=project, wheel=store.path(sha256), file=pin.file)


def plain_folder(scratch: Path, image: str, lock: Lock) -> Path:
    """Write the build context most people would: base, wheels, a short Dockerfile."""
    rendered, folder = scratch / "rendered", scratch / "plain"
    nightlock(ROOT, "render", image, "--out", str(rendered))
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    for path in rendered.glob("wheels/*/*.whl"):
        path.rename(wheels / path.name)
    (rendered / "base.tar").rename(folder / "base.tar")
    shutil.rmtree(rendered)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PIP, "--dest", wheels],
        check=True,
    )
    (pip,) = wheels.glob("pip-*.whl")
    # What the images ask for beside vLLM, and vLLM as the lock has it.
    names = {lock.header.vllm.package, "nvidia-cuda-nvcc", "ninja"}
    (content,) = lock.platforms.values()
    asked = sorted(f"{pin.name}=={pin.version}" for pin in content.wheels if pin.name in names)
    text = PLAIN.format(pip=pip.name, requirements=" ".join(asked))
    (folder / "Dockerfile").write_text(text)
    return folder


def measure_ours(
    engine: Engine, scratch: Path, image: str, lock: Lock
) -> tuple[tuple[Built, ...], str]:
    """Build twice from nothing, then the next night with what is cached; and measure byte code."""
    store = Store(Places.from_environment(os.environ).store)
    night = next_night(scratch, image, lock, store)
    try:
        engine.prune()
        first = build_ours(engine, ROOT, image)
        engine.prune()
        second = build_ours(engine, ROOT, image)
        third = build_ours(engine, night.project, image)
        return (first, second, third), byte_code(engine, third.name)
    finally:
        night.wheel.unlink()


def measure_plain(engine: Engine, scratch: Path, image: str, lock: Lock) -> tuple[Built, ...]:
    """Do the same with theirs."""
    folder = plain_folder(scratch, image, lock)
    engine.prune()
    first = build_plain(engine, folder)
    engine.prune()
    second = build_plain(engine, folder)
    (wheel,) = folder.glob(f"wheels/{lock.header.vllm.package}-*.whl")
    other = wheel.with_suffix(".new")
    edited(wheel, other)
    # Never into the old file: it is a link into the store.
    other.replace(wheel)
    return first, second, build_plain(engine, folder)


def row(name: str, built: tuple[Built, ...]) -> str:
    """Print one row of the table."""
    first, second, night = built
    cells = (
        name,
        str(len(first.layers)),
        f"{first.bytes / 1e6:.0f}",
        f"{first.seconds:.0f}",
        "yes" if first.digest == second.digest else "no",
        f"{night.pulled_after(second) / 1e6:.0f}",
        f"{night.seconds:.0f}",
        f"{night.seconds / second.seconds:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def main(image: str = "cuda13-sm120") -> None:
    """Measure both and print the table and the ratios."""
    lock = read_lock(ROOT, image)
    with tempfile.TemporaryDirectory(prefix="nightlock-bench-") as folder:
        scratch = Path(folder)
        with engine(scratch) as found:
            data = found.docker_run("info", "--format", "{{.DockerRootDir}}").strip()
            found.prune()
            free = shutil.disk_usage(data).free
            if free < NEEDED:
                raise SystemExit(f"{free / 1e9:.0f} GB free, {NEEDED / 1e9:.0f} GB needed: {data}")
            ours, imports = measure_ours(found, scratch, image, lock)
            plain = measure_plain(found, scratch, image, lock)
    pulled, theirs = ours[2].pulled_after(ours[1]), plain[2].pulled_after(plain[1])
    largest = max(size for layer, size in ours[2].layers.items() if layer not in ours[1].layers)
    sys.stdout.write(
        "| | layers | MB | build s | built again: same digest | MB to pull when vLLM changed "
        "| rebuild s | of a build |\n|---|---|---|---|---|---|---|---|\n"
        f"{row('nightlock', ours)}\n{row('one `pip install`', plain)}\n\n"
        f"pulled / the changed layer {pulled / largest:.3f}, theirs / ours {theirs / pulled:.1f}, "
        f"whole image ours / theirs {ours[0].bytes / plain[0].bytes:.2f}\n{imports}\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
