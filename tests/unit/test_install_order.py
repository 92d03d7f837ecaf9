"""Calls of dpkg: what is pre-depended on is configured in an earlier one."""

from __future__ import annotations

import pytest

from builder.core.install_order import install_order
from builder.core.lock import DebPin
from builder.errors import Refused


def order(**controls: str) -> list[list[str]]:
    """Order packages; `_` in a name stands for `-`, fields are parted by `;`."""
    rows = []
    for name, fields in controls.items():
        package = name.replace("_", "-")
        pin = DebPin(
            name=package,
            version="1",
            architecture="amd64",
            sha256="0" * 64,
            size=1,
            path=f"pool/{package}.deb",
            suite="bookworm",
            source=package,
        )
        rows.append((pin, f"Package: {package}\n" + fields.replace(";", "\n")))
    return [[file.removesuffix(".deb") for file in row] for row in install_order(rows)]


def test_debian_s_python() -> None:
    """python3 pre-depends on python3-minimal, that on python3.11-minimal."""
    found = order(
        python3="Pre-Depends: python3-minimal (= 3.11.2-1+b1)\nDepends: python3.11",
        python3_minimal="Pre-Depends: python3.11-minimal (>= 3.11.2-1~)",
        **{"python3.11": "Depends: python3.11-minimal (= 3.11.2-6)"},
        **{"python3.11-minimal": "Pre-Depends: libc6 (>= 2.35)"},
        media_types="",
    )
    assert [
        ["media-types", "python3.11-minimal", "python3.11"],
        ["python3-minimal"],
        ["python3"],
    ] == found


def test_a_step_is_closed_under_depends() -> None:
    """What a pre-dependency depends on is in its step or before; circles of Depends are one."""
    found = order(
        app="Pre-Depends: tool",
        tool="Depends: liba",
        liba="Depends: data | other",
        data="Depends: liba",
        late="Depends: app",
    )
    assert [["data", "liba", "tool"], ["app", "late"]] == found


def test_what_is_provided_counts() -> None:
    """A virtual package stands for those that provide it."""
    assert [["mta"], ["app"]] == order(
        app="Pre-Depends: mail-transport-agent", mta="Provides: mail-transport-agent (= 2), x"
    )


def test_a_circle_of_pre_dependencies_is_refused() -> None:
    """No order installs it."""
    with pytest.raises(Refused, match="before it is unpacked"):
        order(one="Pre-Depends: two", two="Depends: one")
