"""The structural test on real images: the one that is built, and what people do to images."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from builder.commands import diff, smoke
from builder.commands.smoke import SmokeResult
from builder.core.boot import RUN_LABEL
from builder.core.receipt import Receipt
from builder.core.reference import ImageRef
from builder.edge import process
from builder.edge.engine import Engine
from builder.edge.registry import Registry
from builder.errors import LockFileError
from tests.support.engine_client import forget
from tests.support.image_handle import ImageHandle
from tests.support.smoke_project import smoke_context
from tests.support.tiny_image import push_tiny_image

pytestmark = pytest.mark.docker

METADATA = "Metadata-Version: 2.1\\nName: debugpy\\nVersion: 1.0\\n"
SITE = "/opt/venv/lib/python3.11/site-packages"
FAULTS = f"""
USER 0
WORKDIR {SITE}
RUN --network=none echo 'import torch; torch.save' >> vllm/model_executor/models/llama.py \\
 && touch vllm/patched.py \\
 && rm -r idna idna-*.dist-info \\
 && mkdir debugpy-1.0.dist-info \\
 && printf '{METADATA}' > debugpy-1.0.dist-info/METADATA \\
 && touch debugpy-1.0.dist-info/RECORD \\
 && sed -i 's/^Version: .*/Version: 3.8.0/' triton-*.dist-info/METADATA \\
 && echo 'raise OSError("broken on purpose")' > triton/__init__.py \\
 && rm /usr/bin/gcc /usr/bin/*-gcc \\
 && chmod 700 /cache
WORKDIR /
USER 2000:0
"""
NO_PYTHON = """
USER 0
RUN --network=none rm /opt/venv/bin/python
USER 2000:0
"""


@pytest.fixture
def derive(engine: Engine, cpu_image: ImageHandle, tmp_path: Path) -> Iterator[object]:
    """Build on top of the `cpu` image and push; take it away afterwards."""
    repository = ImageRef.parse(f"{engine.registry}/nightlock-test/{uuid.uuid4().hex[:12]}/derived")

    def build(lines: str) -> str:
        name = f"{repository.name}:x"
        process.run(
            f"{engine.docker} buildx build --provenance=false "
            f"--output type=image,name={name},push=true -".split(),
            stdin=f"FROM {cpu_image.reference}\n{lines}".encode(),
            environment={**os.environ, **engine.environment},
        )
        return name

    yield build
    forget(engine, repository)


def test_the_cpu_image_passes(looked_inside: Path, cpu_image: ImageHandle) -> None:
    """Every check but the one for GPUs, and a receipt of its own kind says so."""
    (folder,) = looked_inside.glob("*/smoke/*")
    report = json.loads((folder / "report.json").read_text())
    assert {"flashinfer-jit": "skip"} == {
        row["name"]: row["status"] for row in report["checks"] if row["status"] != "pass"
    }
    assert {"companions", "files", "import-torch", "import-vllm", "version", "c-extension"} <= {
        row["name"] for row in report["checks"]
    }
    receipt = Receipt.parse((folder / "receipt.json").read_bytes())
    assert receipt is not None
    assert receipt.proves(cpu_image.digest)
    assert ("structural", "pass", report["lock"]) == (
        receipt.predicate.kind,
        receipt.predicate.verdict,
        receipt.predicate.lock,
    )
    assert {"receipt.json", "junit.xml", "probe.json", "probe.log", "report.json"} == {
        path.name for path in folder.iterdir()
    }


def failures(result: SmokeResult) -> dict[str, str]:
    """Check → key of those that failed."""
    return {check.name: check.key for check in result.checks if check.status == "fail"}


def test_every_fault_is_named(
    derive: object, cpu_image: ImageHandle, engine: Engine, tmp_path: Path
) -> None:
    """What people do to images: a patch, a package more, less and older, a closed cache folder.

    `diff` with the image it was built on says the same from outside.
    """
    assert callable(derive)
    context, reference = smoke_context(tmp_path, engine), derive(FAULTS)
    outcome = smoke.run(context, reference)
    assert not outcome.ok
    found = failures(outcome.result)
    assert {
        "user": "non-root-user",
        "companions": "not-locked",
        "packages": "not-locked",
        "files": "file-edited",
        "import-triton": "import-failed",
        "c-extension": "no-c-compiler-at-runtime",
    }.items() <= found.items(), outcome.text
    named = {(one.key, one.subject) for one in outcome.findings}
    assert {
        ("file-edited", f"{SITE}/vllm/model_executor/models/llama.py"),
        ("file-stray", f"{SITE}/vllm/patched.py"),
        ("not-locked", "debugpy"),
        ("not-locked", "triton"),
        ("package-missing", "idna"),
        ("import-failed", "triton"),
    } <= named
    layers = diff.run(context, cpu_image.reference, reference).result.images[0].layers
    changed = {path.path for layer in layers for path in layer.paths}
    assert ({"added"}, True) == (
        {layer.reason for layer in layers},
        f"{SITE}/vllm/patched.py".lstrip("/") in changed,
    )
    # Nothing was booted: the gate comes first.
    assert ("structural", {"structural"}) == (outcome.result.kind, set(outcome.result.phases))


def test_an_image_that_does_not_start_gives_no_answer(
    derive: object, engine: Engine, tmp_path: Path
) -> None:
    """Key structural-not-run, with what the entrypoint said; nothing is proven either way."""
    assert callable(derive)
    context = smoke_context(tmp_path, engine)
    outcome = smoke.run(context, derive(NO_PYTHON), structural_only=True)
    assert {"answer": "structural-not-run"} == failures(outcome.result)
    assert "/opt/venv/bin/python" in outcome.findings[0].evidence
    assert not (Path(outcome.result.folder) / "receipt.json").exists()
    client = docker.from_env(environment=dict(engine.environment))
    assert [] == client.containers.list(all=True, filters={"label": RUN_LABEL})
    client.close()


def test_a_label_without_a_lock_is_refused(engine: Engine, tmp_path: Path) -> None:
    """What it claims to be built from is not in it."""
    labels = {"org.nightlock.image": "cpu", "org.nightlock.lock.digest": "sha256:" + "1" * 64}
    client = docker.from_env(environment=dict(engine.environment))
    name = push_tiny_image(
        client, engine.registry, f"nightlock-test/{uuid.uuid4().hex[:12]}", labels
    )
    client.close()
    ref = ImageRef.parse(name)
    try:
        with pytest.raises(LockFileError, match="holds no lock"):
            smoke.run(smoke_context(tmp_path, engine), name)
    finally:
        with Registry.open(ref.registry, os.environ) as registry:
            registry.delete(ref, registry.find_digest(ref))
