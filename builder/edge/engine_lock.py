"""The lock of an image that an engine holds; nothing of the image runs."""

from __future__ import annotations

import io
import secrets
import tarfile
from contextlib import ExitStack

from docker.errors import ImageNotFound, NotFound

from builder.core.boot import OWNER_LABEL, RUN_LABEL
from builder.core.labels import LOCK_DIGEST
from builder.core.lock import Lock
from builder.core.lock_layer import FOLDER
from builder.edge import owner
from builder.edge.container import explained, is_local, open_client, remove_leftovers, remove_run
from builder.edge.engine import Engine
from builder.edge.image_lock import agree, no_lock
from builder.errors import LockFileError

_SECONDS = 60
_LARGEST = 128 << 20
"""Bytes of a lock, packed as a tar."""


def read_engine_lock(engine: Engine, name: str) -> Lock | None:
    """Read the lock of an image by any name the engine knows it by; None when it has none such.

    The files are copied out of a container that is created and never started.

    Raises LockFileError when it holds no lock, or another one than its label says; EngineError.
    """
    with ExitStack() as stack:
        stack.enter_context(explained(engine))
        client = stack.enter_context(open_client(engine, _SECONDS))
        try:
            image = client.images.get(name)
        except ImageNotFound:
            return None
        remove_leftovers(client, same_machine=is_local(engine))
        run = secrets.token_hex(8)
        stack.callback(remove_run, client, run, 0)
        labels = {RUN_LABEL: run, OWNER_LABEL: owner.this_process().text}
        # A command, since some images name none; it never runs.
        container = client.containers.create(image, ["true"], labels=labels, network_mode="none")
        try:
            pieces, _ = container.get_archive(f"/{FOLDER}")
        except NotFound:
            raise no_lock(name) from None
        data = bytearray()
        for piece in pieces:
            data += piece
            if len(data) > _LARGEST:
                raise no_lock(name)
        said = str((image.labels or {}).get(LOCK_DIGEST, ""))
    lock = Lock.parse(_files(bytes(data), name), name)
    agree(lock, said, name)
    return lock


def _files(data: bytes, name: str) -> dict[str, bytes]:
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    found[member.name.partition("/")[2]] = content.read()
    except tarfile.TarError as error:
        raise LockFileError(
            f"the lock inside cannot be read: {error}", subject=name, action="pull the image again"
        ) from None
    return found
