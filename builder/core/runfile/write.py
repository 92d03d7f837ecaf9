"""The writers, by format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from builder.core.runfile.compose import write_compose
from builder.core.runfile.docker import write_docker
from builder.core.runfile.kubernetes import write_kubernetes
from builder.core.runfile.quadlet import write_quadlet
from builder.core.runfile.quoting import checked
from builder.core.runfile.spec import Form, RunSpec
from builder.core.runfile.systemd import write_systemd

_WRITERS: Mapping[Form, Callable[[RunSpec], str]] = MappingProxyType(
    {
        "docker": write_docker,
        "compose": write_compose,
        "systemd": write_systemd,
        "quadlet": write_quadlet,
        "kubernetes": write_kubernetes,
    }
)


def write(spec: RunSpec, form: Form) -> str:
    """Write one run file.

    Raises BadInput for what the format cannot say.
    """
    for argument in spec.arguments:
        checked(argument, spec.profile)
    for name, value in spec.environment:
        checked(value, name)
    return _WRITERS[form](spec)
