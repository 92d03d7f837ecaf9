"""What a diff looks like: text, markdown and HTML, as whole golden files."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from builder.core.diff import compare
from builder.core.diff_commits import with_history
from builder.core.diff_html import html
from builder.core.diff_markdown import markdown
from builder.core.diff_result import Commit, CommitRange, DiffResult
from builder.core.diff_text import WIDTH, text
from builder.core.diff_words import MOST_COMMITS, size
from builder.edge.templates import read_template
from tests.support.two_nightlies import (
    AMD64,
    ARM64,
    NEW_VLLM,
    OLD_VLLM,
    deb,
    make_lock,
    new_night,
    old_night,
    wheel,
    with_header,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "diff"
NAMES = ("HEAD~1:lock/cuda13-sm120", "lock/cuda13-sm120")


def as_html(result: DiffResult) -> str:
    """Fill the real template."""
    return html(result, read_template("diff.html.j2"))


def nights() -> DiffResult:
    """Compare the two nights, with titles for vLLM as a forge gives them."""
    result = compare(old_night(), new_night(), names=NAMES)
    titles = [
        Commit(sha=f"{number:040x}", title=f"[Kernel] Fix <T> & `x` on sm_120 (#{number}) @someone")
        for number in range(31, 0, -1)
    ]
    vllm, *others = result.commits
    return result.model_copy(update={"commits": [with_history(vllm, 31, titles), *others]})


FORMATS = {"text": text, "markdown": markdown, "html": as_html}
SUFFIXES = {"text": "txt", "markdown": "md", "html": "html"}


@pytest.mark.parametrize("form", FORMATS)
def test_golden_files(form: str, update_golden: bool) -> None:
    """Whole outputs; `--update-golden` rewrites them."""
    found = FORMATS[form](nights()) + "\n"
    path = GOLDEN / f"nights.{SUFFIXES[form]}"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert path.read_text() == found


@pytest.mark.parametrize("form", FORMATS)
def test_equal_locks_say_so(form: str) -> None:
    """One sentence, no empty headings."""
    found = FORMATS[form](compare(old_night(), old_night()))
    assert "no difference" in found.lower()
    for heading in ("Pull", "What an operator pulls", "Settings", "Packages"):
        assert heading not in found


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_only_recorded_is_said_to_change_no_image(form: str) -> None:
    """Another resolver alone."""
    other = with_header(old_night(), resolver={"name": "pip-tools", "version": "7.6.2"})
    found = FORMATS[form](compare(old_night(), other))
    assert "nothing differs that changes an image" in found.lower()
    assert "uv 0.13.9 → pip-tools 7.6.2 (recorded only)" in found


def test_text_fits_a_terminal() -> None:
    """No line is wider than 80 columns, not even the link."""
    assert [] == [line for line in text(nights()).splitlines() if len(line) > WIDTH]


def test_text_lets_no_control_character_through() -> None:
    """A title could otherwise write over what stands above it."""
    commits = [with_history(nights().commits[0], 1, [Commit(sha="a" * 40, title="x\x1b[2Jy")])]
    found = text(nights().model_copy(update={"commits": commits}))
    assert "x?[2Jy" in found
    assert "\x1b" not in found


def test_text_of_many_layers_shows_the_largest() -> None:
    """Two hundred packages must not scroll the decision away."""
    pins = [[wheel(f"pkg{n}", version, size=n * 1000) for n in range(1, 9)] for version in "12"]
    old, new = (make_lock({AMD64: [wheel("vllm", OLD_VLLM), *side]}) for side in pins)
    found = text(compare(old, new))
    assert "layer 9, 8.0 kB: pkg8" in found
    assert "and 3 smaller ones, 6.0 kB" in found


@pytest.mark.parametrize("form", FORMATS)
def test_more_commits_than_are_shown_are_counted(form: str) -> None:
    """A forge gives 250 titles of 300 commits; forty are shown."""
    result = compare(old_night(), new_night())
    titles = [Commit(sha="a" * 40, title="title")] * 250
    commits = [with_history(result.commits[0], 300, titles)]
    found = FORMATS[form](result.model_copy(update={"commits": commits}))
    assert f"and {300 - MOST_COMMITS} more" in found


@pytest.mark.parametrize("form", FORMATS)
def test_every_kind_of_setting_and_base_is_shown(form: str) -> None:
    """Python, CUDA, base, platforms: each in words."""
    pins = [wheel("vllm", OLD_VLLM)]
    old = make_lock({AMD64: pins, ARM64: pins}, debs={AMD64: [deb("tini", "1-1")]})
    new = make_lock(
        {AMD64: pins},
        debs={AMD64: [deb("tini", "1-2")]},
        target={"python": "3.14", "glibc": "2.42", "cuda": "13.2"},
        base={"debian": "forky"},
    )
    found = FORMATS[form](compare(old, new))
    for words in (
        "platforms removed: linux/arm64",
        "3.13 → 3.14: the wheels lie in another folder",
        "13.0 → 13.2",
        "trixie → forky",
        "the base too (500.0 kB)",
    ):
        assert words.lower() in found.lower()


@pytest.mark.parametrize("form", FORMATS)
def test_a_rollback_is_called_one(form: str) -> None:
    """Back is not forward."""
    found = " ".join(FORMATS[form](compare(new_night(), old_night())).split())
    assert "31 commits back" in found
    assert "back to an older one" in found


HOSTILE = "<script>alert(1)</script>\"'|`\n| &#x3c;@you **b** ](javascript:x)"


def hostile() -> DiffResult:
    """Put markup wherever a lock, a forge or a user can put text."""
    pins = [wheel("vllm", OLD_VLLM), wheel("six", "1.0")]
    old = make_lock({AMD64: pins}, requires={"six": ["a"]})
    new = make_lock(
        {AMD64: [*pins[:1], wheel("six", "2.0")]},
        requires={"six": [HOSTILE]},
        meta={"six": {"licence": HOSTILE}},
        channel=HOSTILE,
        image=HOSTILE,
    )
    result = compare(old, new, names=(HOSTILE, HOSTILE))
    commits = CommitRange(
        project="vllm",
        old=HOSTILE,
        new=HOSTILE,
        commits=[Commit(sha="a" * 40, title=HOSTILE)],
    )
    return result.model_copy(update={"commits": [commits]})


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that they are closed in order."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one that opens."""
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check one that closes."""
        assert tag == self.open.pop()


@pytest.mark.parametrize("result", [nights(), hostile()], ids=["nights", "hostile"])
def test_html_is_one_file_that_asks_for_nothing(result: DiffResult) -> None:
    """No script, no picture, no font, no sheet from elsewhere; and every tag is closed."""
    found = as_html(result)
    tags = Tags()
    tags.feed(found)
    tags.close()
    assert [] == tags.open
    names = {tag for tag, _ in tags.seen}
    assert set() == names & {"script", "img", "link", "iframe", "object", "form", "svg", "base"}
    attributes = {name for _, found_here in tags.seen for name in found_here}
    assert set() == attributes & {"src", "srcset", "onload", "onerror", "onclick"}
    links = {str(found_here["href"]) for tag, found_here in tags.seen if tag == "a"}
    assert set() == {link for link in links if not link.startswith("https://github.com/")}
    style = found[found.index("<style>") : found.index("</style>")]
    assert None is re.search(r"@import|url\(|https?:", style)
    assert "default-src 'none'" in found


def test_html_is_for_light_and_dark_and_small_screens() -> None:
    """By the reader's own setting."""
    found = as_html(nights())
    assert "prefers-color-scheme: dark" in found
    assert 'name="viewport"' in found
    assert "@media (max-width" in found


def test_markdown_lets_nothing_through() -> None:
    """No tag, no mention, no link, no cell that ends early."""
    found = markdown(hostile())
    plain = re.sub(r"`[^`\n]*`", "", found)
    assert "<script" not in plain
    assert None is re.search(r"(?<!\\)\]\(javascript", plain)
    assert None is re.search(r"@\w", plain)
    for line in found.splitlines():
        if line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line[2:-2])
            assert len(cells) in (2, 4, 5)


def test_markdown_folds_long_lists() -> None:
    """A pull request stays readable; what is short stays in sight."""
    pins = [[wheel(f"pkg{n}", version) for n in range(20)] for version in "12"]
    found = markdown(compare(*(make_lock({AMD64: side}) for side in pins)))
    assert "<details><summary>Packages (20)</summary>" in found
    assert "#### Companions" in markdown(nights())


def test_versions_and_range_stand_in_every_format() -> None:
    """The first thing a release manager looks for."""
    for write in FORMATS.values():
        found = write(nights())
        assert "31 commits" in found
        assert OLD_VLLM in found
        assert NEW_VLLM in found


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (276_400_000, "276.4 MB"),
        (4_059_000_000, "4.1 GB"),
    ],
)
def test_bytes_for_people(count: int, words: str) -> None:
    """Powers of ten, as registries and indexes count."""
    assert words == size(count)
