"""The CUDA toolkit in an image: nvcc compiles and links there as anybody, with nothing to write to.

A small image of the CUDA family, with the real nvcc; without a GPU and without a network.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from builder.commands import build
from builder.commands.build import BuildResult
from builder.commands.context import Context
from builder.core.reference import ImageRef
from builder.edge.engine import Engine
from builder.edge.registry import Registry
from builder.errors import BadInput, ToolMissing
from tests.support.mini_cuda import NAME, mini_cuda

pytestmark = [pytest.mark.docker, pytest.mark.network]

SOURCE = """
#include <cuda.h>
#include <cuda/std/array>
__global__ void twice(float *values) { values[threadIdx.x] *= 2; }
extern "C" int start(void) { return cuInit(0); }
extern "C" void launch(float *values) { twice<<<1, 32>>>(values); }
"""
COMPILE = """
set -eu
echo "$TMPDIR" && cd /cache && cat > kernel.cu
nvcc -arch=sm_120f -shared -Xcompiler -fPIC kernel.cu -o kernel.so -lcudart -lcuda
readelf -d kernel.so | grep -o 'libcud[a-z]*.so.[0-9]*' | sort
LD_LIBRARY_PATH=$CUDA_HOME/lib64/stubs:$CUDA_HOME/lib64 \
    python -c 'import ctypes; print(ctypes.CDLL("/cache/kernel.so").start())'
"""


@dataclass(frozen=True, kw_only=True)
class Built:
    """The image, and the engine it is in."""

    context: Context
    engine: Engine
    image: BuildResult

    def run(self, *words: str, said: str = "") -> str:
        """Run a program as nobody in particular; only /cache can be written."""
        box = ["--network=none", "--read-only", "--user=43210:54321"]
        disk = ["--mount", "type=volume,target=/cache"]
        command = ["run", "--rm", "--interactive", *box, *disk, self.image.reference, *words]
        ran = subprocess.run(
            [str(self.engine.docker), *command],
            env={**os.environ, **self.engine.environment},
            input=said,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert 0 == ran.returncode, ran.stderr
        return str(ran.stdout)


@pytest.fixture(scope="module")
def built(
    engine: Engine, engine_context: Context, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Built]:
    """Build it as a user does, and take it away afterwards."""
    context = mini_cuda(engine_context, tmp_path_factory.mktemp("minicuda"))
    repository = ImageRef.parse(f"{engine.registry}/nightlock-test/{uuid.uuid4().hex[:12]}")
    image = build.run(context, NAME, push=repository.name).result
    yield Built(context=context, engine=engine, image=image)
    for record in (context.places.state / "builds").glob(f"{image.build_id.split(':')[1]}.json"):
        record.unlink()
    with Registry.open(repository.registry, os.environ) as registry:
        registry.delete(repository.with_tag(image.tags[0]), image.digest)
    subprocess.run(
        [engine.docker, "image", "rm", "--force", f"{repository.name}:{image.tags[0]}"],
        env={**os.environ, **engine.environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def test_nvcc_compiles_links_and_the_result_loads(built: Built) -> None:
    """With the stub in the driver's place, which says of itself that it is one."""
    said = built.run("sh", "-c", COMPILE, said=SOURCE)
    scratch = "/cache/scratch-43210"
    assert [scratch, "libcuda.so.1", "libcudart.so.13", "34"] == said.splitlines()


def test_wrong_nvcc_the_first_one_on_path_is_the_locked_one(built: Built) -> None:
    """FlashInfer asks PATH where CUDA_HOME is not set, and CUDA_HOME where it is."""
    said = built.run("sh", "-c", "command -v nvcc && $CUDA_HOME/bin/nvcc --version")
    assert "/usr/local/cuda/bin/nvcc" == said.splitlines()[0]
    assert "release 13.0" in said


def test_cuda_compat_803_nothing_shadows_the_hosts_driver(built: Built) -> None:
    """The one libcuda is the stub, in a folder that the loader does not search."""
    find = "find / -name 'libcuda.so*' -not -path '/proc/*' 2>/dev/null; cat /etc/ld.so.conf.d/*"
    said = built.run("sh", "-c", find)
    stubs = "/usr/local/cuda/lib/stubs/libcuda.so"
    assert [stubs, f"{stubs}.1"] == sorted(line for line in said.splitlines() if "cuda" in line)


def test_arm64_missing_another_architecture_is_refused_or_emulated_knowingly(
    engine_context: Context,
) -> None:
    """Not by accident, and not where nothing could run it."""
    for emulate, kind, words in ((False, BadInput, "--emulate"), (True, ToolMissing, "emulator")):
        with pytest.raises(kind) as raised:
            build.run(engine_context, "cuda13-sm121", emulate=emulate)
        assert "cuda13-sm121" == raised.value.subject
        assert "native arm64 runner" in raised.value.action
        assert words in f"{raised.value.what} {raised.value.action}"
