"""A small CUDA set of wheels as a folder, as a lock with its store, and installed in an image."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import parse_wheel_filename

from builder.commands.context import Context
from builder.core.labels import image_labels
from builder.core.lock import (
    BaseLock,
    Header,
    Lock,
    PlatformLock,
    ResolverTable,
    TargetTable,
    VllmTable,
    WheelPin,
)
from builder.core.settings import Settings
from builder.core.spec import parse_spec
from builder.core.wheel import WheelFacts, meta_row
from builder.edge.project import write_lock
from builder.edge.store import Store
from builder.output import Output
from tests.support.elf import needing
from tests.support.fatbin import fatbin
from tests.support.layout import Entry, Link, Packing, write_layout
from tests.support.stocked import places
from tests.support.wheels import VLLM_VERSION, Wheel, make_wheel

AMD64 = "linux/amd64"
SITE = "opt/venv/lib/python3.13/site-packages"
MODEL = "vllm/model_executor/models/llama.py"
MODEL_TEXT = "import torch\n\n\ndef forward(x):\n    return x * 2\n"
SPEC = """
[image]
name = "gpu"
description = "A CUDA image that is none"
platforms = ["linux/amd64"]
python = "3.13"
cuda = "13.0"
targets = ["sm_120"]
[lock]
channel = "release"
package = "vllm"
requirements = ["vllm"]
companions = { flashinfer-cubin = "none", flashinfer-jit-cache = "none" }
[base]
debian = "trixie"
"""


def vllm(
    *,
    code: bytes = fatbin("sm_90a", "sm_120f", "sm_120", "compute_80"),
    libraries: Sequence[str] = ("libcudart.so.13", "libc.so.6"),
    glibc: str = "2.28",
    requires: Sequence[str] = ("torch==2.14.0", "flashinfer-python==0.7.2.post1"),
    more: Mapping[str, bytes] = {},
) -> Wheel:
    """Make a vLLM with one extension that holds GPU code, and one by design without."""
    return make_wheel(
        "vllm",
        "0.33.0",
        requires=requires,
        tag="cp38-abi3-manylinux_2_28_x86_64",
        contents={
            "vllm/_version.py": VLLM_VERSION.format(commit="4ba787ec9"),
            MODEL: MODEL_TEXT,
            "vllm/_C_stable_libtorch.abi3.so": needing(*libraries, glibc=glibc, before=code),
            "vllm/_flashmla_C.abi3.so": needing("libc.so.6", before=fatbin("sm_90a", "sm_100f")),
            **more,
        },
    )


def others() -> list[Wheel]:
    """Make what stands beside it."""
    version = "__version__ = '2.14.0'\ncuda = '13.0'\n"
    return [
        make_wheel("torch", "2.14.0", contents={"torch/version.py": version}),
        make_wheel("flashinfer-python", "0.7.2.post1"),
        make_wheel("nvidia-cuda-nvcc", "13.0.88"),
        make_wheel("ninja", "1.13.2"),
        make_wheel("click", "8.1.8"),
    ]


def tampered(wheel: Wheel, files: Mapping[str, bytes | None]) -> Wheel:
    """Replace, add or (None) drop files of a wheel, and leave its RECORD as it was."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(wheel.data)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in old.infolist():
            if entry.filename not in files:
                new.writestr(entry, old.read(entry))
        for name, data in files.items():
            if data is not None:
                new.writestr(zipfile.ZipInfo(name), data)
    return Wheel(wheel.file, buffer.getvalue())


def installed(wheels: Sequence[Wheel]) -> dict[str, Entry]:
    """Lay wheels into a site directory, as an installer does; later ones win."""
    found: dict[str, Entry] = {}
    for wheel in wheels:
        with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
            for name in archive.namelist():
                found[f"{SITE}/{name}"] = archive.read(name)
    return found


def base() -> dict[str, Entry]:
    """Make the lowest layer: what a rule may want of Debian."""
    status = "Package: libc6\nVersion: 2.41-12\n\nPackage: g++\nVersion: 1\n"
    return {
        "etc/passwd": b"root:x:0:0::/root:/bin/sh\n",
        "var/lib/dpkg/status": status.encode(),
        "usr/bin/python3": b"an interpreter",
    }


def venv() -> dict[str, Entry]:
    """Make what a build of ours adds beside packages."""
    return {
        "opt/venv/pyvenv.cfg": b"home = /usr/bin\ninclude-system-site-packages = false\n",
        "opt/venv/bin/python": Link("/usr/bin/python3"),
        "opt/venv/lib64": Link("lib"),
        "opt/nightlock/entrypoint.py": b"# ours\n",
        "etc/passwd": b"root:x:0:0::/root:/bin/sh\nvllm:x:2000:0::/cache:/usr/sbin/nologin\n",
        f"{SITE}/click/__pycache__/__init__.cpython-313.pyc": b"byte code",
    }


@dataclass(frozen=True, slots=True)
class Audited:
    """A folder that holds everything."""

    root: Path
    context: Context

    @classmethod
    def at(cls, root: Path) -> Audited:
        """Make an empty project there."""
        spec = root / "images/gpu/image.toml"
        spec.parent.mkdir(parents=True)
        spec.write_text(SPEC)
        context = Context(project=root, places=places(root), settings=Settings(), output=Output())
        return cls(root, context)

    def folder(self, wheels: Sequence[Wheel]) -> Path:
        """Write wheels into a folder."""
        folder = self.root / "wheels"
        folder.mkdir()
        for wheel in wheels:
            (folder / wheel.file).write_bytes(wheel.data)
        return folder

    def lock(self, wheels: Sequence[Wheel]) -> Lock:
        """Lock wheels, and put them into the store."""
        store = Store(self.context.places.store)
        pins, meta = [], {}
        for number, wheel in enumerate(wheels):
            path = self.root / f"{number}.whl"
            path.write_bytes(wheel.data)
            store.add(path)
            path.unlink()
            name, version, _, _ = parse_wheel_filename(wheel.file)
            pins.append(
                WheelPin(
                    name=name,
                    version=str(version),
                    sha256=wheel.sha256,
                    file=wheel.file,
                    size=len(wheel.data),
                    index="general",
                )
            )
            with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
                (place,) = [one for one in archive.namelist() if one.endswith("/METADATA")]
                text = archive.read(place).decode()
            facts = WheelFacts(metadata=text, size=len(wheel.data), newest=0)
            meta[str(name)] = meta_row(facts, "index", version=str(version))
        spec = parse_spec(SPEC, "images/gpu/image.toml")
        lock = Lock(
            header=Header(
                image="gpu",
                spec=spec.digest,
                channel="release",
                epoch=1_790_000_000,
                vllm=VllmTable(package="vllm", version="0.33.0", commit="4ba787ec9", variant=""),
                target=TargetTable(python="3.13", glibc="2.41", cuda="13.0"),
                companions={"torch": "2.14.0"},
                base=BaseLock(debian="trixie"),
                layers={AMD64: [[pin.name for pin in pins]]},
                resolver=ResolverTable(name="uv", version="0.13.9"),
            ),
            platforms={AMD64: PlatformLock(wheels=tuple(sorted(pins)), debs=(), meta=meta)},
        )
        write_lock(self.root, lock)
        return lock

    def image(
        self,
        lock: Lock,
        *layers: Mapping[str, Entry],
        labels: Mapping[str, str] = {},
        environment: Sequence[str] = (),
        history: Sequence[str] = (),
        packing: Packing = "zstd",
        lowest: Mapping[str, Entry] | None = None,
    ) -> str:
        """Write an image of ours: base, `layers`, and the layer with the lock."""
        spec = parse_spec(SPEC, "images/gpu/image.toml")
        inside: dict[str, Entry] = {
            f"opt/nightlock/lock/{name}": data for name, data in lock.files().items()
        }
        return write_layout(
            self.root / "image",
            [base() if lowest is None else lowest, *layers, {**venv(), **inside}],
            labels={**image_labels(spec, lock, AMD64), **labels},
            environment=environment,
            history=history,
            packing=packing,
        )


def without(wheels: Sequence[Wheel], name: str) -> list[Wheel]:
    """Leave one wheel out."""
    return [wheel for wheel in wheels if parse_wheel_filename(wheel.file)[0] != name]


def quiet(context: Context) -> Context:
    """Let nothing be printed."""
    return replace(context, output=Output(json=True))
