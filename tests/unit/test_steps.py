"""BuildKit's lines, read; and its failures, explained."""

from __future__ import annotations

import pytest

from builder.core.steps import Step, Steps, buildkit_version
from builder.errors import BuildFailed, DiskFull, EngineError, NightlockError, RegistryError

SUCCESS = """\
#0 building with "default" instance using docker driver

#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 6.02kB done
#1 DONE 0.1s

#5 [base 1/1] ADD base.tar /
#5 CACHED

#8 [group-01 1/1] RUN --network=none uv pip install
#8 0.412 Resolved 1 package in 3ms
#8 12.02 Installed 1 package in 11.2s
#8 DONE 12.4s

#12 exporting to image
#12 exporting layers
#12 exporting layers 30.1s done
#12 pushing layers 2.0s done
#12 DONE 34.2s
"""

FAILURE = """\
#7 [group-02 1/1] RUN --network=none uv pip install
#8 [group-01 1/1] RUN --network=none uv pip install
#8 0.512 error: Hash mismatch for `click==8.1.8`
#7 CANCELED
#7 ERROR: context canceled: context canceled
#8 ERROR: process "/bin/sh -c uv pip install" did not complete: exit code: 2
------
 > [group-01 1/1] RUN --network=none uv pip install:
0.512 error: Hash mismatch for `click==8.1.8`
------
Dockerfile:47
--------------------
  46 |     FROM tools AS group-01
  47 | >>> RUN --network=none uv pip install
--------------------
ERROR: failed to solve: process "/bin/sh -c uv pip install" did not complete: exit code: 2
"""


def read(text: str) -> tuple[Steps, list[Step]]:
    """Feed all lines; return the reader and the steps it reported."""
    steps = Steps()
    reported = [step for line in text.splitlines() if (step := steps.read(line)) is not None]
    return steps, reported


def test_steps_are_reported_as_they_end() -> None:
    """Name, seconds, and whether the cache had it."""
    _, reported = read(SUCCESS)
    assert [
        ("internal", 0.1, False),
        ("base 1/1", 0.0, True),
        ("group-01 1/1", 12.4, False),
        ("exporting to image", 34.2, False),
    ] == [(step.title, step.seconds, step.cached) for step in reported]


def test_a_failed_step_is_named_with_its_last_lines_and_the_dockerfile_line() -> None:
    """The step that failed by itself, not one that was cancelled along with it."""
    steps, _ = read(FAILURE)
    error = steps.failure("/x/Dockerfile")
    assert isinstance(error, BuildFailed)
    assert error.what.startswith("the step [group-01 1/1] RUN")
    assert "  | error: Hash mismatch for `click==8.1.8`" in error.what
    assert "/x/Dockerfile:47" == error.subject


UNREACHABLE = """\
#9 exporting to image
#9 ERROR: failed to push localhost:1/x: failed to do request: Head "http://localhost:1/v2": refused
"""
FULL_IN_STEP = """\
#9 [a 1/1] RUN x
#9 1.2 OSError: [Errno 28] No space left on device
#9 ERROR: process did not complete successfully: exit code: 1
"""
FULL_IN_EXPORT = """\
#9 exporting to image
#9 ERROR: write /var/lib/x: no space left on device
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ERROR: failed to solve: dockerfile parse error on line 3: unknown flag: x", BuildFailed),
        ("ERROR: Cannot connect to the Docker daemon at unix:///run/x.", EngineError),
        ('ERROR: no builder "nosuch" found', EngineError),
        ("ERROR: failed to build: OCI exporter is not supported for the driver.", EngineError),
        (UNREACHABLE, RegistryError),
        (FULL_IN_STEP, DiskFull),
        (FULL_IN_EXPORT, DiskFull),
        ("", BuildFailed),
    ],
)
def test_whose_fault_it_is(text: str, kind: type[NightlockError]) -> None:
    """A full disk, a silent registry and a missing engine are not faults of the image."""
    steps, _ = read(text)
    error = steps.failure("Dockerfile")
    assert kind is type(error)
    assert error.action


@pytest.mark.parametrize(
    ("driver", "line", "expected"),
    [
        ("docker-container", "BuildKit version: v0.13.2", "v0.13.2"),
        ("docker-container", "Buildkit:  v0.12.5", "v0.12.5"),
        ("docker", "BuildKit version: v0.0.0+unknown", "v0.0.0+unknown of docker 26.1.5"),
        ("remote", "Platforms: linux/amd64", ""),
    ],
)
def test_buildkit_version(driver: str, line: str, expected: str) -> None:
    """Old and new buildx spell the label in two ways; a part of the engine has its version."""
    lines = ["Name: default", f"Driver: {driver}", "", "Nodes:", f"  {line}", "Labels:"]
    assert expected == buildkit_version(lines, "26.1.5")
