"""smoke's GPU paths on a real GPU: `pytest -m gpu tests/integration/test_smoke_gpu.py`."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator

import docker
import pytest

from builder.commands.smoke_memory import await_return
from builder.core.boot import BootPlan
from builder.core.reference import ImageRef
from builder.edge import gpu_memory
from builder.edge.engine import Engine
from builder.edge.registry import Registry
from tests.support.engine_client import forget
from tests.support.tiny_image import push_tiny_image

pytestmark = [
    pytest.mark.docker,
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi: no NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def plan(engine: Engine) -> Iterator[BootPlan]:
    """Plan a boot of the small server with one GPU."""
    client = docker.from_env(environment=dict(engine.environment))
    repository = f"nightlock-test/{uuid.uuid4().hex[:12]}"
    ref = ImageRef.parse(push_tiny_image(client, engine.registry, repository, {}))
    with Registry.open(ref.registry, os.environ) as registry:
        pinned = ref.with_digest(registry.find_digest(ref)).pinned
    client.images.pull(ref.name, tag=ref.tag)
    yield BootPlan(
        image=pinned,
        arguments=(),
        environment={},
        port=8000,
        host_port=0,
        shm_bytes=64 << 20,
        folder="",
        mount="/model",
        grace=2,
        gpus=1,
    )
    for image in client.images.list(name=ref.name):
        client.images.remove(str(image.id), force=True)
    client.close()
    forget(engine, ref)


def test_gpu_memory_is_read_where_the_engine_is(engine: Engine, plan: BootPlan) -> None:
    """nvidia-smi in a throw-away container of an image that has none; idle memory has returned."""
    state = gpu_memory.look(engine, plan)
    assert 1 == len(state.memory)
    assert 0 < state.memory[0].total
    again = await_return(state, lambda: gpu_memory.look(engine, plan), 10, plan.image)
    assert [] == again
