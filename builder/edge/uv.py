"""uv as the resolver: told everything by files and options, so that no configuration reaches it.

Measured faults this guards against: plain `linux` means glibc 2.28; `[tool.uv]` overrides and the
default index of a given pyproject do not count under `--no-config`; an interpreter may be
downloaded for the asking.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from uv import find_uv_bin

from builder.core.indexes import Place
from builder.core.resolve import OUTPUT, Question, explain, unreachable_url
from builder.core.room import disk_full_line
from builder.edge import files, process
from builder.edge.userconfig import PROXY_VARIABLES, UserConfig
from builder.errors import CommandFailed, NetworkError, ToolMissing

_KEPT = ("PATH", "HOME", "TMPDIR", "SSL_CERT_DIR", "SSL_CLIENT_CERT")


def version() -> str:
    """Version of uv."""
    return process.run([program(), "--version"]).split()[1]


def program() -> str:
    """Path of uv: the one that is installed with us.

    Raises ToolMissing.
    """
    try:
        return find_uv_bin()
    except FileNotFoundError as error:
        raise ToolMissing(
            "uv is not there",
            subject=str(error),
            action="install nightlock's dependencies again: uv is one of them",
        ) from error


def resolve(
    question: Question, general: Place, index_url: str, config: UserConfig, cache: Path
) -> str:
    """Resolve and return uv's pylock.

    `index_url` is the general index as uv shall use it; `general` names it in messages.

    Raises Refused with uv's own explanation, NetworkError, DiskFull, CommandFailed.
    """
    with (
        files.full_disk_explained(Path(tempfile.gettempdir())),
        tempfile.TemporaryDirectory(prefix="nightlock-lock-") as name,
    ):
        folder = Path(name)
        for file, text in question.files().items():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / "netrc").touch(0o600)
        (folder / "netrc").write_text(netrc_text(config), encoding="utf-8")
        try:
            process.run(
                _argv(question, index_url),
                cwd=folder,
                environment=_environment(config, os.environ, folder, cache),
                action="look at uv's words below; `nightlock doctor` checks what it needs",
            )
        except CommandFailed as error:
            raise _translated(error, general, cache) from error
        return (folder / OUTPUT).read_text(encoding="utf-8")


def _argv(question: Question, index_url: str) -> list[str]:
    return [
        program(), "pip", "compile", "--quiet", "--no-config", "--color", "never",
        "--no-progress", "--format", "pylock.toml", "--only-binary", ":all:", "--no-header",
        "--no-annotate", "--python", sys.executable,
        "--python-version", question.target.python,
        "--python-platform", question.target.uv_platform,
        "--index-strategy", "first-index", "--default-index", index_url,
        "--constraints", "constraints.txt", "--overrides", "overrides.txt",
        "--output-file", OUTPUT, "pyproject.toml",
    ]  # fmt: skip


def _environment(
    config: UserConfig, environment: Mapping[str, str], folder: Path, cache: Path
) -> dict[str, str]:
    """Build uv's environment from nothing: proxy, CA, and what we say."""
    proxies = [spelling for name in PROXY_VARIABLES for spelling in (name, name.lower())]
    kept = {name: environment[name] for name in (*_KEPT, *proxies) if environment.get(name)}
    if config.proxy:
        kept |= {"HTTP_PROXY": config.proxy, "HTTPS_PROXY": config.proxy}
    if config.ca is not None:
        kept["SSL_CERT_FILE"] = config.ca.value
    return kept | {
        "LC_ALL": "C.UTF-8",
        "NETRC": str(folder / "netrc"),
        "UV_CACHE_DIR": str(cache),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_HTTP_TIMEOUT": "60",
    }


def netrc_text(config: UserConfig) -> str:
    """Credentials by host: those that stood in configured URLs, then the user's own netrc."""
    rows = [
        f"machine {host.partition(':')[0]} login {user} password {password}\n"
        for host, (user, password) in sorted(config.credentials.items())
    ]
    own = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    if own.is_file():
        rows.append(own.read_text(encoding="utf-8"))
    return "".join(rows)


def _translated(error: CommandFailed, general: Place, cache: Path) -> Exception:
    if full := disk_full_line(error.tail):
        return files.disk_full(cache, full)
    if url := unreachable_url(error.tail):
        return NetworkError(
            f"the index {general} cannot be reached",
            subject=url,
            action=(
                "check the network and the proxy variables, or name a mirror: "
                f"--index {general.name}=URL-or-folder, or PIP_INDEX_URL"
            ),
        )
    return explain(error.tail, str(general), general.where) or error
