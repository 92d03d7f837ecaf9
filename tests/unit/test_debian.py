"""Where Debian's archive is: apt's source files, guesses and their order, proxies."""

from __future__ import annotations

import pytest

from builder.core.debian import (
    AptSource,
    addresses,
    archive_for,
    carried_archive,
    find_archive,
    find_security,
    parse_sources,
    proxies,
    suites_of,
)

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB822 = f"""\
# a comment
Types: deb deb-src
URIs: http://mirror.example/debian http://second.example/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: {KEYRING}

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main


Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://inline.example/debian
Suites: bookworm
Components: main
Trusted: yes
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS/xcRfwEQWzr
"""


def source(
    uri: str, *suites: str, keyring: str = "", components: tuple[str, ...] = ("main",)
) -> AptSource:
    """One line of a machine's sources."""
    return AptSource(uri=uri, suites=suites, components=components, keyring=keyring)


def test_deb822_file_is_read() -> None:
    """Several addresses a paragraph; sources and disabled ones left out; inline keys no path."""
    both = {"components": ("main", "contrib"), "keyring": KEYRING}
    suites = ("bookworm", "bookworm-updates")
    assert (
        AptSource(uri="http://mirror.example/debian", suites=suites, **both),  # type: ignore[arg-type]
        AptSource(uri="http://second.example/debian/", suites=suites, **both),  # type: ignore[arg-type]
        AptSource(uri="http://inline.example/debian", suites=("bookworm",), trusted=True),
    ) == parse_sources(DEB822, deb822=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("deb http://m.example/debian trixie main", [source("http://m.example/debian", "trixie")]),
        (
            "  deb [arch=amd64 signed-by=/k.gpg,/l.gpg trusted=yes] http://m.example/d x main # y",
            [
                AptSource(
                    uri="http://m.example/d",
                    suites=("x",),
                    keyring="/k.gpg",
                    trusted=True,
                )
            ],
        ),
        ("deb file:/srv/flat ./", [source("file:/srv/flat", "./", components=())]),
        ("deb-src http://m.example/debian trixie main", []),
        ("# deb http://m.example/debian trixie main", []),
        ("", []),
    ],
)
def test_one_line_file_is_read(line: str, expected: list[AptSource]) -> None:
    """Options, comments and what is no binary archive."""
    assert tuple(expected) == parse_sources(line + "\n", deb822=False)


def test_a_source_survives_its_own_spelling() -> None:
    """What is written for apt reads back as the same, trusted or signed, flat or not."""
    for one in (
        source("http://m.example/debian", "trixie", "trixie-updates", keyring=KEYRING),
        AptSource(uri="file:/srv", suites=("./",), components=(), trusted=True),
        source("http://m.example/debian", "trixie"),
    ):
        assert (one,) == parse_sources(one.text(), deb822=True)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], None),
        # Others call their suites as Debian does.
        ([source("http://php.example/php", "bookworm")], None),
        ([source("http://vendor.example/apt", "cloud-sdk-bookworm")], None),
        ([source("http://m.example/debian", "bookworm", components=("stable",))], None),
        ([source("http://m.example/ubuntu", "noble", "noble-updates")], None),
        ([source("http://m.example/debian", "bookworm-backports")], None),
        ([source("http://m.example/debian/", "bookworm")], "http://m.example/debian/"),
        ([source("http://m.example/d", "stable", "stable-updates")], "http://m.example/d"),
        (
            [
                source("http://m.example/d", "trixie"),
                source("http://m.example/d", "trixie-updates"),
            ],
            "http://m.example/d",
        ),
        (
            [
                source("http://vendor.example/debian", "bookworm"),
                source("http://m.example/d", "bookworm", "bookworm-updates"),
            ],
            "http://m.example/d",
        ),
        (
            [
                source("http://m.example/d", "bookworm", "bookworm-updates"),
                source("http://own.example/x", "bookworm", keyring=KEYRING),
            ],
            "http://own.example/x",
        ),
    ],
)
def test_the_archive_is_found_by_its_best_witness(
    sources: list[AptSource], expected: str | None
) -> None:
    """Keyring before an updates suite before the address."""
    found = find_archive(sources)
    assert expected == (found.uri if found else None)


@pytest.mark.parametrize(
    ("suite", "expected"),
    [
        ("bookworm-security", True),
        ("bullseye/updates", True),
        ("stable-security", True),
        ("noble-security", False),
        ("bookworm-updates", False),
    ],
)
def test_the_security_archive_is_found(suite: str, *, expected: bool) -> None:
    """By its suite, of a release of Debian."""
    sources = [source("http://m.example/debian", "bookworm"), source("http://s.example/s", suite)]
    found = find_security(sources)
    assert ("http://s.example/s" if expected else None) == (found.uri if found else None)


@pytest.mark.parametrize(
    "program",
    [
        'DEF_MIRROR="http://m.example/debian"\n',
        'push @lines, "deb http://m.example/debian $suite main";',
    ],
)
def test_a_default_mirror_is_read_from_a_program(program: str) -> None:
    """Debootstrap's and mmdebstrap's spelling."""
    assert AptSource(uri="http://m.example/debian", suites=()) == carried_archive(program)


def test_a_program_without_a_mirror_has_none() -> None:
    """An address of another distribution is not Debian's."""
    assert carried_archive('DEF_MIRROR="http://m.example/ubuntu"') is None


def test_suites_are_those_of_the_image_not_of_the_machine() -> None:
    """A bookworm machine resolves trixie; what the machine trusts blindly is checked here."""
    machine = AptSource(
        uri="http://m.example/debian", suites=("bookworm",), components=("main",), trusted=True
    )
    security = source("http://s.example/debian-security", "bookworm-security")
    assert (
        source("http://m.example/debian", "trixie", "trixie-updates", keyring=KEYRING),
        source("http://s.example/debian-security", "trixie-security", keyring=KEYRING),
    ) == archive_for("trixie", machine, security, KEYRING)


def test_security_lies_beside_the_mirror_when_nobody_says_where() -> None:
    """The layout of mirrors that hold both."""
    found = archive_for("trixie", source("file:/srv/debian/"), None, KEYRING)
    assert "file:/srv/debian-security" == found[1].uri


def test_addresses_are_grouped_by_suite() -> None:
    """In the order of the sources, without a slash at the end."""
    rows = [source("http://a/debian/", "x", "y"), source("http://b/debian", "x")]
    assert {"x": ("http://a/debian", "http://b/debian"), "y": ("http://a/debian",)} == addresses(
        rows
    )


def test_the_three_suites() -> None:
    """Release, updates, security."""
    assert ("trixie", "trixie-updates", "trixie-security") == suites_of("trixie")


def test_proxies_of_apt() -> None:
    """A proxy for http serves https too, unless that has its own; hosts may go without."""
    configuration = """\
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::http::Proxy::near.example "DIRECT";
Acquire::https::Proxy "http://tls.example:3129";
Acquire::https::CaInfo "/ca.pem";
Acquire::Retries "3";
"""
    assert {
        "http://": "http://proxy.example:3128",
        "https://": "http://tls.example:3129",
        "http://near.example": "",
        "https://near.example": "",
    } == proxies(configuration)
    assert {} == proxies('Acquire::Retries "3";\n')
