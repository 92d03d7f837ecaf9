"""What is attached to an image in its registry (OCI distribution-spec 1.1, referrers).

Where the registry has the referrers API, it keeps the list. Where it has none (Debian's 2.8), the
list is an index under a tag, which is read, added to and written back: under a lock between
processes of one user on this host, and read back, so that what another host wrote over is written
again. Between write and read-back another host's entry can still be lost; its own read-back finds
that and adds it once more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx

from builder.core.artifact import EMPTY, Artifact, chosen, fallback_tag, with_referrer
from builder.core.manifest import OCI_INDEX, Descriptor, Manifest
from builder.core.places import Places
from builder.core.reference import ImageRef
from builder.edge import files
from builder.edge.registry import Registry
from builder.edge.registry_answer import UNUSABLE, bounded, expect, quoted
from builder.errors import RegistryError

_ROUNDS = 5
"""Times the list is written when others write it too."""
_NO_API = frozenset({400, 404, 405, 406, 501})
"""What registries without the API answer; the spec asks for 404."""


def attach(
    registry: Registry,
    place: ImageRef,
    subject: Manifest,
    artifact: Artifact,
    places: Places,
    waiting: Callable[[str], None],
) -> str:
    """Push a file as a referrer of an image in the repository `place`; return its digest.

    Doing it again changes nothing. The image's own digest stays what it is.

    Raises RegistryError, NetworkError.
    """
    registry.put_blob(place, EMPTY)
    registry.put_blob(place, artifact.data)
    manifest = artifact.manifest(subject)
    known = registry.put_manifest(place.with_digest(manifest.digest), manifest)
    if not known:
        with files.locked(_lock(places, place, subject), waiting):
            _list(registry, place, subject.digest, manifest)
    return manifest.digest


def referrers(
    registry: Registry, place: ImageRef, digest: str, artifact_type: str = ""
) -> tuple[Descriptor, ...]:
    """List what is attached to a digest, of one type where one is named.

    Raises RegistryError, NetworkError.
    """
    found = _by_api(registry, place, digest, artifact_type)
    if found is None:
        listed = registry.find_manifest(place.with_tag(fallback_tag(digest)))
        found = listed.body.manifests if listed is not None and listed.is_index else ()
    return chosen(found, artifact_type)


def content(registry: Registry, place: ImageRef, referrer: Descriptor) -> bytes:
    """Fetch the one file of a referrer; raises RegistryError when it has none, or several."""
    ref = place.with_digest(referrer.digest)
    layers = registry.manifest(ref).body.layers
    if len(layers) != 1:
        raise RegistryError(
            f"the artifact has {len(layers)} files, not one",
            subject=ref.pinned,
            action="look at it with `oras manifest fetch`; nightlock did not attach it",
        )
    return registry.blob(place, layers[0].digest)


def _lock(places: Places, place: ImageRef, subject: Manifest) -> Path:
    mark = hashlib.sha256(f"{place.name}@{subject.digest}".encode()).hexdigest()[:16]
    return places.state / "locks" / f"referrers-{mark}.lock"


def _list(registry: Registry, place: ImageRef, subject: str, manifest: Manifest) -> None:
    """Add to the list under the fallback tag until it is in what is read back."""
    tag = place.with_tag(fallback_tag(subject))
    for _ in range(_ROUNDS):
        wanted = with_referrer(registry.find_manifest(tag), manifest, subject)
        if wanted is None:
            return
        registry.put_manifest(tag, wanted)
    if with_referrer(registry.find_manifest(tag), manifest, subject) is not None:
        raise RegistryError(
            f"the list of what is attached was written over {_ROUNDS} times by others",
            subject=str(tag),
            action="try again when no other host pushes to this image",
        )


def _by_api(
    registry: Registry, place: ImageRef, digest: str, artifact_type: str
) -> tuple[Descriptor, ...] | None:
    """Ask the API, page by page; None when the registry has none."""
    path = f"/v2/{place.repository}/referrers/{digest}"
    if artifact_type:
        path += f"?artifactType={quote(artifact_type, safe='')}"
    subject = place.with_digest(digest).pinned
    found: list[Descriptor] = []
    while path:
        response = registry.read(
            "GET",
            path,
            subject=subject,
            scope=f"repository:{place.repository}:pull",
            headers={"Accept": OCI_INDEX},
        )
        if not found and _has_no_api(response):
            return None
        expect(response, subject, 200)
        found += Manifest.parse(bounded(response, subject), OCI_INDEX, subject).body.manifests
        try:
            path = registry.next_page(response, path)
        except UNUSABLE as error:
            raise RegistryError(
                f"the registry's list of referrers cannot be read: {quoted(error)}",
                subject=subject,
                action="look at the registry's log, and at what stands before it",
            ) from None
    return tuple(found)


def _has_no_api(response: httpx.Response) -> bool:
    """Whether this is no answer of the API: some registries show a page of theirs instead."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
    return response.status_code in _NO_API or (response.status_code == 200 and kind != OCI_INDEX)
