"""The page of a smoke: everything in it, nothing fetched, nothing a server says is obeyed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from builder.core.keys import finding
from builder.core.smoke import Phase, SmokeReport
from builder.core.smoke_html import FAULT, html
from builder.edge.templates import read_template
from tests.support.report import DIGEST, check_result, make_report

HOSTILE = (
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\"' onload=x {{ 7*7 }} <!-- \x00\x07 \u202e &amp;"
)
QUIET_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span", "div", "b", "i"),
    *("dl", "dt", "dd", "br", "code", "pre", "details", "summary"),
}


class Seen(HTMLParser):
    """Tags, attributes and text, as a browser's parser would have them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        """Collect."""
        self.text += data


def page(report: SmokeReport, picture: str = "") -> str:
    """Fill the template that is shipped."""
    return html(report, read_template("smoke.html.j2"), picture)


def hostile_report() -> SmokeReport:
    """Make a report in which everything from outside is hostile."""
    bad = check_result("bad", "fail", "garbage-output").model_copy(
        update={"reason": HOSTILE, "asked": HOSTILE, "answered": HOSTILE, "blame": "image"}
    )
    found = finding("garbage-output", subject=HOSTILE, evidence=HOSTILE)
    report = make_report(bad, failure=HOSTILE, findings=(found,))
    return report.model_copy(
        update={
            "reference": HOSTILE,
            "name": HOSTILE,
            "vllm": HOSTILE,
            "phases": (Phase(name="health", seconds=1, deadline=2, note=HOSTILE),),
        }
    )


def test_the_page_says_everything() -> None:
    """Verdict, versions, phases, checks with request, answer and figures, findings."""
    burst = check_result("burst").model_copy(update={"figures": {"p95_seconds": 1.75}})
    report = make_report(burst, check_result("b", "fail", "garbage-output"))
    seen = Seen(page(report)).text
    for part in ("fail", DIGEST, "0.32.0", "smoke-cpu", "Debian GNU/Linux 12", "health", "30.5 s"):
        assert part in seen
    for part in ("p95_seconds", "1.75", '{"model": "smoke"}', "Paris", "because fail"):
        assert part in seen
    assert "garbage-output" in seen
    assert "Do not promote" in seen


@pytest.mark.parametrize("blame", sorted(FAULT))
def test_the_page_says_whose_fault_it_is(blame: str) -> None:
    """Beside the reason."""
    check = check_result("a", "inconclusive", "content-null").model_copy(update={"blame": blame})
    assert f"({FAULT[blame]})" in Seen(page(make_report(check))).text


def test_the_page_fetches_nothing() -> None:
    """No element or attribute that names another place; the policy forbids it as well."""
    text = page(hostile_report())
    seen = Seen(text)
    assert QUIET_TAGS >= seen.tags
    places = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"}
    assert [] == [row for row in seen.attributes if row[0] in places]
    assert "url(" not in text
    assert "@import" not in text
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("content", policy) in seen.attributes


def test_a_hostile_answer_is_text() -> None:
    """Markup in answers, reasons, labels and findings is shown, not obeyed."""
    text = page(hostile_report())
    seen = Seen(text)
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert seen.text.count("<script>alert(1)</script>") >= 6
    assert "{{ 7*7 }}" in seen.text
    assert "[U+0000][U+0007]" in seen.text
    checks = text[text.index("<h2>Checks</h2>") :]
    assert None is re.search(r"[\x00\x07]", checks)


def test_a_boot_without_phases_or_checks_has_a_page() -> None:
    """The container did not start."""
    report = make_report(failure="no entrypoint").model_copy(
        update={"phases": (), "checks": (), "findings": ()}
    )
    seen = Seen(page(report)).text
    for part in ("no entrypoint", "did not start", "None was asked", "cause is not known"):
        assert part in seen


def test_the_picture_stands_in_the_page() -> None:
    """As it is: it is ours."""
    picture = '<svg viewBox="0 0 9 9"><text>weights</text></svg>'
    assert picture in page(make_report(), picture)
