"""render and build on a real engine: the same digest twice, an image that runs, honest failures."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.commands import build, diff, inspect, render
from builder.commands.build import BuildResult
from builder.commands.context import Context
from builder.core.artifact import CYCLONEDX, IN_TOTO
from builder.core.buildid import Invocation
from builder.core.labels import BUILD_ID
from builder.core.lock import canonical_json
from builder.core.reference import ImageRef
from builder.core.sbom import cyclonedx
from builder.core.settings import DebianSettings
from builder.edge import buildx, cosign, files, process
from builder.edge.engine import Engine
from builder.edge.project import read_lock_folder
from builder.edge.referrers import content, referrers
from builder.edge.registry import Registry
from builder.errors import (
    BuildFailed,
    DiskFull,
    LockFileError,
    NetworkError,
    Refused,
    RegistryError,
)
from tests.support.mini_image import AMD64, GROUPS, mini_project

pytestmark = [pytest.mark.docker, pytest.mark.network]

DEADLINE = 120.0
"""Seconds within which a container or a process must have got somewhere."""


@dataclass(frozen=True, kw_only=True)
class Mini:
    """The mini project, and where its images go."""

    context: Context
    engine: Engine
    repository: ImageRef

    def docker(self, *words: str, check: bool = True) -> str:
        """Run the engine's client and return what it printed, both streams."""
        ran = subprocess.run(
            [self.engine.docker, *words],
            env={**os.environ, **self.engine.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        assert not check or ran.returncode == 0, ran.stdout
        return ran.stdout

    def invocation(self, tag: str) -> Invocation:
        """Return a build of the folder that `render` wrote, under another tag."""
        return Invocation(
            platform=AMD64,
            epoch=1_700_000_000,
            name=f"{self.repository.name}:{tag}",
            labels={},
            push=True,
        )


@pytest.fixture(scope="module")
def mini(
    engine: Engine, engine_context: Context, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mini]:
    """Make the project; take its images and records away afterwards."""
    folder = tmp_path_factory.mktemp("mini")
    context = mini_project(engine_context, folder)
    name = f"{engine.registry}/nightlock-test/{uuid.uuid4().hex[:12]}"
    found = Mini(context=context, engine=engine, repository=ImageRef.parse(name))
    records = context.places.state / "builds"
    before = set(records.glob("*.json"))
    yield found
    for path in set(records.glob("*.json")) - before:
        path.unlink()
    with Registry.open(found.repository.registry, os.environ) as registry:
        for tag in list(registry.tags(found.repository)):
            ref = found.repository.with_tag(tag)
            registry.delete(ref, registry.find_digest(ref))
    images = found.docker("image", "ls", "--quiet", found.repository.name).split()
    if images:
        found.docker("image", "rm", "--force", *set(images))


@pytest.fixture(scope="module")
def built(mini: Mini) -> BuildResult:
    """Build it as a user does."""
    return build.run(mini.context, "mini", push=mini.repository.name).result


@pytest.fixture(scope="module")
def folder(mini: Mini, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the whole folder."""
    out = tmp_path_factory.mktemp("rendered") / "mini"
    render.run(mini.context, "mini", out=out)
    return out


def test_the_result_says_what_the_registry_holds(mini: Mini, built: BuildResult) -> None:
    """Digest, layers and labels are read back: base, byte code of Python, groups, our own files."""
    ref = mini.repository.with_tag(built.tags[0])
    with Registry.open(ref.registry, os.environ) as registry:
        manifest = registry.manifest(ref)
        labels = registry.config(ref, manifest).labels
    assert manifest.digest == built.digest
    assert dict(labels) == built.labels
    assert built.build_id == labels[BUILD_ID]
    assert 'A "small" image for $5' == labels["org.opencontainers.image.description"]
    assert len(GROUPS) + 3 == len(built.layers)
    assert built.layers[-1].size < 1_000_000
    assert {"application/vnd.oci.image.layer.v1.tar+zstd"} == {
        layer.media_type for layer in manifest.body.layers
    }
    assert not built.cached
    assert not list((mini.context.places.cache / "build").glob("mini-*/*"))


def test_a_second_build_is_recognised(mini: Mini, built: BuildResult) -> None:
    """Nothing is built, and the answer is the same."""
    again = build.run(mini.context, "mini", push=mini.repository.name).result
    assert again.cached
    assert built.model_dump(exclude={"cached", "seconds"}) == again.model_dump(
        exclude={"cached", "seconds"}
    )


def test_a_candidate_tag_that_names_something_else_is_refused(
    mini: Mini, built: BuildResult
) -> None:
    """Somebody else's image under our tag is never handed on as ours."""
    ref = mini.repository.with_tag(built.tags[0])
    mini.docker("pull", "--quiet", built.reference)
    other = f"{mini.repository.name}:other"
    text = f"FROM {built.reference}\nLABEL {BUILD_ID}=other\n"
    process.run(
        [mini.engine.docker, "build", "--quiet", "--provenance=false", "--tag", other, "-"],
        stdin=text.encode(),
        environment={**os.environ, **mini.engine.environment},
    )
    mini.docker("push", "--quiet", other)
    with Registry.open(ref.registry, os.environ) as registry:
        ours, theirs = registry.manifest(ref), registry.manifest(ref.with_tag("other"))
        registry.put_manifest(ref, theirs)
        try:
            with pytest.raises(Refused, match=BUILD_ID.rsplit(".", 1)[-1]):
                build.run(mini.context, "mini", push=mini.repository.name)
        finally:
            registry.put_manifest(ref, ours)


def test_two_builds_give_one_digest(
    mini: Mini, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the cache and without it, later, from another folder, in another time zone, umask."""
    first = buildx.build(mini.engine, mini.invocation("first"), folder, lambda _: None)
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    other = tmp_path / "elsewhere"
    before = os.umask(0o027)
    try:
        render.run(mini.context, "mini", out=other)
    finally:
        os.umask(before)
    for path in other.rglob("*"):
        if path.is_file() and path.stat().st_nlink == 1:
            os.utime(path, (1_000_000_000, 1_000_000_000))
    uncached = replace(mini.invocation("second"), cache=False)
    assert first == buildx.build(mini.engine, uncached, other, lambda _: None)


def test_the_first_comment_builds_the_folder_without_nightlock(
    mini: Mini, built: BuildResult, folder: Path
) -> None:
    """Plain docker, in the folder, as the Dockerfile says; the same layers come out."""
    first = (folder / "Dockerfile").read_text().splitlines()[0]
    words = shlex.split(first.removeprefix("# "))
    assert "docker" == words[0]
    process.run(
        [mini.engine.docker, *words[1:]],
        cwd=folder,
        environment={**os.environ, **mini.engine.environment},
    )
    name = next(
        field.removeprefix("name=")
        for word in words
        if word.startswith("type=image")
        for field in word.split(",")
        if field.startswith("name=")
    )
    mini.docker("pull", "--quiet", built.reference)
    layers = [
        json.loads(mini.docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image))
        for image in (name, built.reference)
    ]
    mini.docker("image", "rm", name)
    assert layers[0] == layers[1]


CHECKS = """
import base64, csv, hashlib, importlib.metadata, importlib.util, json, os, pathlib, stat, sys
site = pathlib.Path(next(path for path in sys.path if path.endswith("site-packages")))
bad = []
listed = set()
for dist in importlib.metadata.distributions(path=[str(site)]):
    for name, digest, size in csv.reader(dist.read_text("RECORD").splitlines()):
        path = site / name
        listed.add(os.path.normpath(path))
        if digest:
            data = path.read_bytes()
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if digest != "sha256=" + found or int(size) != len(data):
                bad.append(name)
modules = {name for name in listed if name.endswith(".py")}
compiled = {importlib.util.cache_from_source(name) for name in modules}
strays = [str(p) for p in site.rglob("*") if p.is_file() and str(p) not in listed | compiled]
slow = [name for name in modules if not os.path.exists(importlib.util.cache_from_source(name))]
times = {int(p.lstat().st_mtime) for p in pathlib.Path("/opt").rglob("*")}
owners = {(p.lstat().st_uid, p.lstat().st_gid) for p in pathlib.Path("/opt").rglob("*")}
writable = [str(p) for p in pathlib.Path("/opt").rglob("*")
            if not p.is_symlink() and p.stat().st_mode & 0o022]
import click, markupsafe._speedups, yaml
assert yaml.CSafeLoader
print(json.dumps({"bad": bad, "strays": strays, "slow": slow,
    "times": sorted(times), "owners": sorted(owners), "writable": writable,
    "python": sys.executable, "prefix": sys.prefix,
    "tools": [n for n in ("uv", "pip") if pathlib.Path("/opt/venv/bin", n).exists()
              or pathlib.Path("/usr/local/bin", n).exists()]}))
"""


def test_what_is_inside(mini: Mini, built: BuildResult) -> None:
    """RECORD is true, byte code lies beside each module, nothing else is there."""
    said = mini.docker("run", "--rm", "--network=none", built.reference, "python", "-c", CHECKS)
    assert {
        "bad": [],
        "strays": [],
        "slow": [],
        "times": [315532800],
        "owners": [[0, 0]],
        "writable": [],
        "python": "/opt/venv/bin/python",
        "prefix": "/opt/venv",
        "tools": [],
    } == json.loads(said.splitlines()[-1])


def test_scripts_run_and_the_lock_is_readable(mini: Mini, built: BuildResult) -> None:
    """Scripts and binaries of wheels are on PATH; the lock is the project's, to the byte."""
    assert "4." in mini.docker("run", "--rm", built.reference, "tqdm", "--version")
    assert "1." in mini.docker("run", "--rm", built.reference, "ninja", "--version")
    text = mini.docker("run", "--rm", built.reference, "cat", "/opt/nightlock/lock/lock.toml")
    assert (mini.context.lock_folder("mini") / "lock.toml").read_text() == text


@pytest.mark.parametrize("user", ["2000:0", "4321:0", "4321:8765"])
def test_any_user_on_a_read_only_root(mini: Mini, built: BuildResult, user: str) -> None:
    """A UID without passwd entry can say who it is, and has a home and caches to write to."""
    code = (
        "import getpass, os, pathlib; home = pathlib.Path(os.path.expanduser('~'));"
        "(home / 'x').write_text('x'); print(getpass.getuser(), home)"
    )
    common = ["--rm", "--network=none", "--user", user]
    plain = mini.docker("run", *common, built.reference, "python", "-c", code)
    assert "vllm /cache" == plain.strip()
    locked = ["--read-only", "--tmpfs", "/tmp"]  # noqa: S108 - in the container
    said = mini.docker("run", *common, *locked, built.reference, "python", "-c", code)
    assert f"vllm /tmp/cache-{user.partition(':')[0]}" == said.splitlines()[-1]
    assert "nightlock: /cache cannot be written" in said


def test_it_serves_is_healthy_and_stops(mini: Mini, built: BuildResult) -> None:
    """The model is handed over, the probe finds the port, SIGTERM reaches the server."""
    name = f"nightlock-test-{uuid.uuid4().hex[:12]}"
    quick = ["--shm-size=1g", "--health-interval=1s", "--health-start-period=1s"]
    mini.docker(
        "run", "--detach", "--name", name, *quick, built.reference, "org/name", "--port", "9123"
    )  # fmt: skip
    try:
        _until(lambda: "healthy" == _inspect(mini, name, "{{.State.Health.Status}}"))
        said = mini.docker("logs", name).splitlines()
        assert "nightlock: ok   cache: /cache can be written" in said
        started = next(line for line in said if not line.startswith("nightlock: "))
        assert "['--model', 'org/name', '--port', '9123'] 2000 /cache/huggingface" == started
        assert "127.0.0.1:9123: ok" in _inspect(mini, name, "{{json .State.Health}}")
        mini.docker("stop", "--time", "60", name)
        assert "7" == _inspect(mini, name, "{{.State.ExitCode}}")
    finally:
        mini.docker("rm", "--force", name)


def test_a_killed_server_takes_the_container_down(mini: Mini, built: BuildResult) -> None:
    """No worker outlives its front end: PID 1 ends with it."""
    script = (
        'import os, signal, subprocess; subprocess.Popen(["sleep", "600"]);'
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    name = f"nightlock-test-{uuid.uuid4().hex[:12]}"
    mini.docker("run", "--name", name, built.reference, "python", "-c", script, check=False)
    try:
        assert "137 false" == _inspect(mini, name, "{{.State.ExitCode}} {{.State.Running}}")
    finally:
        mini.docker("rm", "--force", name)


def test_wrong_bytes_fail_the_build_and_push_nothing(
    mini: Mini, folder: Path, tmp_path: Path
) -> None:
    """The installer checks every wheel again; the step, its lines and the place are named."""
    tampered = tmp_path / "tampered"
    shutil.copytree(folder, tampered, copy_function=_link)
    (wheel,) = (tampered / "wheels/group-click").glob("*.whl")
    data = bytearray(wheel.read_bytes())
    wheel.unlink()
    data[len(data) // 2] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(BuildFailed, match=r"group-click(?s:.)*click-") as raised:
        buildx.build(mini.engine, mini.invocation("tampered"), tampered, lambda _: None)
    assert f"{tampered}/Dockerfile:" in raised.value.subject
    with Registry.open(mini.repository.registry, os.environ) as registry:
        assert "" == registry.find_digest(mini.repository.with_tag("tampered"))


def test_a_silent_registry_is_the_outside(mini: Mini, folder: Path) -> None:
    """Trying again may help, so it is not a build error."""
    nowhere = replace(mini.invocation("x"), name="localhost:1/nightlock-test/mini:x")
    try:
        with pytest.raises(RegistryError, match="connection refused"):
            buildx.build(mini.engine, nowhere, folder, lambda _: None)
    finally:
        # The engine has it all the same: only the push failed.
        mini.docker("image", "rm", "--force", nowhere.name)


def test_too_little_room_is_said_before_anything_is_copied(
    mini: Mini, built: BuildResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is needed follows from the files the lock names; the message has both numbers.

    Stages of the build before count as long as the engine keeps them.
    """
    steps: list[object] = []
    monkeypatch.setattr(buildx, "build", lambda *words: steps.append(words))
    repository = f"{mini.repository.name}/roomless"
    monkeypatch.setattr(files, "free_bytes", lambda _: 200_000_000)
    with pytest.raises(DiskFull, match=r"building mini needs [01]\.\d GB, 0\.2 GB are free"):
        build.run(mini.context, "mini", push=repository)
    monkeypatch.setattr(buildx, "cached_bytes", lambda _: 0)
    monkeypatch.setattr(files, "free_bytes", lambda _: 1_000_000_000)
    with pytest.raises(DiskFull, match=r"building mini needs [12]\.\d GB, 1\.0 GB are free"):
        build.run(mini.context, "mini", push=repository)
    assert [] == steps


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(mini: Mini, number: signal.Signals) -> None:
    """The step is cancelled in BuildKit, no folder stays, and the next build is a whole one."""
    template = mini.context.project / "images/mini/Dockerfile.j2"
    plain = template.read_text()
    mark = f"600.{uuid.uuid4().int % 10**9}"
    template.write_text(
        plain + "{% block environment %}\n"
        f"RUN --network=none echo started-{mark} && sleep {mark}\n"
        "{% endblock %}\n"
    )
    command = [sys.executable, "-m", "builder", "build", "mini", "--push", mini.repository.name]
    environment = {
        **os.environ,
        **mini.engine.environment,
        "XDG_STATE_HOME": str(mini.context.places.state.parent),
        "XDG_CACHE_HOME": str(mini.context.places.cache.parent),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    running = subprocess.Popen(
        command, cwd=mini.context.project, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        _until(lambda: _sleeps(mark) or running.poll() is not None)
        running.send_signal(number)
        _, said = running.communicate(timeout=DEADLINE)
    finally:
        template.write_text(plain)
        if running.poll() is None:
            running.kill()
            running.wait()
    assert 130 == running.returncode, said
    assert "Traceback" not in said
    _until(lambda: not _sleeps(mark))
    assert not (mini.context.places.cache / "build/mini-linux-amd64").exists()


def _sleeps(mark: str) -> bool:
    """Whether the step that sleeps for `mark` runs on this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{mark}\0".encode():
                return True
        except OSError:
            continue
    return False


def _inspect(mini: Mini, name: str, form: str) -> str:
    return mini.docker("inspect", "--format", form, name).strip()


def _link(source: str, target: str) -> str:
    os.link(source, target)
    return target


def _until(holds: object) -> None:
    """Wait until a condition holds; fail when it does not within the deadline."""
    assert callable(holds)
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.1)


def test_sbom_and_provenance_are_attached(mini: Mini, built: BuildResult) -> None:
    """They name this lock, this digest and this build; the tag still names the image alone."""
    ref = ImageRef.parse(built.reference)
    with Registry.open(ref.registry, os.environ) as registry:
        found = {
            one.artifact_type: content(registry, ref, one)
            for one in referrers(registry, ref, built.digest)
        }
        annotations = registry.manifest(ref).body.annotations
    lock = read_lock_folder(mini.context.lock_folder("mini"))
    bill = json.loads(found[CYCLONEDX])
    debs = [row for row in bill["components"] if row.get("purl", "").startswith("pkg:deb/")]
    licences = {row["name"]: row.pop("licenses", []) for row in debs}
    assert cyclonedx(lock, AMD64) == canonical_json(bill)
    assert [{"license": {"acknowledgement": "declared", "id": "MIT"}}] == licences["tini"]
    assert sum(map(bool, licences.values())) > len(debs) * 0.8
    statement = json.loads(found[IN_TOTO])
    assert built.digest == "sha256:" + statement["subject"][0]["digest"]["sha256"]
    definition = statement["predicate"]["buildDefinition"]
    assert built.build_id == definition["internalParameters"]["buildId"]
    assert built.lock_digest == definition["externalParameters"]["lock"]
    assert {"sbom", "provenance"} == set(built.attached)
    assert built.labels == annotations
    seen = inspect.run(mini.context, built.reference).result
    assert (True, built.lock_digest, built.build_id) == (
        seen.identity.ours,
        seen.identity.lock,
        seen.identity.build,
    )
    assert built.size == seen.size
    assert built.attached == {file.kind: file.digest for file in seen.attached}


def test_the_lock_is_read_from_a_pulled_image_too(mini: Mini, built: BuildResult) -> None:
    """From the registry, and from the engine where the registry has lost it; nothing runs."""
    lock = mini.context.lock_folder("mini")
    assert diff.run(mini.context, built.reference, str(lock)).result.same
    mini.docker("pull", "--quiet", built.reference)
    # A registry that is down: nobody listens on that port.
    gone = f"127.0.0.1:9/{mini.repository.repository}:pulled"
    mini.docker("tag", built.reference, gone)
    before = mini.docker("ps", "--all", "--quiet", "--filter", f"ancestor={gone}")
    try:
        outcome = diff.run(mini.context, gone, str(lock))
        assert before == mini.docker("ps", "--all", "--quiet", "--filter", f"ancestor={gone}")
    finally:
        mini.docker("rmi", gone)
    assert (True, built.lock_digest) == (outcome.result.same, outcome.result.old.lock)
    with pytest.raises(NetworkError):
        diff.run(mini.context, gone, str(lock))


def test_a_pulled_image_of_others_holds_no_lock(mini: Mini, tmp_path: Path) -> None:
    """The engine knows it, the registry does not answer, and it is not ours."""
    name = f"127.0.0.1:9/{mini.repository.repository}:other"
    archive = tmp_path / "empty.tar"
    with tarfile.open(archive, "w"):
        pass
    mini.docker("import", str(archive), name)
    try:
        with pytest.raises(LockFileError, match="holds no lock"):
            diff.run(mini.context, name, str(mini.context.lock_folder("mini")))
    finally:
        mini.docker("rmi", name)


def test_a_named_key_signs_image_and_documents(
    mini: Mini, built: BuildResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that was there already is signed as well; a second time adds nothing."""
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    tools = mini.context.places.cache / "tools"
    program = cosign.find_cosign(tools) or cosign.unpack_cosign(tools, DebianSettings())
    process.run([program, "generate-key-pair"], cwd=tmp_path)
    key = str(tmp_path / "cosign.key")
    for _ in range(2):
        signed = build.run(mini.context, "mini", push=mini.repository.name, sign=key).result
        assert {built.digest, *built.attached.values()} == set(signed.signed)
        assert built.digest == signed.digest
    seen = inspect.run(mini.context, built.reference).result
    assert (1, {1}) == (seen.signatures, {file.signatures for file in seen.attached})
    assert [] == built.signed
