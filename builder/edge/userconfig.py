"""What pip and uv are configured with on this machine: indexes, find-links, credentials, proxy, CA.

Nothing else is taken. Whatever would change a resolution (constraints, strategies, …) is listed in
`ignored`, so that two users with two configurations get the same bytes.

Sources: pip's documentation, "Configuration" (files, their order, `PIP_*`); uv's documentation,
"Configuration files" and "Environment variables".
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from builder.core.simple import DEFAULT_GENERAL
from builder.errors import BadInput, SpecError, redacted

_SECTIONS = ("global", "install", "download", ":env:")
"""Sections of pip.conf that bear on finding files."""
PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")

# Options that change what a resolver picks; each is named when it is found, and has no effect.
_IGNORED_PIP = (
    "constraint", "build-constraint", "requirement", "pre", "only-binary", "no-binary",
    "prefer-binary", "no-index", "no-deps", "upgrade-strategy", "platform", "python-version",
    "abi", "implementation", "uploaded-prior-to", "ignore-requires-python", "use-feature",
    "require-hashes", "all-releases", "only-final",
)  # fmt: skip
_IGNORED_UV = (
    "constraint-dependencies", "override-dependencies", "exclude-dependencies",
    "build-constraint-dependencies", "index-strategy", "resolution", "prerelease",
    "exclude-newer", "exclude-newer-package", "fork-strategy", "no-index", "no-binary",
    "no-binary-package", "no-build", "no-build-package", "no-sources", "sources",
    "dependency-metadata", "torch-backend", "upgrade", "upgrade-package", "environments",
    "python-preference",
)  # fmt: skip
_IGNORED_UV_VARIABLES = (
    "UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE", "UV_BUILD_CONSTRAINT", "UV_INDEX_STRATEGY",
    "UV_RESOLUTION", "UV_PRERELEASE", "UV_EXCLUDE_NEWER", "UV_FORK_STRATEGY", "UV_NO_INDEX",
    "UV_NO_BINARY", "UV_NO_BINARY_PACKAGE", "UV_NO_BUILD", "UV_NO_SOURCES", "UV_TORCH_BACKEND",
    "UV_PYTHON", "UV_UPGRADE",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """One value and where it was said."""

    value: str
    """A URL without credentials, or an absolute path."""
    origin: str
    """An environment variable, or the path of a configuration file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfig:
    """All that is taken from the user's configuration of pip and uv."""

    general: Configured
    """The index that every package may come from unless it is bound to another."""
    extra_indexes: tuple[Configured, ...] = ()
    """More places to find a file by its sha256; never an input of a resolution."""
    find_links: tuple[Configured, ...] = ()
    """Folders, wheels and pages; a file there is what its sha256 says."""
    proxies: tuple[Configured, ...] = ()
    """For showing: without credentials, `NO_PROXY` among them."""
    proxy: str = field(default="", repr=False)
    """The proxy pip is told to use, credentials included; stronger than proxy variables."""
    ca: Configured | None = None
    """File of certificates that are trusted."""
    ignored: tuple[Configured, ...] = ()
    """Settings that would change a resolution: named, and without effect."""
    credentials: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    """`host:port` → user and password, as they stood in URLs."""


def read_user_config(
    environment: Mapping[str, str], *, root: Path = Path("/"), prefix: Path = Path(sys.prefix)
) -> UserConfig:
    """Read pip's and uv's configuration; `root` is where `etc/` lies, `prefix` the running Python.

    Raises SpecError when a configuration file cannot be parsed.
    """
    options = [*_environment(environment), *_pip(environment, root, prefix)]
    options += _uv(environment, root)
    found = _Found()
    for name, value, origin in options:
        found.take(name, value, origin)
    general = found.general or Configured(value=DEFAULT_GENERAL, origin="default")
    return UserConfig(
        general=general,
        extra_indexes=_unique(entry for entry in found.extra if entry.value != general.value),
        find_links=_unique(found.links),
        proxies=_unique(found.proxies),
        proxy=found.proxy,
        ca=found.ca,
        ignored=_unique(found.ignored),
        credentials=found.credentials,
    )


Option = tuple[str, str, str]
"""Name, value, origin; the earliest of several wins where only one can be."""


@dataclass(slots=True)
class _Found:
    general: Configured | None = None
    ca: Configured | None = None
    proxy: str = ""
    extra: list[Configured] = field(default_factory=list)
    links: list[Configured] = field(default_factory=list)
    proxies: list[Configured] = field(default_factory=list)
    ignored: list[Configured] = field(default_factory=list)
    credentials: dict[str, tuple[str, str]] = field(default_factory=dict)

    def take(self, name: str, value: str, origin: str) -> None:
        if name == "index":
            self.general = self.general or self._place(value, origin)
        elif name == "extra":
            self.extra.append(self._place(value, origin))
        elif name == "links":
            self.links.append(self._place(value, origin))
        elif name in ("proxy", "seen-proxy"):
            self.proxies.append(Configured(value=part_url(value, origin)[0], origin=origin))
            if name == "proxy":
                self.proxy = self.proxy or value
        elif name == "ca":
            self.ca = self.ca or Configured(value=value, origin=origin)
        else:
            self.ignored.append(Configured(value=redacted(value), origin=origin))

    def _place(self, value: str, origin: str) -> Configured:
        url, host, user = part_url(value, origin)
        if user is not None:
            self.credentials.setdefault(host, user)
        return Configured(value=url.rstrip("/") if "://" in url else url, origin=origin)


def part_url(url: str, origin: str) -> tuple[str, str, tuple[str, str] | None]:
    """Part a URL from the credentials in it: URL, `host:port`, user and password (or None).

    Raises BadInput for what is none; `origin` is the setting it stood in.
    """
    if "://" not in url or url.startswith("file:"):
        return url, "", None
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadInput(
            f"the address {url.rpartition('@')[2]} cannot be read: {error}",
            subject=origin,
            action="correct it there",
        ) from None
    host = parts.netloc.rpartition("@")[2]
    user = None
    if parts.username is not None:
        user = unquote(parts.username), unquote(parts.password or "")
    return urlunsplit(parts._replace(netloc=host)), host, user


_VARIABLES = (
    ("UV_DEFAULT_INDEX", "index"),
    ("UV_INDEX_URL", "index"),
    ("PIP_INDEX_URL", "index"),
    ("UV_INDEX", "extra"),
    ("UV_EXTRA_INDEX_URL", "extra"),
    ("PIP_EXTRA_INDEX_URL", "extra"),
    ("UV_FIND_LINKS", "links"),
    ("PIP_FIND_LINKS", "links"),
    ("PIP_PROXY", "proxy"),
    *((name, "ca") for name in _CA_VARIABLES),
    *((spelling, "seen-proxy") for name in PROXY_VARIABLES for spelling in (name, name.lower())),
)


def _environment(environment: Mapping[str, str]) -> Iterator[Option]:
    for variable, name in _VARIABLES:
        text = environment.get(variable, "")
        if name == "links":  # uv parts these by commas, everything else is parted by spaces
            text = text.replace(",", " ")
        for value in text.split() if name in ("extra", "links") else [text]:
            if value:
                yield name, _unnamed(value), variable
    ignored = [f"PIP_{name.upper().replace('-', '_')}" for name in _IGNORED_PIP]
    for variable in (*ignored, *_IGNORED_UV_VARIABLES):
        if environment.get(variable):
            yield "ignored", f"{variable}={environment[variable]}", variable


def _unnamed(value: str) -> str:
    """Drop the name of an index given as uv allows it: `name=https://…`."""
    name, equals, url = value.partition("=")
    return url if equals and "://" in url and "://" not in name else value


def _pip(environment: Mapping[str, str], root: Path, prefix: Path) -> Iterator[Option]:
    for path in _pip_files(environment, root, prefix):
        if not path.is_file():
            continue
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (configparser.Error, UnicodeDecodeError) as error:
            raise SpecError(
                f"not a pip configuration file: {error}",
                subject=str(path),
                action="correct it, `pip config debug` lists the files pip reads",
            ) from None
        for section in _SECTIONS:
            if parser.has_section(section):
                for key, value in parser.items(section):
                    yield from _pip_option(key.replace("_", "-").lower(), value, str(path))


def _pip_files(environment: Mapping[str, str], root: Path, prefix: Path) -> list[Path]:
    """Files in pip's order of precedence, the strongest first."""
    home = Path(environment.get("HOME") or "/root")
    files = []
    own = environment.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return []
    if own:
        files.append(Path(own))
    folders = [Path(environment["VIRTUAL_ENV"])] if environment.get("VIRTUAL_ENV") else []
    files += [folder / "pip.conf" for folder in (*folders, prefix)]
    config = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    files += [Path(config) / "pip" / "pip.conf", home / ".pip" / "pip.conf"]
    files.append(root / "etc" / "pip.conf")
    files += [folder / "pip" / "pip.conf" for folder in _xdg_folders(environment, root)]
    return list(dict.fromkeys(files))


def _pip_option(key: str, value: str, origin: str) -> Iterator[Option]:
    single = {"index-url": "index", "cert": "ca", "proxy": "proxy"}
    several = {"extra-index-url": "extra", "find-links": "links"}
    if key in single:
        yield single[key], value.strip(), origin
    elif key in several:
        for part in value.split():
            yield several[key], part, origin
    elif key in _IGNORED_PIP:
        yield "ignored", f"{key} = {' '.join(value.split())}", origin


def _uv(environment: Mapping[str, str], root: Path) -> Iterator[Option]:
    for path in _uv_files(environment, root):
        if not path.is_file():
            continue
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SpecError(
                f"not TOML: {error}", subject=str(path), action="correct that line of uv's file"
            ) from None
        pip = table.get("pip")
        for part in (table, pip if isinstance(pip, dict) else {}):
            yield from _uv_options(part, path)


def _uv_files(environment: Mapping[str, str], root: Path) -> list[Path]:
    if environment.get("UV_NO_CONFIG"):
        return []
    if own := environment.get("UV_CONFIG_FILE"):
        return [Path(own)]
    home = Path(environment.get("HOME") or "/root")
    config = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    system = [folder / "uv" / "uv.toml" for folder in _xdg_folders(environment, root)]
    return [Path(config) / "uv" / "uv.toml", *system, root / "etc" / "uv" / "uv.toml"]


def _uv_options(table: Mapping[str, object], path: Path) -> Iterator[Option]:
    origin = str(path)
    indexes = table.get("index")
    for entry in indexes if isinstance(indexes, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("url"), str):
            name = "links" if entry.get("format") == "flat" else "extra"
            url = _beside(entry["url"], path)
            yield ("index" if entry.get("default") else name), url, origin
    if isinstance(default := table.get("index-url"), str):
        yield "index", default, origin
    for key, name in (("extra-index-url", "extra"), ("find-links", "links")):
        values = table.get(key)
        for value in values if isinstance(values, list) else []:
            yield name, _beside(str(value), path), origin
    for key in _IGNORED_UV:
        if key in table:
            yield "ignored", f"{key} = {table[key]!r}", origin


def _beside(value: str, path: Path) -> str:
    """Resolve a relative folder against the file that names it, as uv does."""
    return value if "://" in value else str(path.parent / value)


def _xdg_folders(environment: Mapping[str, str], root: Path) -> list[Path]:
    value = environment.get("XDG_CONFIG_DIRS")
    if value:
        return [Path(part) for part in value.split(":") if part.startswith("/")]
    return [root / "etc" / "xdg"]


def _unique(entries: Iterable[Configured]) -> tuple[Configured, ...]:
    """Keep the first of several with the same value."""
    seen: dict[str, Configured] = {}
    for entry in entries:
        seen.setdefault(entry.value, entry)
    return tuple(seen.values())
