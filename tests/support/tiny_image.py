"""A real image in seconds and without a network: this machine's Python and a server of ours."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping
from pathlib import Path

import docker

SERVER = Path(__file__).parent / "openai_server.py"
_LEFT_OUT = re.compile(
    r"/(site-packages|dist-packages|test|tests|idlelib|__pycache__|config-.*)(/|$)"
)


def push_tiny_image(
    client: docker.DockerClient, registry: str, repository: str, labels: Mapping[str, str]
) -> str:
    """Import, push and forget the image; return `registry/repository:tiny`.

    Only the registry keeps it, so that a test sees it pulled.
    """
    name = f"{registry}/{repository}"
    changes = [
        'ENTRYPOINT ["/python/bin/python", "-u", "/server.py"]',
        "USER 2000:0",
        "STOPSIGNAL SIGTERM",
        *(f'LABEL {key}="{value}"' for key, value in labels.items()),
    ]
    client.api.import_image_from_data(_root(), repository=name, tag="tiny", changes=changes)
    try:
        for event in client.api.push(name, tag="tiny", stream=True, decode=True):
            assert "error" not in event, event["error"]
    finally:
        client.images.remove(f"{name}:tiny", force=True)
    return f"{name}:tiny"


def _root() -> bytes:
    """Pack a root file system: interpreter, standard library, shared libraries, the server."""
    python = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib")).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(python, "python/bin/python")
        tar.add(
            library,
            f"python/lib/{version}",
            filter=lambda entry: None if _LEFT_OUT.search("/" + entry.name) else entry,
        )
        for path in _shared_libraries([python, *(library / "lib-dynload").glob("*.so")]):
            # Under the path the loader was told, whatever links lead there.
            tar.add(path.resolve(), str(path).lstrip("/"))
        tar.add(SERVER, "server.py")
        for folder in ("tmp", "model"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
    return buffer.getvalue()


def _shared_libraries(programs: list[Path]) -> list[Path]:
    said = subprocess.run(
        ["ldd", *map(str, programs)], capture_output=True, text=True, check=False
    ).stdout
    return sorted({Path(found) for found in re.findall(r"(/\S+\.so[.\d]*) \(0x", said)})
