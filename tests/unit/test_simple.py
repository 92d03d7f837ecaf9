"""Index pages: what is a candidate, and where its file is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.simple import (
    JSON_TYPE,
    Candidate,
    as_folder,
    file_of,
    package_page,
    parse_page,
    render_page,
    wheel_name,
)
from builder.errors import NetworkError

SHA = "a" * 64
FILE = "vllm-0.33.1rc1.dev344%2Bgea5f903f8-cp38-abi3-manylinux_2_28_x86_64.whl"
NIGHTLY = f"""<!DOCTYPE html>
<html>
  <!-- commit ea5f903f80000000000000000000000000000000 -->
  <meta name="pypi:repository-version" content="1.0">
  <body>
    <a href="../../ea5f903f8/{FILE}">{FILE.replace("%2B", "+")}</a><br/>
    <a href="../../ea5f903f8/vllm-0.33.0-2-cp38-abi3-manylinux_2_28_x86_64.whl">x</a><br/>
  </body>
</html>
"""


def parse(
    body: str, url: str = "https://example.org/simple/a/", package: str | None = None
) -> list[Candidate]:
    """Parse an HTML page."""
    return parse_page(body.encode(), "text/html; charset=utf-8", url, "place", package)


def test_relative_links_are_joined_to_where_the_answer_came_from() -> None:
    """plus-and-relative-href: `%2B` stays in the URL and is decoded once for the file name."""
    first, second = parse(NIGHTLY, "https://wheels.example.org/nightly/vllm/", "vllm")
    assert f"https://wheels.example.org/ea5f903f8/{FILE}" == first.url
    assert "0.33.1rc1.dev344+gea5f903f8" == str(first.version)
    # A build tag is no part of the name or version.
    assert ("vllm", "0.33.0") == (second.name, str(second.version))
    assert ("", None) == (first.sha256, first.size)


def test_the_slash_of_a_directory_page_makes_no_difference() -> None:
    """Opened without it, links would resolve one level too high."""
    urls = {
        parse(NIGHTLY, as_folder(url))[0].url
        for url in ("https://example.org/nightly/vllm", "https://example.org/nightly/vllm/")
    }
    assert 1 == len(urls)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://example.org/whl/cu13.0", "https://example.org/whl/cu13.0/"),
        ("https://example.org/whl/", "https://example.org/whl/"),
        ("https://example.org/stable.html", "https://example.org/stable.html"),
        ("https://example.org/list?of=all", "https://example.org/list?of=all"),
    ],
)
def test_only_directory_pages_get_a_slash(url: str, wanted: str) -> None:
    """A page with a suffix of its own is one already."""
    assert wanted == as_folder(url)


def test_html_attributes_are_read() -> None:
    """Hash, Requires-Python, yanked; credentials of a link never stay in its URL."""
    (found,) = parse(
        f'<a href="https://u:p@files.example.org/a-1-py3-none-any.whl#sha256={SHA.upper()}" '
        'data-requires-python="&gt;=3.11" data-yanked="broken">a</a>'
    )
    assert (SHA, ">=3.11", "broken") == (found.sha256, found.requires_python, found.yanked)
    assert "https://files.example.org/a-1-py3-none-any.whl" == found.url


def test_json_is_read() -> None:
    """PEP 691: sizes, hashes, a relative URL; what is no wheel is left out."""
    body = {
        "meta": {"api-version": "1.4", "_last-serial": 1},
        "name": "a",
        "files": [
            {"filename": "a-1.tar.gz", "url": "a-1.tar.gz", "hashes": {}},
            {
                "filename": "a-1-py3-none-any.whl",
                "url": "../../files/a-1-py3-none-any.whl",
                "hashes": {"sha256": SHA},
                "size": 17,
                "yanked": True,
                "requires-python": None,
            },
            {"filename": "a-2-py3-none-any.whl", "url": "https://x.org/b", "hashes": {"md5": "1"}},
        ],
    }
    first, second = parse_page(
        json.dumps(body).encode(), JSON_TYPE, "https://example.org/simple/a/", "place"
    )
    assert (
        Candidate(
            file="a-1-py3-none-any.whl",
            url="https://example.org/files/a-1-py3-none-any.whl",
            place="place",
            sha256=SHA,
            size=17,
            yanked="",
        )
        == first
    )
    assert ("", None, None) == (second.sha256, second.size, second.yanked)


def test_a_page_of_many_projects_is_filtered() -> None:
    """find-links pages hold everything; spellings of a name are one name."""
    page = '<a href="Foo_Bar-1-py3-none-any.whl">1</a><a href="foo-1-py3-none-any.whl">2</a>'
    assert ["Foo_Bar-1-py3-none-any.whl"] == [row.file for row in parse(page, package="foo.bar")]


@pytest.mark.parametrize(
    "href",
    [
        "../../etc/passwd",
        "..%2F..%2Fevil-1-py3-none-any.whl",
        "x/..%5Cevil-1-py3-none-any.whl",
        "evil-1-py3-none-any.whl%00",
        "evil-1-py3-none-any.whl%2F",
        ".evil-1-py3-none-any.whl%2F..",
        "evil.whl",
        "evil-1.tar.gz",
        "evil%20-1-py3-none-any.whl",
        "evil%252F-1-py3-none-any.whl",
    ],
)
def test_a_link_whose_name_is_no_plain_wheel_name_is_no_candidate(href: str) -> None:
    """Folders in names, control characters, escapes of escapes."""
    assert [] == parse(f'<a href="{href}">evil-1-py3-none-any.whl</a>')


@given(st.text())
def test_a_wheel_name_never_leaves_its_folder(text: str) -> None:
    """Whatever is accepted has no separator and is no step upwards."""
    name = wheel_name(text)
    assert name in ("", text)
    assert not set(name) & set("/\\\0 \n")
    assert name == file_of(f"https://example.org/{name.replace('+', '%2B')}")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"%PDF", "application/pdf"),
        (b"{", JSON_TYPE),
        (b"[]", JSON_TYPE),
        (b'{"files": [{}]}', JSON_TYPE),
        (b'<a href="javascript:a-1-py3-none-any.whl">x</a>', "text/html"),
        (b'<meta name="pypi:repository-version" content="2.0">', "text/html"),
    ],
)
def test_what_is_no_index_page_is_said_with_its_address(body: bytes, kind: str) -> None:
    """The error names the page."""
    with pytest.raises(NetworkError, match="this is not a package index page") as caught:
        parse_page(body, kind, "https://example.org/simple/a/", "place")
    assert "https://example.org/simple/a/" == caught.value.subject


def test_a_page_for_resolvers_reads_back() -> None:
    """What we write for uv is a page as any other, in whatever order it was given."""
    rows = [
        Candidate(
            file="torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
            url="https://example.org/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl",
            place="place",
            requires_python="<3.14,>=3.10",
        ),
        Candidate(
            file="a-1-py3-none-any.whl",
            url="file:///a%20b/a-1-py3-none-any.whl",
            place="place",
            yanked='"why" & <so>',
        ),
    ]
    hashes = {row.file: SHA for row in rows}
    page = render_page(rows, hashes)
    assert page == render_page(rows[::-1], hashes)
    read = {row.file: row for row in parse(page.decode())}
    for row in rows:
        found = read[row.file]
        assert (row.url, SHA, row.requires_python, row.yanked) == (
            found.url,
            found.sha256,
            found.requires_python,
            found.yanked,
        )


def test_a_projects_page_is_under_its_normal_name() -> None:
    """PEP 503."""
    assert "https://example.org/simple/foo-bar/" == package_page(
        "https://example.org/simple/", "Foo.Bar"
    )
