"""A throwaway container of the image's own base, in which another resolver is asked.

The base goes in as an OCI layout with one plain layer (image-spec, image-layout): `docker import`
would compress 500 MB first. Everything else is copied into the container, never into the image:
the host's CA and credentials end with the container.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import docker
from docker.errors import NotFound
from docker.types import Mount

from builder.core.boot import OWNER_LABEL, RUN_LABEL, Owner
from builder.core.second_opinion import PLACE, Ask
from builder.edge import owner
from builder.edge.container import (
    BROKEN,
    explained,
    is_local,
    open_client,
    remove_leftovers,
    remove_run,
)
from builder.edge.engine import Engine
from builder.edge.rootfs import Base
from builder.errors import CommandFailed, EngineError

_API_SECONDS = 600
_NAME = "nightlock-second-opinion"
_CHUNK = 1 << 20
_TAIL_LINES = 30
_PLATFORMS = {"x86_64": "linux/amd64", "amd64": "linux/amd64", "aarch64": "linux/arm64"}


def native_platform(engine: Engine) -> str:
    """OCI platform that the engine's machine runs without emulation; raises EngineError."""
    with explained(engine), open_client(engine, _API_SECONDS) as client:
        said = str(client.info().get("Architecture", ""))
    return _PLATFORMS.get(said, f"linux/{said}")


class Bench:
    """The base in the engine, for as long as questions are asked; a context manager."""

    def __init__(self, engine: Engine, base: Base, platform: str) -> None:
        self._engine = engine
        self._base = base
        self._platform = platform
        self._run = secrets.token_hex(8)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._client = stack.enter_context(open_client(self._engine, _API_SECONDS))
            local = is_local(self._engine)
            remove_leftovers(self._client, same_machine=local)
            _remove_images(self._client, "", same_machine=local)
            stack.callback(_remove_images, self._client, self._run, same_machine=local)
            with explained(self._engine):
                # Its type is a file's; what it does with it takes any pieces.
                pieces: Any = _oci(self._base, self._platform, self._name, self._labels)
                self._client.images.load(pieces)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _name(self) -> str:
        return f"{_NAME}:{self._run}"

    @property
    def _labels(self) -> dict[str, str]:
        return {RUN_LABEL: self._run, OWNER_LABEL: owner.this_process().text}

    def put(
        self,
        question: Ask,
        folders: Mapping[str, Path],
        *,
        visible: tuple[Path, ...] = (),
        host_network: bool,
        on_line: Callable[[str], None],
    ) -> str:
        """Ask, and return the answer's text.

        `folders` maps names below the container's `PLACE` to files or folders that are copied in,
        `visible` are shown read-only under their own path. `host_network` is for an index or a
        proxy on loopback.

        Raises CommandFailed with the resolver's last words, EngineError.
        """
        with ExitStack() as stack:
            stack.callback(remove_run, self._client, self._run, 0)
            with explained(self._engine):
                container = self._client.containers.create(
                    self._name,
                    ["sh", f"{PLACE}/ask.sh"],
                    labels=self._labels,
                    mounts=[
                        Mount(str(path), str(path), "bind", read_only=True) for path in visible
                    ],
                    network_mode="host" if host_network else "bridge",
                )
                container.put_archive("/", _archive(question.files, folders))
                container.start()
                tail: list[str] = []
                for piece in container.logs(stream=True, follow=True):
                    for line in piece.decode(errors="replace").splitlines():
                        tail = [*tail[1 - _TAIL_LINES :], line]
                        on_line(line)
                status = int(container.wait()["StatusCode"])
            if status:
                raise CommandFailed(
                    f"{question.method} in the image's base ended with status {status}",
                    subject=f"{question.method} on {self._platform}",
                    action="read its last words; check proxy and CA with `nightlock doctor`",
                    status=status,
                    tail="\n".join(tail),
                )
            return self._read(container, f"{PLACE}/{question.output}")

    def _read(self, container: Any, path: str) -> str:  # noqa: ANN401 - docker-py is untyped here
        try:
            with explained(self._engine):
                pieces, _ = container.get_archive(path)
                data = b"".join(pieces)
        except EngineError as error:
            raise CommandFailed(
                "the resolver wrote no answer", subject=path, action=error.action
            ) from error
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            member = tar.extractfile(tar.getmembers()[0])
            return member.read().decode() if member is not None else ""


def _remove_images(client: docker.DockerClient, run: str, *, same_machine: bool) -> None:
    """Remove the image of one run, or with an empty `run` those of processes that are dead."""
    with suppress(*BROKEN):
        label = f"{RUN_LABEL}={run}" if run else RUN_LABEL
        for image in client.images.list(name=_NAME, filters={"label": label}):
            whose = Owner.parse(image.labels.get(OWNER_LABEL, ""))
            if run or (whose is not None and owner.is_dead(whose, same_machine=same_machine)):
                with suppress(NotFound):
                    client.images.remove(str(image.id), force=True)


def _archive(texts: Mapping[str, bytes], folders: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in texts.items():
            entry = tarfile.TarInfo(f"{PLACE.strip('/')}/{name}")
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
        for name, path in folders.items():
            tar.add(path, f"{PLACE.strip('/')}/{name}", filter=_as_root)
    return buffer.getvalue()


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _oci(base: Base, platform: str, name: str, labels: Mapping[str, str]) -> Iterator[bytes]:
    """Lay a root file system out as an image, as `docker save` does: for old and new engines."""
    system, architecture = platform.split("/")
    config = _json(
        {
            "architecture": architecture,
            "os": system,
            "config": {"Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{base.sha256}"]},
        }
    )
    kind = "application/vnd.oci.image."
    layer = {
        "mediaType": f"{kind}layer.v1.tar",
        "digest": f"sha256:{base.sha256}",
        "size": base.size,
    }
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{kind}manifest.v1+json",
            "config": {"mediaType": f"{kind}config.v1+json", **_descriptor(config)},
            "layers": [layer],
        }
    )
    names = {
        "io.containerd.image.name": f"docker.io/library/{name}",
        "org.opencontainers.image.ref.name": name.partition(":")[2],
    }
    row = {"mediaType": f"{kind}manifest.v1+json", **_descriptor(manifest), "annotations": names}
    index = {"schemaVersion": 2, "mediaType": f"{kind}index.v1+json", "manifests": [row]}
    blobs = "blobs/sha256/"
    listing = [
        {
            "Config": f"{blobs}{_sha256(config)}",
            "RepoTags": [name],
            "Layers": [f"{blobs}{base.sha256}"],
        }
    ]
    small = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        "manifest.json": _json(listing),
        f"{blobs}{_sha256(config)}": config,
        f"{blobs}{_sha256(manifest)}": manifest,
    }
    for path, data in small.items():
        yield _header(path, len(data)) + data + bytes(-len(data) % tarfile.BLOCKSIZE)
    yield _header(f"{blobs}{base.sha256}", base.size)
    with base.path.open("rb") as file:
        while piece := file.read(_CHUNK):
            yield piece
    yield bytes(-base.size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)


def _header(path: str, size: int) -> bytes:
    entry = tarfile.TarInfo(path)
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT)


def _descriptor(data: bytes) -> dict[str, object]:
    return {"digest": f"sha256:{_sha256(data)}", "size": len(data)}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
