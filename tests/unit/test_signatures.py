"""The table of signatures: data that covers every case, and that an operator can add to."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.core.derived import cuda_version, fitting_utilization
from builder.core.diagnosis import Diagnoser
from builder.core.keys import KEYS, find_key
from builder.core.signature import Mark, Signature, parse_signatures
from builder.edge.signatures import read_table
from builder.errors import SpecError
from tests.support.diagnosing import table

WITH_LINES = (
    1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56,
    57, 58, 59, 60, 61, 62, 63, 64, 67, 68, 69, 70, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83,
)  # fmt: skip
"""Field cases that were published with lines of log. The rest was not (C17, C27, C31, C65, C66, C71),
or with a line that must give nothing (C06)."""
MADE = {
    "orphan-workers",
    "root-cause-above",
    "external-sigterm",
    "shm-broadcast-60s",
    "nccl-p2p-hang",
}
"""Keys that no single line names: the order of several does."""


@pytest.mark.parametrize("number", WITH_LINES)
def test_every_case_with_lines_has_a_signature(number: int) -> None:
    """By its key, as `explain` knows it."""
    row = find_key(f"C{number:02}")
    assert row is not None
    named = {entry.key for entry in table() if isinstance(entry, Signature)}
    assert row.key in named | MADE


@pytest.mark.parametrize("number", WITH_LINES)
def test_every_case_with_lines_has_a_test_of_its_name(number: int) -> None:
    """A new signature is one entry and one test."""
    row = find_key(f"C{number:02}")
    assert row is not None
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_diagnose_*.py"))
    assert f"def test_{row.key.replace('-', '_')}" in texts


def test_every_key_of_the_table_is_known() -> None:
    """`explain` has a row for each."""
    assert set() == {entry.key for entry in table() if isinstance(entry, Signature)} - set(KEYS)


def test_no_signature_advises_the_bypass() -> None:
    """A check is never switched off to get past it."""
    rows = [entry for entry in table() if isinstance(entry, Signature)]
    assert [] == [row.key for row in rows if "DISABLE_VERSION_CHECK" in row.action]


def test_conditions_name_what_exists() -> None:
    """A phase or fact that no mark sets would never be met."""
    marks = [entry for entry in table() if isinstance(entry, Mark)]
    phases = {mark.name for mark in marks if mark.kind == "phase"} | {"serve"}
    facts = {mark.name for mark in marks if mark.kind == "fact"}
    for row in (entry for entry in table() if isinstance(entry, Signature)):
        assert {*row.phase, *row.after} <= phases, row.key
        assert {*row.with_, *row.without} <= facts, row.key


OWN = """
version = 1
[[signature]]
key = "our-proxy-refuses"
any = ["proxy.corp refused"]
match = 'proxy\\.corp refused (?P<what>\\S+)'
cause = "The proxy does not let {what} through."
action = "Ask for {what} in the network's form."
[[signature]]
key = "hf-offline"
any = ["Insufficient space in /dev/shm"]
"""


def test_an_operators_file_comes_first(tmp_path: Path) -> None:
    """With keys of its own, and before nightlock's."""
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    diagnoser = Diagnoser(read_table([path]))
    diagnoser.feed("(EngineCore pid=9) OSError: proxy.corp refused models.example:443")
    diagnoser.feed("(EngineCore pid=9) RuntimeError: Insufficient space in /dev/shm")
    first, second = diagnoser.diagnosis().findings("x")
    assert ("our-proxy-refuses", "error", "The proxy does not let models.example:443 through.") == (
        first.key,
        first.severity,
        first.cause,
    )
    assert "hf-offline" == second.key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version = ", "not TOML"),
        ("", "version: Field required"),
        ("version = 2", "version: Input should be 1"),
        ("version = 1\n[[signature]]\nkey = 'hf-offline'\nany = []", "signature[0].any"),
        ("version = 1\n[[signature]]\nkey = 'hf-offline'\nany = ['12 3']", "three characters"),
        ("version = 1\n[[signature]]\nkey = 'hf-offline'\nany = ['abc']\nmatch = '('", "no regular expression"),
        ("version = 1\n[[signature]]\nkey = 'hf-offline'\nany = ['abc']\nrole = 'boss'", "signature[0].role"),
        ("version = 1\n[[signature]]\nkey = 'hf-offline'\nany = ['abc']\ncolour = 'red'", "signature[0].colour"),
        ("version = 1\n[[signature]]\nkey = 'Not A Key'\nany = ['abc']", "signature[0].key"),
        ("version = 1\n[[signature]]\nkey = 'our-own'\nany = ['abc']", "say its cause and action"),
        ("version = 1\n[[mark]]\nkind = 'phase'\nany = ['abc']", "a phase and a fact have a name"),
        ("version = 1\n[[mark]]\nkind = 'up'\nany = ['abc']\nstalls = 'x-y'", "no finding key: x-y"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_says_where(text: str, words: str) -> None:
    """The place in the file, and what is allowed."""
    with pytest.raises(SpecError) as caught:
        parse_signatures(text, "own.toml")
    assert words in caught.value.what
    assert "own.toml" == caught.value.subject


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(SpecError, match="not there"):
        read_table([tmp_path / "none.toml"])


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("12080", "12.8"),
        ("13000", "13.0"),
        ("11040", "11.4"),
        ("", "?"),
        ("x", "?"),
        ("9" * 30, "?"),
    ],
)
def test_a_cuda_version_is_decoded(number: str, expected: str) -> None:
    """As cuDriverGetVersion encodes it."""
    assert expected == cuda_version(number)


@pytest.mark.parametrize(
    ("free", "total", "expected"),
    [("22.06", "23.56", "0.93"), ("3.10", "94.97", "0.03"), ("9", "9", "1.00"), ("1", "0", "?"), ("", "1", "?")],
)  # fmt: skip
def test_the_utilisation_that_fits(free: str, total: str, expected: str) -> None:
    """Rounded down."""
    assert expected == fitting_utilization(free, total)
