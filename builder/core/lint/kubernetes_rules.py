"""Rules on Kubernetes manifests: every container of every pod template."""

from __future__ import annotations

from builder.core.lint.compose_rules import check_probe
from builder.core.lint.container import Container
from builder.core.lint.container_rules import check_container
from builder.core.lint.place import Notes, Word
from builder.core.lint.yamlfile import Node

_LOAD = 300.0
"""Seconds that probes must allow for the load of a model."""


def pods(root: Node) -> list[Node]:
    """Pod specs of one document: a Pod, a workload, a CronJob, a List."""
    if root.get("kind").text == "List":
        return [pod for item in root.get("items").list() for pod in pods(item)]
    paths = (("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))
    found = [root.get(*path) for path in paths if root.get(*path).there]
    if root.get("kind").text == "Pod":
        found.append(root.get("spec"))
    return found


def read_container(node: Node, pod: Node) -> Container:
    """Read one container of a pod."""
    box = Container(form="kubernetes", line=node.line, program="kubelet")
    if node.get("image").there:
        box.image, box.line = node.get("image").word(), node.get("image").line
    if node.get("command").there:
        box.entrypoint = Word(text="…", line=node.get("command").line)
    box.arguments = [one.word() for key in ("command", "args") for one in node.get(key).list()]
    box.environment = [
        Word(text=f"{one.get('name').text}={one.get('value').text}", line=one.line)
        for one in node.get("env").list()
        if one.get("value").there
    ]
    limits = dict(node.get("resources", "limits").items())
    box.asks_gpu = any(key.startswith("nvidia.com/") for key in limits)
    memory = {
        volume.get("name").text: volume.get("emptyDir", "sizeLimit").text or "unlimited"
        for volume in pod.get("volumes").list()
        if volume.get("emptyDir", "medium").text == "Memory"
    }
    for mount in node.get("volumeMounts").list():
        size = memory.get(mount.get("name").text)
        if mount.get("mountPath").text == "/dev/shm" and size:  # noqa: S108 - a path in a pod
            box.shm = Word(text=size, line=mount.line)
    if pod.get("hostIPC").text == "true":
        box.ipc = Word(text="host", line=pod.line)
    return box


def check_kubernetes(root: Node, notes: Notes) -> None:
    """Check one document."""
    for pod in pods(root):
        for node in pod.get("containers").list() + pod.get("initContainers").list():
            box = read_container(node, pod)
            check_container(box, notes)
            if box.serves_vllm:
                _probes(node, notes)
                _stop(pod, notes)


def _probes(node: Node, notes: Notes) -> None:
    for name in ("livenessProbe", "startupProbe", "readinessProbe"):
        probe = node.get(name)
        command = [one.text for one in probe.get("exec", "command").list()]
        if command:
            check_probe(command, probe.line, notes)
    startup, liveness = node.get("startupProbe"), node.get("livenessProbe")
    probe = startup if startup.there else liveness
    if not probe.there:
        return
    allowed = _number(probe, "initialDelaySeconds", 0) + _number(
        probe, "periodSeconds", 10
    ) * _number(probe, "failureThreshold", 3)
    if allowed < _LOAD:
        which = "startupProbe" if startup.there else "livenessProbe"
        notes.add(
            "health-start-period",
            probe.line,
            f"the {which} gives up after {allowed:.0f} s, and the pod is killed while it loads",
            corrected="startupProbe: periodSeconds: 10, failureThreshold: 180  # 30 minutes",
        )


def _number(node: Node, key: str, default: float) -> float:
    text = node.get(key).text
    return float(text) if text.isdigit() else default


def _stop(pod: Node, notes: Notes) -> None:
    grace = pod.get("terminationGracePeriodSeconds")
    if grace.there and grace.text.isdigit() and int(grace.text) < 30:
        notes.add(
            "stop-and-name-conflicts",
            grace.line,
            f"the pod is killed after {grace.text} s, before vLLM has ended its workers",
            corrected="terminationGracePeriodSeconds: 60",
            edit=(
                f"terminationGracePeriodSeconds: {grace.text}",
                "terminationGracePeriodSeconds: 60",
            ),
        )
