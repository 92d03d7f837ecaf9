"""`nightlock build IMAGE`: render, build, push under the candidate tag, read back."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from builder.commands.build_documents import attach_documents
from builder.commands.build_room import require_room, stages_of
from builder.commands.context import Context, Outcome
from builder.commands.render import Plan, large_files, plan_build, with_kernels
from builder.commands.render_base import BaseFiles, find_or_make_base
from builder.commands.signer import open_signer
from builder.core.buildid import BuildRecord, Invocation, build_id
from builder.core.dockerfile import base_context
from builder.core.document import Result
from builder.core.labels import BASE_DIGEST, BUILD_ID, KERNELS, image_labels
from builder.core.manifest import ImageConfig, Manifest
from builder.core.provenance import Built
from builder.core.reference import ImageRef
from builder.core.steps import Step
from builder.core.tags import candidate_tag
from builder.edge import builds, buildx, files
from builder.edge import context as build_context
from builder.edge.distribution import own_version
from builder.edge.engine import Engine, require_engine
from builder.edge.registry import Registry
from builder.errors import BadInput, Refused, ToolMissing

_SLOW = 2.0
"""Seconds of a step that is worth a line."""


class LayerRow(Result):
    """One layer of the image, as the registry keeps it."""

    digest: str
    size: int
    """Bytes, compressed."""


class BuildResult(Result):
    """One image in a registry."""

    image: str
    platform: str
    reference: str
    """`registry/repository@sha256:…`: these bytes and no others."""
    digest: str
    tags: list[str]
    build_id: str
    lock_digest: str
    base_digest: str
    buildkit: str
    """The version that built, or would have."""
    layers: list[LayerRow]
    """In the order they are stacked: base, wheel groups, our own files."""
    size: int
    """Bytes a pull of all moves."""
    labels: dict[str, str]
    """As read back from the registry."""
    attached: dict[str, str]
    """`sbom`, `provenance` → digest of the referrer."""
    signed: list[str]
    """Digests that carry a signature by the signing key; none where no key is named."""
    seconds: float
    cached: bool
    """Whether the registry held this build already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One build, decided."""

    plan: Plan
    base: BaseFiles
    target: ImageRef
    build_id: str
    buildkit: str
    builder: str

    @property
    def invocation(self) -> Invocation:
        """The command line."""
        plan = self.plan
        own = {BUILD_ID: self.build_id, BASE_DIGEST: self.base.digest}
        if plan.kernels:
            own[KERNELS] = plan.kernels
        return Invocation(
            platform=plan.platform,
            epoch=plan.lock.header.epoch,
            name=str(self.target),
            labels=own,
            annotations=image_labels(plan.spec, plan.lock, plan.platform) | own,
            contexts=base_context(plan.lock, plan.platform),
            push=True,
            builder=self.builder,
        )

    def built(self, digest: str) -> Built:
        """Describe it for its provenance."""
        return Built(
            name=self.target.name,
            digest=digest,
            platform=self.plan.platform,
            build_id=self.build_id,
            base="" if self.plan.lock.header.base.image else self.base.digest,
            files=self.plan.digests,
            buildkit=self.buildkit,
            nightlock=own_version(),
        )


def run(
    context: Context,
    image: str,
    *,
    push: str = "",
    builder: str = "",
    platform: str = "",
    emulate: bool = False,
    sign: str = "",
    bundle: Path | None = None,
) -> Outcome[BuildResult]:
    """Build one image and push it to the repository `push`, under its candidate tag alone.

    A build whose id the registry already holds is recognised and not done again. SBOM and
    provenance are attached to it; all three are signed where `sign` or a setting names a key.
    Only with `emulate` is an image built for another architecture than the builder's own. With
    `bundle` the files come from that folder, which `fetch --bundle` wrote.

    Raises:
        StaleLock, SpecError, LockFileError: as `render`.
        BadInput: there is no registry to push to, or the builder would have to emulate.
        BuildFailed: a step failed.
        Refused: the candidate tag names something else than this build.
        Outside: wheels or .debs are not in the store.
        ToolMissing, EngineError, RegistryError, NetworkError, DiskFull: as their names say.

    """
    started = time.monotonic()
    # First: a key that cannot be used must not show only after the build.
    signer = open_signer(context, sign)
    if bundle is not None:
        from builder.commands.bundle import take_in_bundle  # noqa: PLC0415 - it imports this

        take_in_bundle(context, image, bundle)
    plan = plan_build(context, image, platform)
    engine = require_engine(context.places, context.settings, os.environ)
    repository = _repository(context, engine, image, push)
    builder = builder or context.settings.engine.builder
    _require_platform(engine, builder, plan, emulate=emulate)
    plan = with_kernels(context, plan)
    job = decide(context, engine, plan, repository, builder)
    folder = context.places.cache / "build" / f"{image}-{plan.platform.replace('/', '-')}"
    lock = folder.with_name(folder.name + ".lock")
    with Registry.open(repository.registry, os.environ) as registry:
        with files.locked(lock, context.output.note):
            manifest = registry.find_manifest(job.target)
            cached = manifest is not None
            if manifest is None:
                _build(context, engine, job, folder)
                manifest = registry.manifest(job.target)
        config = registry.config(job.target, manifest)
        _check(context, job, manifest, config)
        built = job.built(manifest.digest)
        attached = attach_documents(
            context, registry, repository, manifest, plan.lock, built, job.base
        )
    signed = [manifest.digest, *attached.values()] if signer else []
    if signer:
        signer.sign([repository.with_digest(digest).pinned for digest in signed])
    result = _result(
        job,
        manifest,
        config,
        attached=attached,
        signed=signed,
        seconds=time.monotonic() - started,
        cached=cached,
    )
    return Outcome(result=result, text=_text(result))


def _require_platform(engine: Engine, builder: str, plan: Plan, *, emulate: bool) -> None:
    """Refuse to build slowly by accident, and where nothing could run."""
    wanted = plan.platform
    found = buildx.read_platforms(engine, builder)
    if wanted in found.native or (emulate and wanted in found.emulated):
        return
    where = f"the builder {builder}" if builder else "the engine"
    native = ", ".join(sorted(found.native)) or "of no known platform"
    architecture = wanted.rpartition("/")[2]
    if not emulate:
        raise BadInput(
            f"{where} is {native}, the image is for {wanted}",
            subject=plan.spec.name,
            action=f"build it on a native {architecture} runner or with --builder NAME of one, or "
            "add --emulate, which takes hours",
        )
    raise ToolMissing(
        f"{where} is {native} and has no emulator for {wanted}",
        subject=plan.spec.name,
        action=f"build it on a native {architecture} runner, or register an emulator in the "
        "builder's kernel (Debian: qemu-user-static and binfmt-support)",
    )


def _repository(context: Context, engine: Engine, image: str, push: str) -> ImageRef:
    """Return where to push: what was asked for, the setting, the registry beside the engine."""
    if not push and not context.settings.registry and not engine.registry:
        raise BadInput(
            "there is no registry to push to",
            subject=image,
            action="name a repository with --push, set `registry` in config.toml, or start a "
            "registry on loopback with `nightlock engine start`",
        )
    prefix = context.settings.registry or f"{engine.registry}/nightlock"
    reference = ImageRef.parse(push or f"{prefix}/{image}")
    if reference.tag or reference.digest:
        raise BadInput(
            "--push takes a repository; the tag follows from the build",
            subject=push,
            action=f"write {reference.name}",
        )
    return reference


def decide(context: Context, engine: Engine, plan: Plan, repository: ImageRef, builder: str) -> Job:
    """Find base and builder, and with them the build id; nothing is built.

    Raises Outside, EngineError, ToolMissing, and what making a base raises.
    """
    base = find_or_make_base(context, plan.lock, plan.platform)
    buildkit = buildx.read_version(engine, builder)
    rendered = plan.digests | base.digests
    identity = build_id(plan.lock.digest, rendered, buildkit)
    return Job(
        plan=plan,
        base=base,
        target=repository.with_tag(candidate_tag(plan.spec, plan.lock.header, identity)),
        build_id=identity,
        buildkit=buildkit,
        builder=builder,
    )


def _build(context: Context, engine: Engine, job: Job, folder: Path) -> None:
    """Write the folder, build and push it, remember the digest; the folder goes in any case."""
    links = large_files(context, job.plan, job.base)
    if not job.builder:
        require_room(context, engine, job.plan, job.base, links)
    output = context.output

    def on_step(step: Step) -> None:
        output.event("build-step", step=step.name, seconds=step.seconds, cached=step.cached)
        line = f"  {step.title}: {'cached' if step.cached else f'{step.seconds:.1f} s'}"
        (output.note if step.seconds >= _SLOW else output.detail)(line)

    try:
        files.remove(folder)
        build_context.write_context(folder, {**job.plan.texts, **job.base.texts}, links)
        output.detail(job.invocation.text())
        with output.step("build", f"building {job.target}"):
            digest = buildx.build(engine, job.invocation, folder, on_step)
    finally:
        files.remove(folder)
    record = BuildRecord(
        build_id=job.build_id,
        digest=digest,
        reference=str(job.target),
        stages=tuple(stages_of(job.plan, job.base)),
    )
    builds.write(context.places.state / "builds", record)


def _check(context: Context, job: Job, manifest: Manifest, config: ImageConfig) -> None:
    """Refuse a tag that names something else than this build."""
    record = builds.read(context.places.state / "builds", job.build_id)
    said = config.labels.get(BUILD_ID, "none")
    if said == job.build_id and (record is None or record.digest == manifest.digest):
        return
    expected = f"{record.digest}, as built here" if record else f"build id {job.build_id}"
    raise Refused(
        f"the tag names {manifest.digest} with build id {said}, not {expected}",
        subject=str(job.target),
        action="candidate tags never move: find out who pushed it, then delete it by digest",
    )


def _result(
    job: Job,
    manifest: Manifest,
    config: ImageConfig,
    *,
    attached: dict[str, str],
    signed: list[str],
    seconds: float,
    cached: bool,
) -> BuildResult:
    return BuildResult(
        image=job.plan.spec.name,
        platform=job.plan.platform,
        reference=job.target.with_digest(manifest.digest).pinned,
        digest=manifest.digest,
        tags=[job.target.tag],
        build_id=job.build_id,
        lock_digest=job.plan.lock.digest,
        base_digest=job.base.digest,
        buildkit=job.buildkit,
        layers=[LayerRow(digest=row.digest, size=row.size) for row in manifest.body.layers],
        size=manifest.compressed_bytes,
        labels=dict(config.labels),
        attached=attached,
        signed=signed,
        seconds=round(seconds, 3),
        cached=cached,
    )


def _text(result: BuildResult) -> str:
    name = result.reference.partition("@")[0]
    done = "was there already" if result.cached else f"built in {result.seconds:.0f} s"
    signed = "; signed" if result.signed else ""
    return (
        f"{name}:{result.tags[0]}\n"
        f"  {result.digest}, {done}; {len(result.layers)} layers, {result.size / 1e6:.0f} MB\n"
        f"  attached: {', '.join(result.attached)}{signed}"
    )
