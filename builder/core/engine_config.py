"""Configuration files of the private engine and its registry, and their names on this machine."""

from __future__ import annotations

import json

from builder.core.engine import EngineFolders

PORTS = range(5000, 5100)
"""Where the registry looks for a free port; below the kernel's ephemeral ones."""
CACHE = "20GB"
"""What BuildKit may keep of steps no image needs: two builds of a CUDA image."""
OUTSIDE_FOLDERS = ("/run/docker", "/run/containerd", "/run/runc")
"""Made by dockerd, shims and build steps, whatever their configuration says."""


def cgroup_name(folders: EngineFolders) -> str:
    """Control group that holds every container and build step, and nothing else."""
    return folders.run.name


def bridge_name(folders: EngineFolders) -> str:
    """Name of our own bridge; interfaces have at most 15 characters."""
    return "nl-" + folders.run.name.rpartition("-")[2]


def daemon_config(folders: EngineFolders) -> str:
    """Return dockerd's whole configuration; /etc/docker/daemon.json is not read.

    The cgroup driver is set because dockerd guesses systemd where only its files are.
    """
    return _json(
        {
            "hosts": [folders.host],
            "group": "root",
            "data-root": str(folders.data),
            "exec-root": str(folders.exec),
            "pidfile": str(folders.run / "docker.pid"),
            "bridge": bridge_name(folders),
            "cgroup-parent": f"/{cgroup_name(folders)}",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "features": {"containerd-snapshotter": True},
            "builder": {"gc": {"enabled": True, "defaultKeepStorage": CACHE}},
        }
    )


def registry_config(folders: EngineFolders, port: int) -> str:
    """Return the registry's configuration (distribution/distribution 2.8); JSON is YAML.

    Deleting is on, for retention; no address but loopback, since there is no authentication.
    """
    return _json(
        {
            "version": 0.1,
            "log": {"level": "info", "accesslog": {"disabled": True}},
            "storage": {
                "filesystem": {"rootdirectory": str(folders.registry)},
                "delete": {"enabled": True},
            },
            "http": {"addr": f"127.0.0.1:{port}"},
        }
    )


def _json(content: object) -> str:
    return json.dumps(content, indent=1) + "\n"
