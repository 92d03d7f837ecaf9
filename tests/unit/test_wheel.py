"""What a wheel says of itself."""

from __future__ import annotations

import pytest

from builder.core.wheel import WheelFacts, cuda_in, meta_row, seconds

METADATA = "Metadata-Version: 2.4\nName: vllm\nVersion: 1.0+cpu\n"


def facts(more: str = "", metadata: str = METADATA, version_file: str = "") -> WheelFacts:
    """Make up a wheel."""
    return WheelFacts(metadata=metadata + more, size=1, newest=0, version_file=version_file)


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        ("License-Expression: Apache-2.0\nLicense: MIT\n", "Apache-2.0"),
        ("License: \n        BSD 3-Clause License\n        Copyright X\n", "BSD 3-Clause License"),
        ("Classifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        ("License: " + "x" * 500 + "\n", "x" * 120),
        ("", ""),
    ],
)
def test_the_licence_is_the_shortest_statement_there_is(lines: str, licence: str) -> None:
    """Expression, first line of the text, classifier."""
    assert licence == facts(lines).licence


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("__commit_id__ = commit_id = 'gea5f903f8'\n", "ea5f903f8"),
        ('x = 1\n__commit_id__ = commit_id = "ea5f903f8"\n', "ea5f903f8"),
        ("__commit_id__ = commit_id = None\n", ""),
        ("", ""),
    ],
)
def test_the_commit_is_read_where_the_build_left_one(text: str, commit: str) -> None:
    """With or without the g of git describe."""
    assert commit == facts(version_file=text).commit


def test_a_row_of_meta_json_has_what_the_wheel_says() -> None:
    """Requirements in the order of METADATA."""
    found = facts("Requires-Dist: b\nRequires-Dist: a>1\nRequires-Python: >=3.11\n")
    assert {
        "hash_from": "index",
        "licence": "",
        "requires_dist": ["b", "a>1"],
        "requires_python": ">=3.11",
    } == meta_row(found, "index", version="1.0+cpu")


def test_zip_dates_count_as_utc() -> None:
    """The zone of the machine has no say."""
    assert 315532800 == seconds((1980, 1, 1, 0, 0, 0))


@pytest.mark.parametrize(
    ("package", "text", "expected"),
    [
        ("torch", "__version__ = '2.14.0+cu130'\ncuda: Optional[str] = '13.0'\n", "13.0"),
        ("torch", "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", "cpu"),
        ("torchvision", "__version__ = '0.29.0+cu129'\ngit_version = 'x'\n", "12.9"),
        ("torchaudio", "__version__ = '2.11.0'\n", None),
        ("numpy", "__version__ = '2.14.0+cu130'\n", None),
    ],
)
def test_torch_says_its_cuda_in_version_py(package: str, text: str, expected: str | None) -> None:
    """torch-family-cuda-mixed is judged by content: PyPI's torch has no local version."""
    assert expected == cuda_in(package, lambda _: text)
