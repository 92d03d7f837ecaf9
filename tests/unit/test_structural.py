"""The structural test's judge: an image's answer beside its lock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builder.core.audit.exceptions import PUBLISHED
from builder.core.structural import Judged, unanswered
from builder.core.structural_probe import Probe, question
from tests.support.small_lock import AMD64, small_lock
from tests.support.structure import PTXAS, answer, asked, cuda_lock, imported, judged, ran

UNKNOWN_GPU = "ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'\n"


def failed(rows: dict[str, Judged]) -> dict[str, list[tuple[str, str]]]:
    """Check → key and subject of its findings, of those that fail."""
    return {
        name: [(one.key, one.subject) for one in row.findings]
        for name, row in rows.items()
        if row.status != "pass"
    }


def test_a_whole_image_passes_every_check() -> None:
    """Nothing is left out, and every check says what it saw."""
    rows = judged(asked(), answer())
    assert {} == failed(rows)
    assert [
        "conditions",
        "user",
        "companions",
        "packages",
        "files",
        "import-torch",
        "import-triton",
        "import-flashinfer",
        "import-cutlass",
        "import-vllm",
        "version",
        "c-extension",
        "triton-ptxas",
        "flashinfer-jit",
    ] == list(rows)
    assert "silu_and_mul for sm_120f" == rows["flashinfer-jit"].reason


def test_what_a_cpu_image_has_not_is_not_asked() -> None:
    """No kernel for a CPU; `vllm --version` asks for a distribution of another name."""
    lock = small_lock()
    what = asked(lock, ("cpu",))
    assert (("torch", "vllm"), {}, ()) == (
        what.question.modules,
        what.question.commands,
        what.question.architectures,
    )
    said = answer(what)
    for name in ("version", "ptxas", "kernel"):
        del said["programs"][name]
    rows = judged(what, said)
    assert {"flashinfer-jit": []} == failed(rows)
    assert ("skip", "the image is built without CUDA") == (
        rows["flashinfer-jit"].status,
        rows["flashinfer-jit"].reason,
    )
    assert "vllm.__version__: 0.32.0" == rows["version"].reason


def test_kernels_are_asked_for_as_flashinfer_spells_them() -> None:
    """12.0 with its family, 12.1 alone."""
    found = question(cuda_lock(), AMD64, ("sm_120", "sm_121"), ptxas="program").architectures
    assert ("12.0f", "12.1a") == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"networks": ["eth0", "lo"]}, "there is a network"),
        ({"root": ""}, "can be written"),
        ({"uid": 0}, "it ran as 0:654321"),
    ],
)
def test_under_other_conditions_nothing_is_proven(change: dict[str, Any], words: str) -> None:
    """An engine that gives a network all the same does not fail the image, nor pass it."""
    said = answer()
    said["surroundings"] |= change
    row = judged(asked(), said)["conditions"]
    assert ("inconclusive", True) == (row.status, words in row.reason)


@pytest.mark.parametrize(
    "change",
    [
        {"home": "/tmp/cache-123456"},  # noqa: S108 - where the entrypoint turns to
        {"refused": {"/cache": "Permission denied"}},
        {"user": "unknown: no such uid"},
    ],
)
def test_non_root_user(change: dict[str, Any]) -> None:
    """A cache folder that only root may write to, and a user without a name."""
    said = answer()
    said["surroundings"] |= change
    assert {"user": [("non-root-user", asked().subject)]} == failed(judged(asked(), said))


def changed(name: str, *versions: str) -> dict[str, Any]:
    """Answer with other versions of one package installed; without any it is gone."""
    said = answer()
    said["packages"] = [row for row in said["packages"] if row["name"] != name]
    said["packages"] += [{"name": name, "version": version} for version in versions]
    return said


@pytest.mark.parametrize(
    ("name", "versions", "check", "key"),
    [
        ("flashinfer-python", ["0.7.2"], "companions", "flashinfer-trio-mismatch"),
        ("torch", ["2.13.0"], "companions", "not-locked"),
        ("torch", [], "companions", "companion-missing"),
        ("idna", ["3.11"], "packages", "not-locked"),
        ("idna", ["3.10", "3.9"], "packages", "distribution-twice"),
        ("debugpy", ["1.0"], "packages", "not-locked"),
    ],
)
def test_companions_and_packages_are_the_locks(
    name: str, versions: list[str], check: str, key: str
) -> None:
    """Keys flashinfer-trio-mismatch, not-locked, companion-missing and more."""
    assert {check: [(key, name)]} == failed(judged(asked(), changed(name, *versions)))


def test_package_missing() -> None:
    """A package that the lock names was taken away."""
    assert {"packages": [("package-missing", "idna")]} == failed(judged(asked(), changed("idna")))


def test_versions_are_compared_as_versions() -> None:
    """One version has several spellings, and names too."""
    said = changed("idna")
    said["packages"].append({"name": "IDNA", "version": "3.10.0"})
    assert {} == failed(judged(asked(), said))


@pytest.mark.parametrize(("edited", "status"), [(1, "pass"), (2, "fail")])
def test_a_file_that_was_published_so_is_not_edited(edited: int, status: str) -> None:
    """A wheel whose own RECORD is wrong; unless more files differ than are named."""
    known = next(iter(PUBLISHED))
    row = {"path": "/opt/venv/a.so", "package": "codec", "why": "RECORD has x", "sha256": known}
    said = answer()
    said["tree"] |= {"counts": {"edited": edited}, "wrong": {"edited": [row]}}
    rows = judged(asked(), said)
    assert status == rows["files"].status
    assert (status == "pass") == ("1 published with a RECORD of others" in rows["files"].reason)


def test_file_edited_and_file_stray() -> None:
    """Every named path is a finding; those only counted are in the reason."""
    said = answer()
    said["tree"] |= {
        "counts": {"edited": 70, "stray": 1, "missing": 1},
        "wrong": {
            "edited": [{"path": "/opt/venv/a.py", "package": "torch", "why": "RECORD has x"}],
            "stray": [{"path": "/opt/venv/b.py", "package": "", "why": "no RECORD lists it"}],
            "missing": [{"path": "/opt/venv/c.py", "package": "idna", "why": "it is not there"}],
        },
    }
    rows = judged(asked(), said)
    assert {
        "files": [
            ("file-edited", "/opt/venv/a.py"),
            ("file-edited", "/opt/venv/c.py"),
            ("file-stray", "/opt/venv/b.py"),
        ]
    } == failed(rows)
    assert rows["files"].reason.startswith("70 edited, 1 stray, 1 missing of 7 files, 7 MB")


def test_import_failed() -> None:
    """One that raises is told by its words; those after it were still tried."""
    said = answer()
    modules = asked().question.modules
    words = "RuntimeError: operator torchvision::nms does not exist"
    said["programs"]["imports"] = ran(
        *(
            {"module": name, "error": words} if name == "triton" else imported(name, asked().lock)
            for name in modules
        )
    )
    rows = judged(asked(), said)
    assert {"import-triton": [("import-failed", "triton")]} == failed(rows)
    assert words == rows["import-triton"].reason


def test_an_import_that_ends_the_interpreter_is_named() -> None:
    """Without AVX-512, vLLM's wrong extension dies by SIGILL and prints nothing."""
    said = answer()
    rows = [{"begin": "torch"}, imported("torch", asked().lock), {"begin": "triton"}]
    said["programs"]["imports"] = ran(*rows, status=-4)
    found = judged(asked(), said)
    assert ("fail", "the interpreter ended by SIGILL and said nothing") == (
        found["import-triton"].status,
        found["import-triton"].reason,
    )
    assert ("inconclusive", "not tried: importing triton ended the program") == (
        found["import-cutlass"].status,
        found["import-cutlass"].reason,
    )


@pytest.mark.parametrize("said_by", ["vllm.__version__", "vllm --version"])
def test_tag_vs_content(said_by: str) -> None:
    """The distribution's version and the one in vLLM's files are asked both; either may differ."""
    said = answer()
    if said_by == "vllm --version":
        said["programs"]["version"]["out"] = "INFO something\n0.33.1\n"
    else:
        lock = cuda_lock()
        rows = [imported(name, lock) for name in asked().question.modules]
        rows[-1]["version"] = "0.33.1"
        said["programs"]["imports"] = ran(*rows)
    rows_ = judged(asked(), said)
    assert {"version": [("tag-vs-content", asked().subject)]} == failed(rows_)
    assert f"the lock has 0.33.0; {said_by} says 0.33.1" == rows_["version"].reason


def test_a_version_command_that_dies() -> None:
    """A distribution called otherwise has no metadata under the name `vllm`."""
    said = answer()
    words = "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm"
    said["programs"]["version"] = ran(status=1, err=f"Traceback\n{words}\n")
    row = judged(asked(), said)["version"]
    assert ("fail", True) == (row.status, row.reason.endswith(words))


def test_no_c_compiler_at_runtime() -> None:
    """Triton needs one at first use (C25)."""
    said = answer()
    said["programs"]["extension"] = ran(status=1, err="no C compiler: neither gcc nor clang\n")
    rows = judged(asked(), said)
    assert {"c-extension": [("no-c-compiler-at-runtime", asked().subject)]} == failed(rows)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        (ran(PTXAS | {"status": 255, "said": UNKNOWN_GPU}), "fail", "'sm_120a' is not defined"),
        (ran(status=1, err="RuntimeError: Cannot find ptxas-blackwell"), "fail", "Cannot find"),
        (ran(), "fail", "said nothing"),
        (ran({"unknown": "no attribute get_ptxas"}), "skip", "in another way"),
        (ran(status=None), "inconclusive", "not done within"),
    ],
)
def test_ptxas_too_old(program: dict[str, Any], status: str, words: str) -> None:
    """C23: Triton prefers the assembler of its own wheel, whatever the image's toolkit knows."""
    said = answer()
    said["programs"]["ptxas"] = program
    row = judged(asked(), said)["triton-ptxas"]
    assert (status, True) == (row.status, words in row.reason)
    wanted = [("ptxas-too-old", "triton")] if status == "fail" else []
    assert wanted == [(one.key, one.subject) for one in row.findings]


def test_tritons_assembler_is_asked_for_every_target() -> None:
    """By the numbers that Triton has for them; a lock without Triton is not asked."""
    commands = question(cuda_lock(), AMD64, ("sm_120", "sm_121"), ptxas="program").commands
    assert ["120", "121"] == commands["ptxas"][-2:]
    lock = cuda_lock()
    content = lock.platforms[AMD64]
    wheels = tuple(pin for pin in content.wheels if pin.name != "triton")
    bare = replace(lock, platforms={AMD64: replace(content, wheels=wheels)})
    assert {"version"} == set(question(bare, AMD64, ("sm_120",), ptxas="program").commands)


@pytest.mark.parametrize(
    ("err", "key"),
    [
        ("RuntimeError: Could not find nvcc", "jit-needs-nvcc"),
        (
            "fatal error: CUDA compiler and CUDA toolkit headers are incompatible, please check",
            "cuda-toolchain-mixed",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120f'", "wrong-nvcc"),
    ],
)
def test_a_kernel_that_does_not_compile(err: str, key: str) -> None:
    """Keys jit-needs-nvcc, cuda-toolchain-mixed and wrong-nvcc, by what the compiler says."""
    said = answer()
    said["programs"]["kernel"] = ran(status=1, err=f"{err}\n")
    rows = judged(asked(), said)
    assert {"flashinfer-jit": [(key, "silu_and_mul")]} == failed(rows)
    assert err.split(":", maxsplit=1)[0] in rows["flashinfer-jit"].reason


@pytest.mark.parametrize("code", [["sm_90a"], ["compute_120"], [], ["sm_121a"]])
def test_no_kernel_image(code: list[str]) -> None:
    """A kernel for another GPU, or as PTX alone, is none for the target."""
    said = answer()
    said["programs"]["kernel"] = ran({"code": code})
    rows = judged(asked(), said)
    assert {"flashinfer-jit": [("no-kernel-image", "silu_and_mul")]} == failed(rows)


@pytest.mark.parametrize("program", ["imports", "version", "extension", "kernel"])
def test_what_is_not_done_in_time_is_inconclusive(program: str) -> None:
    """A busy machine is not the image's fault; it is no pass either."""
    said = answer()
    said["programs"][program] = ran(status=None)
    states = {row.status for row in judged(asked(), said).values()}
    assert {"pass", "inconclusive"} == states


def test_structural_not_run() -> None:
    """Without an answer nothing else is judged."""
    row = unanswered("x", "the container ended with status 127: there is no program python")
    assert ("fail", [("structural-not-run", "x")]) == (
        row.status,
        [(one.key, one.subject) for one in row.findings],
    )
    for text in ("", "hello\n", '{"surroundings": 1}', "[" * 100_000):
        assert Probe.parse(text) is None
