"""Indexes by name, and whom to believe when sources disagree about one file."""

from __future__ import annotations

import pytest

from builder.core.indexes import DEFAULT_URLS, Offer, Place, check_sources, place_of, settle
from builder.core.simple import Candidate
from builder.core.spec import parse_spec
from builder.errors import HashMismatch, SpecError
from tests.support.small_lock import small_spec_text

A, B, C = "a" * 64, "b" * 64, "c" * 64
RELOCK = "nightlock lock cpu --upgrade-package torch"


def offer(sha256: str, place: str, *, local: bool = False, given: bool = True) -> Offer:
    """Make up an offer of one file."""
    file = "torch-2.13.0-py3-none-any.whl"
    url = f"file:///{place}/{file}" if local else f"https://{place}/{file}"
    candidate = Candidate(file=file, url=url, place=place, sha256=sha256 if given else "")
    return Offer(candidate=candidate, sha256=sha256, given=given)


INDEX = offer(A, "pytorch-cpu")
COPY = offer(A, "folder", local=True, given=False)
OTHER = offer(B, "folder", local=True, given=False)


@pytest.mark.parametrize(
    ("own", "links", "pinned", "decided", "sha256", "place", "given", "notes"),
    [
        # One source: it is believed.
        ([INDEX], [], "", False, A, "pytorch-cpu", True, 0),
        ([], [OTHER], "", False, B, "folder", False, 0),
        # The same bytes twice: the copy here is used, the index vouches for it.
        ([INDEX], [COPY], "", False, A, "folder", True, 0),
        # The lock decides as long as the index agrees with it.
        ([INDEX], [OTHER], A, False, A, "pytorch-cpu", True, 1),
        ([], [OTHER, COPY], A, False, A, "folder", False, 1),
        # The person decided: the index's own.
        ([INDEX], [OTHER], "", True, A, "pytorch-cpu", True, 1),
        ([], [OTHER, COPY], "", True, B, "folder", False, 1),
    ],
)
def test_who_is_believed(
    own: list[Offer],
    links: list[Offer],
    pinned: str,
    decided: bool,
    sha256: str,
    place: str,
    given: bool,
    notes: int,
) -> None:
    """The lock, then the index, then the first find-links place."""
    settled = settle(own, links, pinned=pinned, relock=RELOCK, decided=decided)
    assert (sha256, place, given, notes) == (
        settled.offer.sha256,
        settled.offer.candidate.place,
        settled.given,
        len(settled.notes),
    )


@pytest.mark.parametrize(
    ("own", "links", "pinned", "parts"),
    [
        ([INDEX], [OTHER], "", (A, B, "pytorch-cpu", "folder")),
        ([], [OTHER, COPY], "", (A, B)),
        ([INDEX], [OTHER], B, (A, B, "the lock names", "pytorch-cpu")),
        ([INDEX], [], C, (A, C, "the lock names")),
        ([], [OTHER], C, (B, C, "the lock names", "folder")),
    ],
)
def test_a_disagreement_names_both_and_the_way_out(
    own: list[Offer], links: list[Offer], pinned: str, parts: tuple[str, ...]
) -> None:
    """Nobody has decided, so nobody is believed."""
    with pytest.raises(HashMismatch) as caught:
        settle(own, links, pinned=pinned, relock=RELOCK, decided=False)
    assert [] == [part for part in parts if part not in caught.value.what]
    assert RELOCK in caught.value.action


def test_a_place_is_by_settings_else_by_default() -> None:
    """`general` is the user's own."""
    settings = {"pytorch-cpu": "/srv/wheels"}
    assert Place(name="pytorch-cpu", where="/srv/wheels") == place_of("pytorch-cpu", settings, "g")
    assert Place(name="general", where="g") == place_of("general", settings, "g")
    assert DEFAULT_URLS["flashinfer"] == place_of("flashinfer", settings, "g").where


def test_an_unknown_index_is_refused_with_the_known_ones() -> None:
    """And how to say where it is."""
    text = small_spec_text().replace("[base]", '[lock.sources]\ntorch = "mine"\n[base]')
    spec = parse_spec(text, "images/cpu/image.toml")
    with pytest.raises(SpecError, match="no index called 'mine'") as caught:
        check_sources(spec, {})
    assert "flashinfer, pytorch-cpu, vllm" in caught.value.action
    check_sources(spec, {"mine": "https://example.org"})
