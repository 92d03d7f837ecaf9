"""`audit`: every planted fault is found, in a lock, in a folder of wheels and in an image alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.commands import audit
from builder.core.finding import Finding
from tests.support.audited import (
    MODEL,
    MODEL_TEXT,
    SITE,
    Audited,
    installed,
    others,
    tampered,
    vllm,
    without,
)
from tests.support.fatbin import fatbin
from tests.support.wheels import Wheel, make_wheel

INJECTED = MODEL_TEXT.replace("    return", "    torch.save(x, '/tmp/x.pt')\n    return")
KINDS = ("lock", "wheels", "image")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is planted, and what has to be said."""

    key: str
    wheels: Callable[[], list[Wheel]]
    says: str
    """Part of the evidence."""
    subject: str
    """Part of the subject."""


FAULTS = {
    "edited": Fault(
        "file-edited",
        lambda: [tampered(vllm(), {MODEL: INJECTED.encode()}), *others()],
        "",
        MODEL,
    ),
    "missing": Fault(
        "file-edited",
        lambda: [tampered(vllm(), {MODEL: None}), *others()],
        "is not there",
        MODEL,
    ),
    "stray": Fault(
        "file-stray",
        lambda: [tampered(vllm(), {"vllm/debug_dump.py": b"import os\n"}), *others()],
        "no package lists it, 10 bytes",
        "vllm/debug_dump.py",
    ),
    "soname": Fault(
        "wrong-cuda-soname",
        lambda: [
            vllm(),
            *others(),
            make_wheel(
                "nixl-ep",
                "1.0",
                tag="cp313-cp313-manylinux_2_28_x86_64",
                contents={"nixl_ep/_C.so": _needing("libcudart.so.12")},
            ),
        ],
        "libcudart.so.12 (nixl_ep/_C.so)",
        "nixl",
    ),
    "code": Fault(
        "fp4-kernels-not-built",
        lambda: [vllm(code=fatbin("sm_90a")), *others()],
        "no code for sm_120, neither native nor PTX; it has sm_90a",
        "vllm: vllm/_C_stable_libtorch.abi3.so",
    ),
    "plain": Fault(
        "fp4-kernels-not-built",
        lambda: [vllm(code=fatbin("sm_120", "compute_80")), *others()],
        "exact 1, ptx 1 alone, without `a` and `f`",
        "vllm: vllm/_C_stable_libtorch.abi3.so",
    ),
    "clash": Fault(
        "path-owned-twice",
        lambda: [
            vllm(),
            *others(),
            make_wheel("b12x", "1.5.1"),
            make_wheel("flashinfer-extra", "1.0", contents={"b12x/__init__.py": "other = 1\n"}),
        ],
        "b12x/__init__.py",
        "b12x, flashinfer-extra",
    ),
    "conflict": Fault(
        "dependency-conflict",
        lambda: [vllm(requires=("torch==2.13.0", "flashinfer-python==0.7.2.post1")), *others()],
        "wants torch==2.13.0; there is torch 2.14.0",
        "vllm",
    ),
    "glibc": Fault(
        "manylinux-floor",
        lambda: [vllm(glibc="2.42"), *others()],
        "content needs 2.42 (vllm/_C_stable_libtorch.abi3.so), base has 2.41",
        "vllm",
    ),
    "companion": Fault(
        "flashinfer-trio-mismatch",
        lambda: [
            vllm(),
            *without(others(), "flashinfer-python"),
            make_wheel("flashinfer-python", "0.7.2"),
        ],
        "pins 0.7.2.post1",
        "flashinfer-python",
    ),
}


def _needing(library: str) -> bytes:
    from tests.support.elf import needing  # noqa: PLC0415

    return needing(library, "libc.so.6", glibc="2.17")


def look(project: Audited, kind: str, wheels: list[Wheel]) -> tuple[bool, list[Finding]]:
    """Audit a set of wheels as one of the three."""
    lock = project.lock(wheels)
    if kind == "lock":
        outcome = audit.run(project.context, lock="gpu")
    elif kind == "wheels":
        outcome = audit.run(project.context, lock="gpu", wheels=project.folder(wheels))
    else:
        outcome = audit.run(project.context, image=project.image(lock, installed(wheels)))
    return outcome.ok, list(outcome.findings)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_set_is_clean(kind: str, tmp_path: Path) -> None:
    """Our own files, byte code and named exceptions are no false alarms."""
    assert (True, []) == look(Audited.at(tmp_path), kind, [vllm(), *others()])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_fault_is_found(kind: str, fault: str, tmp_path: Path) -> None:
    """One finding with the key, the subject and the evidence; nothing else counts as an error."""
    planted = FAULTS[fault]
    ok, findings = look(Audited.at(tmp_path), kind, planted.wheels())
    assert [planted.key] == [row.key for row in findings]
    (row,) = findings
    assert planted.says in row.evidence
    assert planted.subject in row.subject
    assert ok == (row.severity == "warning")


@pytest.mark.parametrize("kind", ["wheels", "image"])
def test_file_edited_shows_the_injected_line(kind: str, tmp_path: Path) -> None:
    """file-edited: a debug patch in a model file is one line of output."""
    project = Audited.at(tmp_path)
    wheels = [vllm(), *others()]
    lock = project.lock(wheels)
    patched = [tampered(vllm(), {MODEL: INJECTED.encode()}), *others()]
    if kind == "wheels":
        outcome = audit.run(project.context, lock="gpu", wheels=project.folder(patched))
    else:
        later = {f"{SITE}/{MODEL}": INJECTED.encode()}
        outcome = audit.run(project.context, image=project.image(lock, installed(wheels), later))
    (row,) = [row for row in outcome.findings if row.key == "file-edited"]
    assert not outcome.ok
    assert "+5: torch.save(x, '/tmp/x.pt')" in row.evidence
    assert "\n" not in row.evidence
    assert row.subject.endswith(MODEL)


def test_what_a_wheel_was_published_with_is_a_warning(tmp_path: Path) -> None:
    """A RECORD that was wrong from the start: the locked hash says that nobody edited it since."""
    wheels = [tampered(vllm(), {MODEL: INJECTED.encode()}), *others()]
    ok, (row,) = look(Audited.at(tmp_path), "image", wheels)
    assert ok
    assert ("file-edited", "warning") == (row.key, row.severity)
    assert "its RECORD lists others" in row.evidence
