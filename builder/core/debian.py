"""Debian's archive: where it is, as settings or a machine's apt sources say (sources.list(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from builder.core.control import parse_stanzas

CODENAMES = ("bullseye", "bookworm", "trixie", "forky", "sid")
_ALIASES = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
_SECURITY = re.compile(r"(?P<name>[a-z]+)(-security|/updates)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AptSource:
    """One archive and the suites to read from it."""

    uri: str
    """As apt wants it: `http:`, `https:` or `file:`."""
    suites: tuple[str, ...]
    components: tuple[str, ...] = ("main",)
    keyring: str = ""
    """Path of the keyring that must have signed it."""
    trusted: bool = False
    """Take it unsigned; only for folders that we wrote ourselves."""

    def text(self) -> str:
        """Spell it as a deb822 paragraph."""
        lines = ["Types: deb", f"URIs: {self.uri}", f"Suites: {' '.join(self.suites)}"]
        if self.components:
            lines.append(f"Components: {' '.join(self.components)}")
        if self.trusted:
            lines.append("Trusted: yes")
        elif self.keyring:
            lines.append(f"Signed-By: {self.keyring}")
        return "\n".join(lines) + "\n"


def suites_of(codename: str) -> tuple[str, str, str]:
    """Name the suites an image takes from: the release, its updates, its security fixes."""
    return codename, f"{codename}-updates", f"{codename}-security"


def parse_sources(text: str, *, deb822: bool) -> tuple[AptSource, ...]:
    """Read a `.sources` (deb822) or `.list` (one line each) file; source packages are left out."""
    return tuple(_deb822(text) if deb822 else _one_line(text))


def _deb822(text: str) -> Iterable[AptSource]:
    for stanza in parse_stanzas(text):
        fields = {name.lower(): value for name, value in stanza.items()}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled") == "no":
            continue
        signed_by = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            yield AptSource(
                uri=uri,
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                # A key may also stand in the file itself, over several lines.
                keyring=signed_by if signed_by.startswith("/") else "",
                trusted=fields.get("trusted") == "yes",
            )


def _one_line(text: str) -> Iterable[AptSource]:
    for line in text.splitlines():
        match = re.fullmatch(
            r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<rest>[^#]*)(?:#.*)?",
            line.strip(),
        )
        if match is None:
            continue
        options = dict(
            option.split("=", 1) for option in (match["options"] or "").split() if "=" in option
        )
        yield AptSource(
            uri=match["uri"],
            suites=(match["suite"],),
            components=tuple(match["rest"].split()),
            keyring=options.get("signed-by", "").split(",")[0],
            trusted=options.get("trusted") == "yes",
        )


def find_archive(sources: Iterable[AptSource]) -> AptSource | None:
    """Find Debian's archive among a machine's sources: its suite is a release of Debian.

    Others call their suites the same; the best witness wins: Debian's keyring, then an `-updates`
    suite at the same address, then an address that ends in `debian`. A wrong guess is found out by
    the signature.
    """
    listed = tuple(sources)
    names = {*CODENAMES, *_ALIASES}
    updates = {
        source.uri
        for source in listed
        if any(suite.removesuffix("-updates") in names - {suite} for suite in source.suites)
    }

    def witnesses(source: AptSource) -> tuple[bool, bool, bool]:
        return (
            "debian-archive" in source.keyring,
            source.uri in updates,
            source.uri.rstrip("/").endswith("/debian"),
        )

    found = [
        source
        for source in listed
        if names & set(source.suites) and "main" in source.components and any(witnesses(source))
    ]
    return max(found, key=witnesses, default=None)


def find_security(sources: Iterable[AptSource]) -> AptSource | None:
    """Find Debian's security archive among a machine's sources: suite `X-security`."""
    names = {*CODENAMES, *_ALIASES}
    for source in sources:
        matches = (_SECURITY.fullmatch(suite) for suite in source.suites)
        if any(match and match["name"] in names for match in matches):
            return source
    return None


def carried_archive(program: str) -> AptSource | None:
    """Find the default mirror in the text of mmdebstrap or debootstrap, where one is carried."""
    match = re.search(r"https?://[a-z0-9./-]+/debian(?=[\s\"'$])", program)
    return AptSource(uri=match[0], suites=()) if match else None


def archive_for(
    codename: str, archive: AptSource, security: AptSource | None, keyring: str
) -> tuple[AptSource, ...]:
    """Name the suites of `codename` in the archives found; without a second one, beside the first.

    Mirrors that hold both call them `debian` and `debian-security`.
    """
    release, updates, fixes = suites_of(codename)
    where = security.uri if security else archive.uri.rstrip("/") + "-security"
    return (
        replace(
            archive,
            suites=(release, updates),
            components=("main",),
            keyring=keyring,
            trusted=False,
        ),
        AptSource(uri=where, suites=(fixes,), keyring=keyring),
    )


def addresses(sources: Iterable[AptSource]) -> Mapping[str, tuple[str, ...]]:
    """Suite → the addresses of its archive, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for source in sources:
        for suite in source.suites:
            found[suite] = (*found.get(suite, ()), source.uri.rstrip("/"))
    return found


def proxies(configuration: str) -> Mapping[str, str]:
    """Read apt's proxies (apt.conf(5)): URL pattern → proxy, empty where none is to be used.

    `Acquire::http::Proxy` counts for https too unless that has its own; a host may have its own.
    """
    found: dict[str, str] = {}
    rows = re.findall(
        r'^Acquire::(https?)::Proxy(?:::(\S+))? "([^"]+)";$', configuration, re.MULTILINE
    )
    # https last, so that its own setting replaces what http's gave.
    for scheme, host, proxy in sorted(rows):
        value = "" if proxy in ("DIRECT", "false") else proxy
        for pattern in ("http", "https") if scheme == "http" else ("https",):
            found[f"{pattern}://{host}"] = value
    return found
