"""No error text has a password in it; no error that has a key is without its finding."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from builder import errors
from builder.errors import BadInput, CommandFailed, redacted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://robot:s3cret@index.example/simple", "https://index.example/simple"),
        ("see http://token@i.example:8080/x, and so on", "see http://i.example:8080/x, and so on"),
        ("--index-url=https://a:b%40c@i/x", "--index-url=https://i/x"),
        ("https://index.example/simple/@scope", "https://index.example/simple/@scope"),
        ("ssh://me@build.example", "ssh://me@build.example"),
        ("registry.example/team/image@sha256:00", "registry.example/team/image@sha256:00"),
    ],
)
def test_credentials_leave_addresses(text: str, expected: str) -> None:
    """And nothing else does."""
    assert expected == redacted(text)


def test_every_field_of_an_error_is_redacted() -> None:
    """What, subject, action and the last words of a program."""
    url = "https://robot:s3cret@index.example"
    error = CommandFailed(f"no {url}", subject=f"pip -i {url}", action=f"mend {url}", tail=url)
    assert "s3cret" not in str(error)
    assert "s3cret" not in repr(error)
    assert "no https://index.example" == error.what
    assert ("https://index.example",) == (BadInput("x", subject=url).subject,)


@pytest.mark.parametrize(
    ("error", "makers"),
    [
        ("HashMismatch", {"hash_change.py", "indexes.py", "wheelhouse.py"}),
        ("StaleLock", {"staleness.py"}),
    ],
)
def test_what_has_a_key_is_made_where_its_finding_is(error: str, makers: set[str]) -> None:
    """Nobody else raises it, so none is without a finding."""
    found = {
        path.name
        for path in Path(errors.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == error
    }
    assert makers == found
