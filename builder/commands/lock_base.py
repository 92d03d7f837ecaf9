"""The step of `lock` for bases that are images: which bytes, what they hold, what goes on top."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from builder.commands.context import Context
from builder.commands.lock_image import Job
from builder.core.base_facts import BaseFacts
from builder.core.image_base import ImageBase, refuse_foreign, refuse_unfit
from builder.core.pins import DebPin
from builder.core.reference import ImageRef
from builder.core.spec import ImageSpec
from builder.edge import base_image, debs
from builder.edge.registry import Registry
from builder.edge.store import Store


def with_bases(context: Context, jobs: Sequence[Job]) -> list[Job]:
    """Give each image on an image its base for every platform of image.toml.

    A locked digest stays while image.toml names the same reference, as a locked version does;
    `--upgrade` takes what the tag names now. glibc and Python follow from the base, and with them
    which wheels fit, so this comes before vLLM is chosen.

    Raises SpecError when the image cannot stand on its base, BadInput, Refused, NetworkError.
    """
    return [
        replace(
            job,
            bases={
                platform: _base(context, job, platform, image)
                for platform in job.spec.image.platforms
            },
        )
        if (image := job.spec.base.image)
        else job
        for job in jobs
    ]


def _base(context: Context, job: Job, platform: str, image: str) -> ImageBase:
    spec, ref = job.spec, ImageRef.parse(image)
    with context.output.step(f"base {spec.name} {platform}", f"reading {ref} for {platform}"):
        digest = _kept(job, platform)
        if not digest:
            with Registry.open(ref.registry, os.environ) as registry:
                digest = base_image.find_platform(registry, ref, platform)
        facts = _facts(context, ref, digest, platform)
        base = ImageBase(digest=digest, facts=facts, debs=_packages(context, spec, platform, facts))
    refuse_unfit(spec, platform, base)
    return base


def _kept(job: Job, platform: str) -> str:
    """Digest of the earlier lock, unless it may move; empty: ask the registry."""
    if job.previous is None or job.upgrade:
        return ""
    locked = job.previous.header.base
    return locked.images.get(platform, "") if locked.image == job.spec.base.image else ""


def _facts(context: Context, ref: ImageRef, digest: str, platform: str) -> BaseFacts:
    cache = context.places.cache / "bases"
    found = base_image.find_facts(digest, cache)
    if found is not None:
        return found
    store = Store(context.places.store)
    stored = base_image.find_stored(digest, store)
    if stored is None:
        stored = bring_base(context, ref, digest, store)
    return base_image.facts_of(stored, platform, cache)


def bring_base(
    context: Context, ref: ImageRef, digest: str, store: Store
) -> base_image.StoredImage:
    """Bring a base image into the store; raises as `base_image.find_image` and `bring`."""
    with Registry.open(ref.registry, os.environ) as registry:
        image = base_image.find_image(registry, ref, digest, store)
        with context.output.bar(f"fetching {ref}", image.lacking_bytes) as bar:
            base_image.bring(registry, ref, image, bar.advance)
    return image


def _packages(
    context: Context, spec: ImageSpec, platform: str, facts: BaseFacts
) -> tuple[DebPin, ...]:
    if not spec.base.packages:
        return ()
    refuse_foreign(spec, facts)
    return debs.resolve_onto(
        facts.status,
        facts.codename,
        spec.base.packages,
        platform,
        context.settings.debian,
        context.places.cache / "apt",
    )
