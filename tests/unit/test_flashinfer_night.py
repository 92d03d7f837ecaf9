"""flashinfer-nightly-gaps: the newest night that is whole (C17)."""

from __future__ import annotations

import pytest

from builder.core.flashinfer_night import Part, newest_night
from builder.core.simple import Candidate, parse_page
from builder.core.wheel_target import WheelTarget
from builder.errors import Refused

AMD = WheelTarget(python="3.13", glibc="2.41", machine="x86_64")
ARM = WheelTarget(python="3.13", glibc="2.41", machine="aarch64")
RELEASES = "https://github.com/flashinfer-ai/flashinfer-nightly/releases/download"
PARTS = (
    Part(package="flashinfer-python", platform="linux/amd64", target=AMD),
    Part(package="flashinfer-cubin", platform="linux/amd64", target=AMD),
    *(
        Part(package=name, label="cu130", platform=platform, target=target)
        for name, platform, target in (
            ("flashinfer-jit-cache", "linux/amd64", AMD),
            ("flashinfer-jit-cache", "linux/arm64", ARM),
            ("flashinfer-jit-cache-sm120f", "linux/amd64", AMD),
        )
    ),
)


def page(*files: str) -> list[Candidate]:
    """Read a page as FlashInfer's script writes it."""
    rows = "".join(
        f'<a href="{RELEASES}/nightly-v1/{file}#sha256={"a" * 64}">{file}</a><br>\n'
        for file in files
    )
    body = f"<!DOCTYPE html>\n<html><body>\n{rows}</body></html>".encode()
    return parse_page(body, "text/html", "https://flashinfer.ai/whl/nightly/x/", "flashinfer")


def night(day: int, *, without: str = "") -> list[Candidate]:
    """List all wheels of a night but those with some text in their names."""
    version = f"0.7.5.dev202611{day}"
    names = [f"flashinfer_{kind}-{version}-py3-none-any.whl" for kind in ("python", "cubin")]
    names += [
        f"flashinfer_jit_cache{kind}-{version}+cu130-cp39-abi3-manylinux_2_28_{machine}.whl"
        for kind, machine in (("", "x86_64"), ("", "aarch64"), ("_sm120f", "x86_64"))
    ]
    return page(*(name for name in names if not without or without not in name))


def test_flashinfer_nightly_gaps() -> None:
    """C17: two nights lack something, so the third is taken and the gaps are listed."""
    rows = [*night(29, without="jit_cache"), *night(28, without="aarch64"), *night(27)]
    rows = rows[::-2] + rows[-2::-2]
    found = newest_night(rows, PARTS)
    assert "0.7.5.dev20261127" == str(found.version)
    lacking = ", no ".join(map(str, PARTS[2:]))
    assert "flashinfer-jit-cache +cu130 for linux/arm64" == str(PARTS[3])
    assert [
        f"0.7.5.dev20261129 has no {lacking}",
        "0.7.5.dev20261128 has no flashinfer-jit-cache +cu130 for linux/arm64",
    ] == [str(skip) for skip in found.skipped]
    assert {("flashinfer-nightly-gaps", "warning")} == {
        (skip.finding().key, skip.finding().severity) for skip in found.skipped
    }


def test_a_whole_night_has_a_wheel_for_each_part() -> None:
    """The link's hash is kept; a release beside the nightlies is none."""
    rows = [*night(29), *page("flashinfer_python-0.8.0-py3-none-any.whl")]
    found = newest_night(rows, PARTS)
    assert ("0.7.5.dev20261129", ()) == (str(found.version), found.skipped)
    assert set(PARTS) == set(found.wheels)
    assert {"a" * 64} == {wheel.sha256 for wheel in found.wheels.values()}
    shim = found.wheels[PARTS[3]]
    assert shim.file.endswith("manylinux_2_28_aarch64.whl")
    assert shim.url.startswith(f"{RELEASES}/nightly-v1/")


def test_another_label_is_another_wheel() -> None:
    """A cu129 cache does not make a cu130 night whole."""
    rows = [*night(29, without="jit_cache")]
    rows += page("flashinfer_jit_cache-0.7.5.dev20261129+cu129-cp39-abi3-manylinux_2_28_x86_64.whl")
    with pytest.raises(Refused, match=r"no FlashInfer nightly is whole: 0\.7\.5\.dev20261129"):
        newest_night(rows, PARTS[:3])


def test_no_night_at_all() -> None:
    """It is said, with nothing to skip."""
    with pytest.raises(Refused, match="none is listed") as caught:
        newest_night([], PARTS)
    assert () == caught.value.findings
