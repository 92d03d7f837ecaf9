"""Answers of the structural test's program, made by hand: those of a whole image, then altered."""

from __future__ import annotations

import json
from typing import Any

from builder.core.lock import Lock, PlatformLock, VllmTable
from builder.core.structural import Asked, Judged, judge
from builder.core.structural_probe import Probe, question
from tests.support.small_lock import AMD64, pin, small_lock

USER = "123456:654321"
PTXAS = {"gpu": "sm_120a", "path": "/opt/venv/…/ptxas-blackwell", "status": 0, "said": ""}
"""What Triton's assembler answers for SM120."""


def cuda_lock() -> Lock:
    """Return a lock with everything the test has an eye on."""
    made = small_lock()
    wheels = (
        pin("flashinfer-python", "0.7.2.post1", 1),
        pin("idna", "3.10", 1),
        pin("nvidia-cutlass-dsl", "4.8.0", 1),
        pin("torch", "2.14.0", 1),
        pin("triton", "3.8.0", 1),
        pin("vllm", "0.33.0", 1),
    )
    header = made.header.model_copy(
        update={
            "vllm": VllmTable(package="vllm", version="0.33.0", commit="a" * 40, variant=""),
            "target": made.header.target.model_copy(update={"cuda": "13.0"}),
            "companions": {
                "flashinfer-python": "0.7.2.post1",
                "torch": "2.14.0",
                "triton": "3.8.0",
            },
        }
    )
    content = PlatformLock(wheels=wheels, debs=made.platforms[AMD64].debs, meta={})
    return Lock(header=header, platforms={AMD64: content})


def asked(lock: Lock | None = None, targets: tuple[str, ...] = ("sm_120",)) -> Asked:
    """Ask what `nightlock smoke` asks of an image with this lock."""
    lock = lock or cuda_lock()
    return Asked(
        subject="localhost:5000/x@sha256:1",
        lock=lock,
        platform=AMD64,
        targets=targets,
        question=question(lock, AMD64, targets, ptxas="program"),
        user=USER,
    )


def answer(what: Asked | None = None) -> dict[str, Any]:
    """Answer as the image that the lock describes does."""
    what = what or asked()
    uid, gid = (int(part) for part in USER.split(":"))
    return {
        "surroundings": {
            "uid": uid,
            "gid": gid,
            "user": "vllm",
            "home": "/cache",
            "caches": "/cache",
            "refused": {},
            "root": "Read-only file system",
            "networks": ["lo"],
            "python": "3.13.5",
            "executable": "/opt/venv/bin/python",
            "prefix": "/opt/venv",
            "cores": 2,
        },
        "packages": [
            {"name": one.name, "version": one.version} for one in what.lock.platforms[AMD64].wheels
        ],
        "tree": {"files": 7, "bytes": 7_000_000, "counts": {}, "wrong": {}, "seconds": 1.0},
        "programs": {
            "imports": ran(
                *(
                    row
                    for module in what.question.modules
                    for row in ({"begin": module}, imported(module, what.lock))
                )
            ),
            "version": ran() | {"out": f"{what.lock.header.vllm.version}\n"},
            "ptxas": ran(PTXAS),
            "extension": ran({"answer": 42, "compiler": "/usr/bin/gcc"}),
            "kernel": ran({"code": ["compute_120f", "sm_120f"], "library": "x", "asked": "12.0f"}),
        },
    }


def imported(module: str, lock: Lock) -> dict[str, Any]:
    """One module that came."""
    version = lock.header.vllm.version if module == "vllm" else "1.0"
    return {"module": module, "version": version, "seconds": 1.5}


def ran(*rows: dict[str, Any], status: int | None = 0, err: str = "") -> dict[str, Any]:
    """One program that printed these rows."""
    out = "".join(json.dumps(row) + "\n" for row in rows)
    return {"status": status, "out": out, "err": err, "seconds": 2.0}


def judged(what: Asked, said: dict[str, Any]) -> dict[str, Judged]:
    """Judge it; check → how it ended."""
    probe = Probe.parse(json.dumps(said))
    assert probe is not None
    return {row.name: row for row in judge(what, probe)}
