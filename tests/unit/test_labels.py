"""Labels: what an image says of itself."""

from __future__ import annotations

import json

from builder.core.labels import image_labels
from builder.core.lock import BaseLock
from tests.support.small_lock import AMD64, small_lock, small_spec


def test_labels_name_the_chain() -> None:
    """Spec, lock and base are named by digest, vLLM by version and commit."""
    spec = small_spec()
    lock = small_lock(spec)
    labels = image_labels(spec, lock, AMD64)
    assert lock.digest == labels["org.nightlock.lock.digest"]
    assert spec.digest == labels["org.nightlock.spec.digest"]
    assert lock.header.base.debs[AMD64] == labels["org.nightlock.base.debs"]
    assert "a" * 40 == labels["org.nightlock.vllm.commit"]
    assert "0.32.0" == labels["org.opencontainers.image.version"]
    assert {"torch": "2.13.0+cpu"} == json.loads(labels["org.nightlock.companions"])


def test_created_is_the_locks_epoch_in_utc() -> None:
    """No clock: two builds say the same."""
    labels = image_labels(small_spec(), small_lock(epoch=0), AMD64)
    assert "1970-01-01T00:00:00Z" == labels["org.opencontainers.image.created"]


def test_empty_labels_are_left_out_and_the_rest_is_sorted() -> None:
    """A CPU image says nothing of CUDA; order does not depend on how the dictionary was made."""
    labels = image_labels(small_spec(), small_lock(), AMD64)
    assert "org.nightlock.cuda" not in labels
    assert "org.opencontainers.image.base.digest" not in labels
    assert sorted(labels) == list(labels)


def test_a_registry_base_is_named_by_ocis_keys() -> None:
    """Scanners look for a base under these two names."""
    base = BaseLock(image="registry.example/debian:13", images={AMD64: "sha256:" + "c" * 64})
    labels = image_labels(small_spec(), small_lock(base=base), AMD64)
    assert "registry.example/debian:13" == labels["org.opencontainers.image.base.name"]
    assert "sha256:" + "c" * 64 == labels["org.opencontainers.image.base.digest"]
