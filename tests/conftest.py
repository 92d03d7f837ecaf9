"""Options of the test run and what all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# No test looks at a clock; in CI the same examples each time, elsewhere new ones.
settings.register_profile("nightlock", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("nightlock")

ROOT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the one switch that rewrites everything generated."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite golden files, JSON schemas and the README's help texts",
    )


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start, also where pytest itself runs under nohup.

    An ignored signal stays ignored over exec, a caught one becomes the default.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes to hours, or a GPU, unless a marker asks for it."""
    chosen = str(config.getoption("markexpr"))
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        extra = {"long", "gpu"} & {mark.name for mark in item.iter_markers()}
        (left if any(name not in chosen for name in extra) else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expected files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def project_root() -> Path:
    """Return the project's own folder."""
    return ROOT
