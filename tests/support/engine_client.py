"""The engine as a person uses it: by its client; and how a test gives back what it put there."""

from __future__ import annotations

import os
import subprocess

import docker
from docker.errors import ImageNotFound

from builder.core.reference import ImageRef
from builder.edge.engine import Engine
from builder.edge.registry import Registry

DEADLINE = 300.0
"""Seconds within which the client must have answered."""


def ask_client(
    engine: Engine, *words: str, seconds: float = DEADLINE
) -> subprocess.CompletedProcess[str]:
    """Run `docker WORDS…` to its end, whatever its exit code."""
    return subprocess.run(
        [engine.docker, *words],
        env={**os.environ, **engine.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def tags_of(repository: ImageRef) -> set[str]:
    """Read which tags a repository has."""
    with Registry.open(repository.registry, os.environ) as registry:
        return set(registry.tags(repository))


def forget(engine: Engine, repository: ImageRef) -> None:
    """Take a repository's tags out of the registry, and its names out of the engine.

    By name: the same image may have other names that are not ours.
    """
    with Registry.open(repository.registry, os.environ) as registry:
        for tag in list(registry.tags(repository)):
            ref = repository.with_tag(tag)
            # One delete by digest takes every tag of it.
            if digest := registry.find_digest(ref):
                registry.delete(ref, digest)
    client = docker.from_env(environment=dict(engine.environment))
    try:
        for image in client.api.images(name=repository.name):
            for name in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ())):
                if name.startswith((f"{repository.name}:", f"{repository.name}@")):
                    try:
                        client.api.remove_image(name, force=True)
                    except ImageNotFound:
                        continue  # gone along with its other name
    finally:
        client.close()
