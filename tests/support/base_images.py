"""Images with layers, as a base has them: made by hand, pushed by plain requests."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from builder.core.lock import digest_of
from builder.core.manifest import DOCKER_MANIFEST
from tests.support.registry import FakeRegistry, put_manifest

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10

Package: python3-minimal
Status: install ok installed
Architecture: amd64
Version: 3.11.2-1+b1
"""


def os_release(identity: str = "debian", codename: str = "bookworm") -> str:
    """Spell os-release(5)."""
    return f'PRETTY_NAME="of the tests"\nID={identity}\nVERSION_CODENAME="{codename}"\n'


def libc(version: str) -> str:
    """Return the words by which glibc names itself."""
    return f"\0\0GNU C Library (Debian GLIBC {version}-9) stable release version {version}.\n\0"


def system(*, python: str = "3.11", glibc: str = "2.36") -> dict[str, str]:
    """Return what makes a Debian base in the eyes of a lock; `->` begins a link's target."""
    return {
        "etc/os-release": "->../usr/lib/os-release",
        "usr/lib/os-release": os_release(),
        "var/lib/dpkg/status": STATUS,
        "lib": "->usr/lib",
        "usr/lib/x86_64-linux-gnu/libc.so.6": libc(glibc),
        "usr/bin/python3": f"->python{python}",
        f"usr/bin/python{python}": "#!",
    }


def dist_info(
    name: str, version: str, folder: str = "usr/lib/python3/dist-packages"
) -> dict[str, str]:
    """Return what an installed package leaves."""
    path = f"{folder}/{name.replace('-', '_')}-{version}.dist-info/METADATA"
    return {path: f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nA text: long.\n"}


def layer(content: Mapping[str, str]) -> bytes:
    """Pack files as a gzip layer; a value that begins with `->` is a symbolic link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, text in content.items():
            entry = tarfile.TarInfo(path)
            if text.startswith("->"):
                entry.type, entry.linkname = tarfile.SYMTYPE, text.removeprefix("->")
                tar.addfile(entry)
            else:
                data = text.encode()
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


@dataclass(frozen=True)
class LayeredImage:
    """A manifest (Docker's media types, which most bases have) and its blobs."""

    layers: Sequence[bytes]
    architecture: str = "amd64"
    config: Mapping[str, object] = field(default_factory=dict)

    @property
    def config_data(self) -> bytes:
        """Bytes of the config."""
        diffs = [digest_of(gzip.decompress(data)) for data in self.layers]
        return json.dumps(
            {
                "architecture": self.architecture,
                "os": "linux",
                "config": dict(self.config),
                "rootfs": {"type": "layers", "diff_ids": diffs},
            }
        ).encode()

    @property
    def manifest(self) -> bytes:
        """Bytes of the manifest."""
        kind = "application/vnd.docker"

        def row(media_type: str, data: bytes) -> dict[str, object]:
            return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": DOCKER_MANIFEST,
                "config": row(f"{kind}.container.image.v1+json", self.config_data),
                "layers": [row(f"{kind}.image.rootfs.diff.tar.gzip", data) for data in self.layers],
            }
        ).encode()

    @property
    def digest(self) -> str:
        """Digest of the manifest."""
        return digest_of(self.manifest)

    @property
    def blobs(self) -> list[bytes]:
        """Config and layers."""
        return [self.config_data, *self.layers]

    def add_to(self, fake: FakeRegistry, repository: str, tag: str) -> None:
        """Hold it in a registry in memory."""
        fake.put(repository, tag, self.manifest, DOCKER_MANIFEST)
        fake.blobs |= {digest_of(data): data for data in self.blobs}

    def push(self, host: str, repository: str, tag: str) -> None:
        """Push it to a real registry on loopback."""
        with httpx.Client(base_url=f"http://{host}", trust_env=False, timeout=60) as client:
            for data in self.blobs:
                started = client.post(f"/v2/{repository}/blobs/uploads/")
                started.raise_for_status()
                where = httpx.URL(started.headers["Location"])
                where = where.copy_merge_params({"digest": digest_of(data)})
                client.put(where, content=data).raise_for_status()
        put_manifest(host, repository, tag, self.manifest, DOCKER_MANIFEST)
