"""The Dockerfile of an image on an image: named context, extra packages, lint."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builder.core.dockerfile import dockerfile, invocation
from builder.core.lock import BaseLock, Lock
from builder.core.manifest import OCI_MANIFEST, Manifest
from builder.core.oci_layout import blob_name, layout_texts
from builder.core.spec import ImageSpec, parse_spec
from tests.support.small_cuda import IMAGES, small_cuda
from tests.support.small_lock import AMD64, small_lock, small_spec_text, templates

HADOLINT = Path(sys.executable).with_name("hadolint")
GOLDEN = Path(__file__).parents[1] / "golden/base-image.Dockerfile"
REF = "registry.example/debian:bookworm"
DIGEST = "sha256:" + "c" * 64


def based(*, packages: bool = True) -> tuple[ImageSpec, Lock]:
    """Return the small image on a base from a registry."""
    text = small_spec_text().replace('debian = "bookworm"', f'image = "{REF}"')
    if not packages:
        text = text.replace('packages = ["python3", "tini"]\n', "")
    spec = parse_spec(text, "images/cpu/image.toml")
    made = small_lock(spec)
    debs = made.header.base.debs if packages else {}
    base = BaseLock(image=REF, images={AMD64: DIGEST}, debs=debs)
    content = made.platforms[AMD64] if packages else replace(made.platforms[AMD64], debs=())
    header = made.header.model_copy(update={"base": base})
    return spec, Lock(header=header, platforms={AMD64: content})


def rendered(*, packages: bool = True) -> str:
    """Render it from the project's own templates."""
    spec, lock = based(packages=packages)
    return dockerfile(templates(), spec=spec, lock=lock, platform=AMD64)


def test_golden_file(update_golden: bool) -> None:
    """The whole text; `--update-golden` rewrites it."""
    if update_golden:
        GOLDEN.write_text(rendered())
    assert GOLDEN.read_text() == rendered()


def test_the_command_names_the_base_by_digest() -> None:
    """As the first comment and as `nightlock build` run it; a base of .debs has no context."""
    option = f"--build-context base-image=oci-layout://./base@{DIGEST}"
    assert f" {option} " in rendered().splitlines()[0]
    assert option in invocation(based()[1], AMD64).text()
    assert "--build-context" not in invocation(small_lock(), AMD64).text()


@pytest.mark.parametrize("packages", [True, False])
def test_dpkg_runs_only_where_there_are_packages(packages: bool) -> None:
    """Without network, like every step; a base as it is gets no layer."""
    text = rendered(packages=packages)
    assert packages == ("dpkg" in text)
    assert "FROM base-image AS base\n" in text
    assert "base.tar /" not in text
    runs = [line for line in text.splitlines() if line.startswith("RUN ")]
    assert [] == [line for line in runs if not line.startswith("RUN --network=none")]


def rendered_cuda(name: str) -> str:
    """Render a small image of the CUDA family on a base from a registry."""
    spec, lock, platform = small_cuda(name)
    base = BaseLock(image=REF, images={platform: DIGEST})
    content = replace(lock.platforms[platform], debs=())
    header = lock.header.model_copy(update={"base": base})
    based = Lock(header=header, platforms={platform: content})
    return dockerfile(templates(), spec=spec, lock=based, platform=platform)


@pytest.mark.parametrize("name", IMAGES)
def test_the_cuda_family_stands_on_such_a_base_too(name: str) -> None:
    """The toolkit is the wheels' all the same, and comes before what the base has on PATH."""
    text = rendered_cuda(name)
    assert "FROM base-image AS base\n" in text
    assert "FROM tools AS toolkit\n" in text
    assert 'ENV PATH="/opt/venv/bin:/usr/local/cuda/bin:' in text


@pytest.mark.parametrize("name", ["cpu", *IMAGES])
def test_hadolint_has_no_complaint(name: str, tmp_path: Path) -> None:
    """The linter most people use finds nothing."""
    text = rendered() if name == "cpu" else rendered_cuda(name)
    (tmp_path / "Dockerfile").write_text(text)
    command = [str(HADOLINT), "--no-color", str(tmp_path / "Dockerfile")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (ran.returncode, ran.stdout)


def test_a_layout_has_one_manifest() -> None:
    """By digest, size and platform; blobs lie where image-layout says."""
    data = b'{"schemaVersion": 2, "layers": []}'
    manifest = Manifest.parse(data, OCI_MANIFEST, "x")
    texts = layout_texts(manifest, AMD64)
    assert {"index.json", "oci-layout"} == texts.keys()
    for words in (manifest.digest, f'"size": {len(data)}', '"architecture": "amd64"'):
        assert words.encode() in texts["index.json"]
    assert f"blobs/sha256/{'c' * 64}" == blob_name(DIGEST)
