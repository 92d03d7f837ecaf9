"""Two locks by hand that differ in every way a diff knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.core.debs import debs_digest
from builder.core.lock import (
    BaseLock,
    DebPin,
    Header,
    Lock,
    PlatformLock,
    ResolverTable,
    TargetTable,
    VllmTable,
    WheelPin,
    digest_of,
)

AMD64 = "linux/amd64"
ARM64 = "linux/arm64"
MACHINES = {AMD64: "x86_64", ARM64: "aarch64"}

OLD_COMMIT = "3f0c1d2e4" + "0" * 31
NEW_COMMIT = "ea5f903f8" + "0" * 31
OLD_VLLM = "0.33.1rc1.dev313+g3f0c1d2e4"
NEW_VLLM = "0.33.1rc1.dev344+gea5f903f8"


def wheel(
    name: str,
    version: str,
    *,
    size: int = 1_000_000,
    index: str = "general",
    tag: str = "py3-none-any",
    content: str = "",
) -> WheelPin:
    """Make up a wheel; its hash is that of its file name and `content`."""
    file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    return WheelPin(
        name=name,
        version=version,
        sha256=digest_of(f"{file} {content}".encode()).removeprefix("sha256:"),
        file=file,
        size=size,
        index=index,
    )


def deb(
    name: str,
    version: str,
    *,
    size: int = 500_000,
    suite: str = "trixie",
    content: str = "",
    architecture: str = "amd64",
) -> DebPin:
    """Make up a .deb in the same way."""
    return DebPin(
        name=name,
        version=version,
        architecture=architecture,
        sha256=digest_of(f"{name} {version} {architecture} {content}".encode())[7:],
        size=size,
        path=f"pool/main/{name[0]}/{name}/{name}_{version}_{architecture}.deb",
        suite=suite,
        source=name,
    )


def make_lock(
    wheels: Mapping[str, Sequence[WheelPin]],
    *,
    requires: Mapping[str, Sequence[str]] | None = None,
    meta: Mapping[str, Mapping[str, object]] | None = None,
    debs: Mapping[str, Sequence[DebPin]] | None = None,
    **header: object,
) -> Lock:
    """Put a lock together; `wheels` and `debs` are by platform, `requires` and `meta` by package.

    Every wheel is a layer of its own unless `layers` says otherwise.
    """
    fields: dict[str, object] = {
        "image": "cuda13-sm120",
        "spec": "sha256:" + "5" * 64,
        "channel": "nightly",
        "epoch": 1_796_000_000,
        "vllm": VllmTable(package="vllm", version=OLD_VLLM, commit=OLD_COMMIT),
        "target": TargetTable(python="3.13", glibc="2.41", cuda="13.0"),
        "base": BaseLock(
            debian="trixie",
            debs={platform: debs_digest(pins) for platform, pins in (debs or {}).items() if pins},
        ),
        "layers": {platform: [[pin.name] for pin in pins] for platform, pins in wheels.items()},
        "resolver": ResolverTable(name="uv", version="0.13.9"),
    }
    platforms = {}
    for platform, pins in wheels.items():
        rows = {
            pin.name: {
                "hash_from": "index",
                "licence": "Apache-2.0",
                "requires_dist": list((requires or {}).get(pin.name, ())),
                "requires_python": ">=3.11",
                **(meta or {}).get(pin.name, {}),
            }
            for pin in pins
        }
        platforms[platform] = PlatformLock(
            wheels=tuple(pins), debs=tuple((debs or {}).get(platform, ())), meta=rows
        )
    return Lock(header=Header.model_validate(fields | header), platforms=platforms)


def with_header(lock: Lock, **fields: object) -> Lock:
    """Give the same lock with other fields in its header."""
    header = lock.header.model_dump(exclude={"files"}) | fields
    return Lock(header=Header.model_validate(header), platforms=lock.platforms)


_COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl")


def old_night() -> Lock:
    """Give the night before."""

    def pins(platform: str) -> list[WheelPin]:
        tag = f"cp38-abi3-manylinux_2_28_{MACHINES[platform]}"
        return [
            wheel("vllm", OLD_VLLM, size=276_400_000, index="vllm", tag=tag),
            wheel("torch", "2.14.0", size=560_000_000, tag=tag),
            wheel("torchaudio", "2.11.1", size=2_000_000, tag=tag),
            wheel("flashinfer-python", "0.6.13", size=14_000_000),
            wheel("flashinfer-cubin", "0.6.13", size=437_000_000, index="flashinfer"),
            *(wheel(name, "13.0.88", size=40_000_000, tag=tag) for name in _COMPILER),
            wheel("numpy", "2.5.2", size=16_800_000, tag=tag),
            wheel("requests", "2.32.5", size=64_000),
            wheel("six", "1.17.0", size=11_000),
            wheel("triton", "3.8.0", size=200_000_000, tag=tag),
            wheel("fastapi", "0.137.2", size=110_000),
        ]

    wheels = {platform: pins(platform) for platform in (AMD64, ARM64)}
    return make_lock(
        wheels,
        requires={
            "vllm": ["flashinfer-python[cu13]==0.6.13", "torch==2.14.0", "requests>=2.26.0"],
            "flashinfer-python": [
                "numpy",
                *(f'{name}; extra == "cu13"' for name in _COMPILER),
            ],
            "requests": ["urllib3<3,>=1.26", "six", 'pysocks; extra == "socks"'],
        },
        debs={
            platform: [
                deb("libssl3t64", "3.5.1-1+deb13u1", suite="trixie-security"),
                deb("python3", "3.13.5-1"),
                deb("tzdata", "2026a-0+deb13u1", suite="trixie-updates"),
            ]
            for platform in (AMD64, ARM64)
        },
        companions={
            "flashinfer-python": "0.6.13",
            "flashinfer-cubin": "0.6.13",
            "torch": "2.14.0",
            "torchaudio": "2.11.1",
        },
        layers={platform: layers(pins) for platform, pins in wheels.items()},
        tools={platform: [wheel("uv", "0.13.9", size=22_000_000).line()] for platform in wheels},
    )


def new_night() -> Lock:
    """Give the night after: SGLang #30961 over again, and one change of each kind."""

    def pins(platform: str) -> list[WheelPin]:
        tag = f"cp38-abi3-manylinux_2_28_{MACHINES[platform]}"
        return [
            wheel("vllm", NEW_VLLM, size=277_100_000, index="vllm", tag=tag),
            wheel("torch", "2.14.0", size=560_000_000, tag=tag),
            wheel("torchaudio", "2.11.0", size=2_000_000, tag=tag),
            wheel("flashinfer-python", "0.6.14", size=15_000_000),
            wheel(
                "numpy",
                "2.5.2",
                size=16_800_000,
                tag=tag,
                content="replaced" if platform == AMD64 else "",
            ),
            wheel("requests", "2.33.0", size=65_000),
            wheel("idna", "3.11", size=71_000),
            wheel("triton", "3.8.0", size=201_000_000, tag=f"1-{tag}"),
            wheel("fastapi", "0.138.0" if platform == AMD64 else "0.137.2", size=110_000),
        ]

    wheels = {platform: pins(platform) for platform in (AMD64, ARM64)}
    return make_lock(
        wheels,
        requires={
            "vllm": ["flashinfer-python[cu13]==0.6.14", "torch==2.14.0", "requests>=2.26.0"],
            "flashinfer-python": ["numpy>=2"],
            "requests": ["urllib3>=1.26,<3", "idna<4,>=2.5", "PySocks>=1.5.6; extra == 'socks'"],
        },
        meta={"fastapi": {"licence": "MIT AND BSD-3-Clause"}, "torch": {"hash_from": "computed"}},
        debs={
            platform: [
                deb("libssl3t64", "3.5.1-1+deb13u2", suite="trixie-security"),
                deb("python3", "3.13.5-1"),
                deb("tini", "0.19.0-3+b3"),
                deb("tzdata", "2026a-0+deb13u1"),
            ]
            for platform in (AMD64, ARM64)
        },
        vllm=VllmTable(package="vllm", version=NEW_VLLM, commit=NEW_COMMIT),
        companions={"flashinfer-python": "0.6.14", "torch": "2.14.0", "torchaudio": "2.11.0"},
        epoch=1_796_100_000,
        layers={platform: layers(pins) for platform, pins in wheels.items()},
        tools={platform: [wheel("uv", "0.14.0", size=23_000_000).line()] for platform in wheels},
        resolver=ResolverTable(name="uv", version="0.14.0"),
    )


def layers(pins: Sequence[WheelPin]) -> list[list[str]]:
    """Plan as nightlock does: large wheels alone, the small ones together, vLLM last."""
    large = sorted(pin.name for pin in pins if pin.size >= 60_000_000 and pin.name != "vllm")
    small = sorted(pin.name for pin in pins if pin.size < 60_000_000)
    return [*([name] for name in large), small, ["vllm"]]
