"""Discovery over generated indexes: order never matters, and a naive second search agrees."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.core.discovery import Discovery, conclude
from builder.core.nightly import Page
from builder.errors import Refused
from tests.support.discovering import MACHINES, Survey, history, want
from tests.support.nightly_index import Bucket, nightly, sha

COMMITS = [
    sha(f"{letter}{number}5f903f8") for letter, number in zip("abcdef", range(6), strict=True)
]
VARIANTS = ("", "cu129", "cpu")
ARCHES = ("x86_64", "aarch64")
BUILDS = [(variant, arch) for variant in VARIANTS for arch in ARCHES]

nights = st.lists(st.sets(st.sampled_from(BUILDS), min_size=1), min_size=1, max_size=6)
wishes = st.lists(
    st.tuples(st.sampled_from(VARIANTS), st.sampled_from(sorted(MACHINES))),
    min_size=1,
    max_size=3,
    unique=True,
)


def publish(made: Bucket, commit: str, number: int, builds: set[tuple[str, str]]) -> None:
    """Publish one night with some builds."""
    base = f"0.33.1rc1.dev{number}+g{commit[:9]}"
    wheels = [
        nightly(f"{base}.{variant}" if variant else base, arch=arch) for variant, arch in builds
    ]
    made.publish(commit, *wheels)


def shuffled(survey: Survey, seed: int) -> Survey:
    """Give the same pages with rows, folders and pages in another order."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret

    def mix(page: Page | None) -> Page | None:
        if page is None:
            return None
        rows, names = list(page.wheels), list(page.folders)
        chance.shuffle(rows)
        chance.shuffle(names)
        return replace(page, wheels=tuple(rows), folders=tuple(names))

    pages = [(path, mix(page)) for path, page in survey.pages.items()]
    chance.shuffle(pages)
    return replace(survey, pages=dict(pages))


def outcome(survey: Survey) -> Discovery | str:
    """Decide, or say the refusal."""
    try:
        return conclude(survey.query, survey.pages)
    except Refused as error:
        return f"{error} {error.findings}"


@settings(max_examples=60, deadline=None)
@given(nights=nights, wishes=wishes, seed=st.integers(0, 2**32), told=st.booleans())
def test_the_order_of_rows_changes_nothing(
    nights: list[set[tuple[str, str]]],
    wishes: list[tuple[str, str]],
    seed: int,
    told: bool,
) -> None:
    """Commit, files, skips and findings are the same; with a history, so says a naive search."""
    made = Bucket()
    for number, builds in enumerate(nights):
        publish(made, COMMITS[number], 100 + 9 * number, builds)
    wants = tuple(want(variant, platform) for variant, platform in wishes)
    landed = COMMITS[len(nights) - 1 :: -1] if told else []
    survey = Survey(made, wants, history=history(*landed))
    with suppress(Refused):
        survey.find()
    first = outcome(survey)
    mixed = outcome(shuffled(survey, seed))
    if isinstance(first, Discovery):
        assert first.wheels == getattr(mixed, "wheels", None)
    if told:
        needed = {(variant, MACHINES[platform]) for variant, platform in wishes}
        naive = [at for at, builds in enumerate(nights) if needed <= builds]
        expected = COMMITS[max(naive)] if naive else ""
        assert expected == (first.commit if isinstance(first, Discovery) else "")
    assert first == mixed
