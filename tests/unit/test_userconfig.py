"""What is taken from the user's pip and uv configuration, and what is only named."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.core.simple import DEFAULT_GENERAL
from builder.edge.userconfig import Configured, UserConfig, read_user_config
from builder.errors import SpecError


def read(root: Path, **environment: str) -> UserConfig:
    """Read a configuration below `root` alone."""
    return read_user_config(
        {"HOME": str(root / "home"), **environment}, root=root, prefix=root / "prefix"
    )


def write(path: Path, text: str) -> Path:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def values(entries: tuple[Configured, ...]) -> list[str]:
    """Values alone."""
    return [entry.value for entry in entries]


def test_without_any_configuration_the_library_says_where_the_index_is(tmp_path: Path) -> None:
    """And there is nothing else."""
    assert UserConfig(general=Configured(value=DEFAULT_GENERAL, origin="default")) == read(tmp_path)


def test_pips_files_are_read_in_pips_order(tmp_path: Path) -> None:
    """Environment, its own file, the virtual environment, the user's, the machine's."""
    files = [
        tmp_path / "etc" / "xdg" / "pip" / "pip.conf",
        tmp_path / "etc" / "pip.conf",
        tmp_path / "home" / ".pip" / "pip.conf",
        tmp_path / "home" / ".config" / "pip" / "pip.conf",
        tmp_path / "prefix" / "pip.conf",
        tmp_path / "venv" / "pip.conf",
        tmp_path / "own.conf",
    ]
    environment = {"VIRTUAL_ENV": str(tmp_path / "venv"), "PIP_CONFIG_FILE": str(files[-1])}
    for number, path in enumerate(files):
        write(path, f"[global]\nindex-url = https://{number}.example.org/simple/\n")
        found = read(tmp_path, **environment)
        assert Configured(value=f"https://{number}.example.org/simple", origin=str(path)) == (
            found.general
        )
    found = read(tmp_path, PIP_INDEX_URL="https://e.example.org", **environment)
    assert Configured(value="https://e.example.org", origin="PIP_INDEX_URL") == found.general
    found = read(tmp_path, PIP_CONFIG_FILE="/dev/null")
    assert DEFAULT_GENERAL == found.general.value


def test_find_links_and_extra_indexes_of_all_places_are_united(tmp_path: Path) -> None:
    """They are only places to find a file by its sha256; each once, with its origin."""
    pip = write(
        tmp_path / "etc" / "pip.conf",
        "[global]\nextra-index-url = https://a.example.org/simple\n\thttps://b.example.org/simple\n"
        "[install]\nfind_links = /srv/wheels\n",
    )
    uv = write(
        tmp_path / "home" / ".config" / "uv" / "uv.toml",
        'find-links = ["more", "/srv/wheels"]\n[pip]\nextra-index-url = ["https://c.example.org"]\n'
        '[[index]]\nurl = "https://d.example.org/flat"\nformat = "flat"\n'
        '[[index]]\nname = "e"\nurl = "https://e.example.org/simple"\n',
    )
    found = read(
        tmp_path,
        PIP_FIND_LINKS="/one /two",
        UV_FIND_LINKS="/three,https://f.example.org/list.html",
        UV_INDEX="mine=https://g.example.org/simple",
    )
    assert {
        "https://a.example.org/simple": str(pip),
        "https://b.example.org/simple": str(pip),
        "https://c.example.org": str(uv),
        "https://e.example.org/simple": str(uv),
        "https://g.example.org/simple": "UV_INDEX",
    } == {entry.value: entry.origin for entry in found.extra_indexes}
    assert {
        "/one": "PIP_FIND_LINKS",
        "/two": "PIP_FIND_LINKS",
        "/three": "UV_FIND_LINKS",
        "https://f.example.org/list.html": "UV_FIND_LINKS",
        "/srv/wheels": str(pip),
        str(uv.parent / "more"): str(uv),
        "https://d.example.org/flat": str(uv),
    } == {entry.value: entry.origin for entry in found.find_links}


def test_uvs_default_index_counts(tmp_path: Path) -> None:
    """In its file or in the environment; UV_NO_CONFIG hides the file."""
    write(
        tmp_path / "etc" / "uv" / "uv.toml",
        '[[index]]\nurl = "https://u.example.org/simple"\ndefault = true\n',
    )
    assert "https://u.example.org/simple" == read(tmp_path).general.value
    assert DEFAULT_GENERAL == read(tmp_path, UV_NO_CONFIG="1").general.value
    own = write(tmp_path / "own.toml", 'index-url = "https://o.example.org"\n')
    assert "https://o.example.org" == read(tmp_path, UV_CONFIG_FILE=str(own)).general.value
    assert "https://v.example.org" == (
        read(tmp_path, UV_DEFAULT_INDEX="https://v.example.org").general.value
    )


def test_what_would_change_a_resolution_is_named_and_nothing_else(tmp_path: Path) -> None:
    """Constraints, strategies, dates; each with where it was said."""
    pip = write(
        tmp_path / "etc" / "pip.conf",
        "[global]\nconstraint = /etc/c.txt\ntimeout = 5\n[install]\npre = true\n"
        "[freeze]\nconstraint = /other\n",
    )
    uv = write(
        tmp_path / "etc" / "uv" / "uv.toml",
        'index-strategy = "unsafe-best-match"\ncache-dir = "/x"\n[pip]\nresolution = "lowest"\n',
    )
    found = read(tmp_path, UV_EXCLUDE_NEWER="2001-01-01", PIP_NO_INDEX="1", PIP_TIMEOUT="3")
    assert {
        ("constraint = /etc/c.txt", str(pip)),
        ("pre = true", str(pip)),
        ("index-strategy = 'unsafe-best-match'", str(uv)),
        ("resolution = 'lowest'", str(uv)),
        ("UV_EXCLUDE_NEWER=2001-01-01", "UV_EXCLUDE_NEWER"),
        ("PIP_NO_INDEX=1", "PIP_NO_INDEX"),
    } == {(entry.value, entry.origin) for entry in found.ignored}


def test_credentials_leave_the_urls(tmp_path: Path) -> None:
    """They are kept by host, decoded, and are in no representation."""
    found = read(
        tmp_path,
        PIP_INDEX_URL="https://robot:p%40ss@mirror.example.org:8443/simple",
        PIP_EXTRA_INDEX_URL="https://token@extra.example.org/simple",
        HTTPS_PROXY="http://me:secret@proxy.example.org:3128",
    )
    assert "https://mirror.example.org:8443/simple" == found.general.value
    assert {
        "mirror.example.org:8443": ("robot", "p@ss"),
        "extra.example.org": ("token", ""),
    } == dict(found.credentials)
    assert ["http://proxy.example.org:3128"] == values(found.proxies)
    assert [] == [word for word in ("p@ss", "p%40ss", "token", "secret") if word in repr(found)]


def test_ca_and_proxy_are_taken(tmp_path: Path) -> None:
    """Pip's own before the general ones; pip's proxy is given to the client whole."""
    write(tmp_path / "etc" / "pip.conf", "[global]\ncert = /etc/ca.pem\nproxy = http://u:p@p:1\n")
    found = read(tmp_path, no_proxy="localhost")
    assert "/etc/ca.pem" == (found.ca.value if found.ca else "")
    assert ("http://u:p@p:1", ["localhost", "http://p:1"]) == (found.proxy, values(found.proxies))
    found = read(tmp_path, SSL_CERT_FILE="/ssl.pem", PIP_CERT="/pip.pem")
    assert Configured(value="/pip.pem", origin="PIP_CERT") == found.ca


@pytest.mark.parametrize(
    ("path", "text"), [("etc/pip.conf", "index-url = x\n"), ("etc/uv/uv.toml", "a = = b")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, path: str, text: str) -> None:
    """Silence would mean another index than the person thinks."""
    write(tmp_path / path, text)
    with pytest.raises(SpecError) as caught:
        read(tmp_path)
    assert str(tmp_path / path) == caught.value.subject


def test_a_setting_that_is_named_is_named_without_its_password(tmp_path: Path) -> None:
    """Constraints may lie at an address with credentials."""
    found = read(tmp_path, PIP_CONSTRAINT="https://robot:s3cret@host.example/c.txt")
    assert ["PIP_CONSTRAINT=https://host.example/c.txt"] == values(found.ignored)
