"""One owner per path: what overlaps, who wins, what is refused (path-owned-twice)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from builder.core.contents import Contents
from builder.core.overlap import judge, overlaps
from builder.core.spec import Winner

BUILD = Winner(package="flashinfer-python", paths=["build_backend.py"], reason="never imported")
REAL: dict[str, Contents] = {
    "flashinfer-python": (("build_backend.py", "1:1"), ("flashinfer/__init__.py", "2:2")),
    "torch-c-dlpack-ext": (("build_backend.py", "3:3"), ("torch_c_dlpack_ext/__init__.py", "4:4")),
}


def test_different_bytes_without_a_winner_are_refused() -> None:
    """path-owned-twice: vllm 0.33.0 as it is; packages, paths and the way out are named."""
    (row,) = judge(overlaps(REAL), []).findings
    assert ("path-owned-twice", "error") == (row.key, row.severity)
    assert "flashinfer-python, torch-c-dlpack-ext" == row.subject
    assert "build_backend.py" in row.evidence
    assert "[[lock.winners]]" in row.action


def test_a_stated_winner_decides() -> None:
    """The loser's paths are listed, for whoever installs."""
    judged = judge(overlaps(REAL), [BUILD])
    assert () == judged.findings
    assert {"flashinfer-python": {"torch-c-dlpack-ext": ("build_backend.py",)}} == judged.wins


def test_equal_bytes_are_no_overlap() -> None:
    """Namespace packages ship one empty file many times."""
    empty: Contents = (("nvidia/__init__.py", "00000000:0"),)
    same = dict.fromkeys(("a", "b", "c"), empty)
    assert 1 == len(overlaps(same))
    assert ((), {}) == (judge(overlaps(same), []).findings, judge(overlaps(same), []).wins)


def test_one_finding_names_all_paths_of_one_pair() -> None:
    """The 99 files of nvidia-cutlass-dsl are one problem; five are shown, the others counted."""
    pair: dict[str, Contents] = {
        name: tuple((f"cutlass/{number:02}.py", f"{name}:1") for number in range(99))
        for name in ("nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-cu13")
    }
    (row,) = judge(overlaps(pair), []).findings
    assert row.evidence.startswith("99 path(s)")
    assert row.evidence.endswith("cutlass/04.py and 94 more")
    cu13 = Winner(package="nvidia-cutlass-dsl-libs-cu13", paths=["cutlass/*"], reason="CUDA 13")
    assert 99 == len(
        judge(overlaps(pair), [cu13]).wins["nvidia-cutlass-dsl-libs-cu13"][
            "nvidia-cutlass-dsl-libs-base"
        ]
    )


def test_two_winners_of_one_path_decide_nothing() -> None:
    """A contradiction in image.toml is no decision."""
    other = Winner(package="torch-c-dlpack-ext", paths=["*.py"], reason="the other one")
    assert ["path-owned-twice"] == [
        row.key for row in judge(overlaps(REAL), [BUILD, other]).findings
    ]


def test_a_winner_of_nothing_is_told() -> None:
    """A row that the packages have outgrown is only a warning."""
    (row,) = judge([], [BUILD]).findings
    assert ("warning", "flashinfer-python") == (row.severity, row.subject)


NAMES = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.sampled_from(["x.py", "y/x.py", "y/z.so", "{scripts}/x"])
PACKAGES = st.dictionaries(
    NAMES, st.dictionaries(PATHS, st.sampled_from(["1:1", "2:2"])).map(lambda d: tuple(d.items()))
)
WINNERS = st.lists(
    st.builds(
        Winner,
        package=NAMES,
        paths=st.lists(st.sampled_from(["x.py", "y/*", "*"]), min_size=1),
        reason=st.just(""),
    ),
    max_size=3,
)


@given(packages=PACKAGES, winners=WINNERS)
def test_a_naive_second_implementation_agrees(
    packages: Mapping[str, Contents], winners: list[Winner]
) -> None:
    """Pair by pair and path by path: the same losers, the same refused paths."""
    lost: set[tuple[str, str, str]] = set()
    refused: set[str] = set()
    for one, other in combinations(sorted(packages), 2):
        for path, mark in packages[one]:
            if dict(packages[other]).get(path, mark) == mark:
                continue
            owners = {name for name in packages if path in dict(packages[name])}
            stated = {
                row.package
                for row in winners
                if row.package in owners and any(fnmatchcase(path, text) for text in row.paths)
            }
            if len(stated) == 1:
                lost |= {(min(stated), name, path) for name in owners - stated}
            else:
                refused.add(path)
    judged = judge(overlaps(packages), winners)
    assert lost == {
        (winner, loser, path)
        for winner, rows in judged.wins.items()
        for loser, paths in rows.items()
        for path in paths
    }
    errors = [row for row in judged.findings if row.severity == "error"]
    assert bool(refused) == bool(errors)
    assert len(refused) == sum(int(row.evidence.split(" ")[0]) for row in errors)


@given(packages=PACKAGES)
def test_order_does_not_matter(packages: dict[str, Contents]) -> None:
    """Of packages, and of files within them."""
    turned = {name: tuple(reversed(packages[name])) for name in reversed(packages)}
    assert overlaps(packages) == overlaps(turned)
