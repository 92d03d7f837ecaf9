"""A registry over HTTP: manifests and blobs, byte for byte (OCI distribution-spec 1.1).

What comes is checked against its digest before it is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from builder.core.hash_change import other_bytes
from builder.core.lock import digest_of
from builder.core.manifest import MEDIA_TYPES, Descriptor, ImageConfig, Manifest
from builder.core.reference import ImageRef
from builder.edge.download import download
from builder.edge.registry_answer import UNUSABLE, bounded, expect, json_table, quoted
from builder.edge.registry_connection import Connection
from builder.errors import BadInput, RegistryError


class Registry(Connection):
    """One registry; use as a context manager."""

    def find_manifest(self, ref: ImageRef) -> Manifest | None:
        """Fetch a manifest or index with its exact bytes; None when there is none (end-3).

        Raises HashMismatch when the bytes are not what was asked for.
        """
        response = self.read(
            "GET",
            f"/v2/{ref.repository}/manifests/{ref.target}",
            subject=str(ref),
            scope=f"repository:{ref.repository}:pull",
            headers={"Accept": ", ".join(MEDIA_TYPES)},
        )
        if response.status_code == 404:
            return None
        expect(response, str(ref), 200)
        data = bounded(response, str(ref))
        found = digest_of(data)
        stated = ref.digest or response.headers.get("Docker-Content-Digest", "")
        if stated.startswith("sha256:") and stated != found:
            raise other_bytes(
                f"the registry sent bytes with digest {found}, not {stated}",
                subject=str(ref),
                action="a proxy or a damaged registry altered them; push the image again",
                key="blob-damaged",
            )
        return Manifest.parse(data, response.headers.get("Content-Type", ""), str(ref))

    def manifest(self, ref: ImageRef) -> Manifest:
        """Fetch a manifest or index; raises BadInput when there is none."""
        found = self.find_manifest(ref)
        if found is None:
            raise BadInput(
                "the registry has no such image",
                subject=str(ref),
                action="check repository and tag; `nightlock build IMAGE --push REPO` pushes one",
            )
        return found

    def find_digest(self, ref: ImageRef) -> str:
        """Digest a tag names now, without its bytes; empty when there is none (end-3)."""
        response = self.read(
            "HEAD",
            f"/v2/{ref.repository}/manifests/{ref.target}",
            subject=str(ref),
            scope=f"repository:{ref.repository}:pull",
            headers={"Accept": ", ".join(MEDIA_TYPES)},
        )
        if response.status_code == 404:
            return ""
        expect(response, str(ref), 200)
        stated = response.headers.get("Docker-Content-Digest", "")
        if stated.startswith("sha256:"):
            return str(stated)
        found = self.find_manifest(ref)
        return found.digest if found else ""

    def put_manifest(self, ref: ImageRef, manifest: Manifest) -> str:
        """Put exactly these bytes under a tag or digest (end-7).

        Returns the subject that the registry says it recorded a referrer of (`OCI-Subject`); empty
        when it says nothing, as every registry without the referrers API.

        Raises HashMismatch when the registry says that it stored other bytes.
        """
        response = self.write(
            "PUT",
            f"/v2/{ref.repository}/manifests/{ref.target}",
            subject=str(ref),
            scope=f"repository:{ref.repository}:pull,push",
            headers={"Content-Type": manifest.media_type},
            content=manifest.data,
        )
        expect(response, str(ref), 201, 200, 202)
        stated = response.headers.get("Docker-Content-Digest", "")
        if stated.startswith("sha256:") and stated != manifest.digest:
            raise other_bytes(
                f"the registry stored {stated}, not {manifest.digest}",
                subject=str(ref),
                action="look at what the tag names now, and at what stands before the registry",
                key="promotion-changes-digest",
            )
        return str(response.headers.get("OCI-Subject", ""))

    def blob(self, ref: ImageRef, digest: str) -> bytes:
        """Fetch a small blob, as an image config (end-2); raises HashMismatch, RegistryError."""
        subject = f"{ref.name}@{digest}"
        response = self.read(
            "GET",
            f"/v2/{ref.repository}/blobs/{digest}",
            subject=subject,
            scope=f"repository:{ref.repository}:pull",
        )
        expect(response, subject, 200)
        data = bounded(response, subject)
        if digest_of(data) != digest:
            raise other_bytes(
                f"the registry sent bytes with digest {digest_of(data)}",
                subject=subject,
                action="a proxy or a damaged registry altered them; push the image again",
                key="blob-damaged",
            )
        return data

    def has_blob(self, ref: ImageRef, digest: str) -> bool:
        """Whether a blob is there (end-2)."""
        response = self.read(
            "HEAD",
            f"/v2/{ref.repository}/blobs/{digest}",
            subject=f"{ref.name}@{digest}",
            scope=f"repository:{ref.repository}:pull",
        )
        if response.status_code == 404:
            return False
        expect(response, f"{ref.name}@{digest}", 200)
        return True

    def put_blob(self, ref: ImageRef, data: bytes) -> str:
        """Upload a small blob, unless it is there already, and return its digest (end-4a, end-6).

        Raises RegistryError when the registry does not take it, or names no place to put it to.
        """
        digest = digest_of(data)
        if self.has_blob(ref, digest):
            return digest
        subject = f"{ref.name}@{digest}"
        scope = f"repository:{ref.repository}:pull,push"
        begun = self.write(
            "POST", f"/v2/{ref.repository}/blobs/uploads/", subject=subject, scope=scope
        )
        expect(begun, subject, 202)

        place = self.upload_place(begun, digest, subject)
        done = self.write(
            "PUT",
            place,
            subject=subject,
            scope=scope,
            headers={"Content-Type": "application/octet-stream"},
            content=data,
        )
        expect(done, subject, 201, 204)
        return digest

    def download(
        self, ref: ImageRef, blob: Descriptor, target: Path, on_bytes: Callable[[int], None]
    ) -> None:
        """Make `target` hold a blob of any size, going on from what lies there; not checked."""
        # Logs in as well: a long answer cannot ask who we are.
        if not self.has_blob(ref, blob.digest):
            raise RegistryError(
                "the registry has the image, and lacks a part of it",
                subject=f"{ref.name}@{blob.digest}",
                action="push the image again, or take another one",
            )
        url = str(self._client.base_url.join(f"/v2/{ref.repository}/blobs/{blob.digest}"))
        token = self._tokens.header(f"repository:{ref.repository}:pull")
        download(self._client, url, target, size=blob.size, on_bytes=on_bytes, headers=token)

    def config(self, ref: ImageRef, manifest: Manifest, platform: str = "") -> ImageConfig:
        """Fetch the config of an image; of an index, that of `platform` or of its only one.

        Raises BadInput when an index has no such platform.
        """
        if manifest.is_index:
            wanted = platform or (manifest.platforms[0] if len(manifest.platforms) == 1 else "")
            child = manifest.child(wanted)
            if child is None:
                raise BadInput(
                    f"the image has no platform {wanted or '(none asked for)'}",
                    subject=str(ref),
                    action=f"it has: {', '.join(manifest.platforms) or 'none'}",
                )
            manifest = self.manifest(ref.with_digest(child.digest))
        if manifest.body.config is None:
            raise RegistryError(
                "the manifest has no config",
                subject=str(ref),
                action="check that the reference names a container image, not another artifact",
            )
        return ImageConfig.parse(self.blob(ref, manifest.body.config.digest), str(ref))

    def tags(self, ref: ImageRef) -> Iterator[str]:
        """List the tags of a repository, page by page (end-8); none when it is not there."""
        path = f"/v2/{ref.repository}/tags/list?n=1000"
        while path:
            response = self.read(
                "GET", path, subject=ref.name, scope=f"repository:{ref.repository}:pull"
            )
            if response.status_code == 404:
                return
            expect(response, ref.name, 200)
            try:
                yield from _names(response)
                path = self.next_page(response, path)
            except UNUSABLE as error:
                raise RegistryError(
                    f"the registry's list of tags cannot be read: {quoted(error)}",
                    subject=ref.name,
                    action="look at the registry's log, and at what stands before it",
                ) from None

    def delete(self, ref: ImageRef, digest: str) -> bool:
        """Delete a manifest by digest, and so every tag of it; False when it was not there (end-9).

        Raises RegistryError when the registry does not delete.
        """
        subject = f"{ref.name}@{digest}"
        response = self.write(
            "DELETE",
            f"/v2/{ref.repository}/manifests/{digest}",
            subject=subject,
            scope=f"repository:{ref.repository}:pull,delete",
        )
        if response.status_code == 404:
            return False
        expect(response, subject, 202, 200)
        return True


def _names(response: httpx.Response) -> list[str]:
    # Registries say `null` for a repository whose tags are all gone.
    names = json_table(response).get("tags") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("`tags` is not a list of names")
    return names
