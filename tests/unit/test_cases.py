"""Every field case of locking has a test that is named after its key."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from builder.core.keys import KEYS

TESTS = Path(__file__).parents[1]
CASES = (*(f"C{number:02}" for number in range(1, 22)), "C28", "C29", "C63", "C66")


def names() -> set[str]:
    """Collect the name of every test function there is."""
    return {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_a_test_named_after_its_key(case: str) -> None:
    """`test_<key>`, or that with more words behind it."""
    (key,) = [row.key for row in KEYS.values() if row.case == case]
    wanted = f"test_{key.replace('-', '_')}"
    assert [name for name in names() if name == wanted or name.startswith(f"{wanted}_")]
