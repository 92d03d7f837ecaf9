"""Kubernetes: a Deployment of one pod, its cache and its Service."""

from __future__ import annotations

import re
from typing import Any

from builder.core.runfile.quoting import dollars
from builder.core.runfile.spec import CACHE, STOP, RunSpec, header
from builder.core.runfile.yamltext import yaml_text
from builder.errors import BadInput

_PERIOD = 10
"""Seconds between probes."""
_CACHE_SIZE = "100Gi"


def write_kubernetes(spec: RunSpec) -> str:
    """Write the manifests.

    Raises BadInput for chosen GPUs: the device plugin picks them, a manifest can only count.
    """
    if spec.gpus.chosen:
        raise BadInput(
            "Kubernetes does not let a pod choose GPUs by UUID or index",
            subject=", ".join(spec.gpus.chosen),
            action="give a number: --gpus N",
        )
    name = _name(spec.name)
    labels = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": name}
    claims = [volume.source for volume in spec.volumes if volume.named]
    deployment: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            # The GPUs are free only once the old pod has gone.
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": spec.startup + 600,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(spec)},
        },
    }
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": labels,
            "ports": [{"name": "http", "port": spec.host_port, "targetPort": "http"}],
        },
    }
    caches = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": _name(claim), "labels": labels},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": _CACHE_SIZE}},
            },
        }
        for claim in claims
    ]
    return yaml_text(header(spec, "kubernetes"), [*caches, deployment, service])


def _pod(spec: RunSpec) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    container: dict[str, Any] = {
        "name": "vllm",
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "args": [dollars(argument) for argument in spec.arguments],
        "env": [{"name": name, "value": dollars(value)} for name, value in spec.environment],
        "ports": [{"name": "http", "containerPort": spec.port}],
        # Failures count only once the load has had its time.
        "startupProbe": probe
        | {"periodSeconds": _PERIOD, "failureThreshold": -(-spec.startup // _PERIOD)},
        "readinessProbe": probe | {"periodSeconds": _PERIOD},
        "livenessProbe": probe | {"periodSeconds": 30, "failureThreshold": 3},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - in a pod
    }
    if spec.secrets:
        container["envFrom"] = [{"secretRef": {"name": spec.secrets}}]
    if spec.gpus.count:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(spec.gpus.count)}}
    volumes: list[dict[str, Any]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{spec.shm_mib}Mi"}}
    ]
    for number, volume in enumerate(spec.volumes):
        name = "cache" if volume.target == CACHE else f"volume-{number}"
        container["volumeMounts"].append(
            {"name": name, "mountPath": volume.target}
            | ({"readOnly": True} if volume.read_only else {})
        )
        source: dict[str, Any] = (
            {"persistentVolumeClaim": {"claimName": _name(volume.source)}}
            if volume.named
            else {"hostPath": {"path": volume.source, "type": "Directory"}}
        )
        volumes.append({"name": name} | source)
    return {
        "terminationGracePeriodSeconds": STOP,
        # The volume's files are given to the image's user.
        "securityContext": {"runAsNonRoot": True, "runAsUser": 2000, "fsGroup": 2000},
        "containers": [container],
        "volumes": volumes,
    }


def _name(text: str) -> str:
    """Spell a name as Kubernetes takes it (RFC 1123 label)."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:63].rstrip("-") or "vllm"
