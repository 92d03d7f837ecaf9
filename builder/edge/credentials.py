"""Who we are at a registry: docker's own config.json and credential helpers, read, never written.

Sources: docker/cli `cli/config/configfile`, docker-credential-helpers' protocol.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.core.reference import DOCKER_HUB
from builder.edge import process
from builder.errors import CommandFailed, SpecError, ToolMissing

_HUB_KEY = "index.docker.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a registry or its token server is shown."""

    user: str = ""
    secret: str = ""
    identity_token: str = ""
    """Instead of a password, for the token server's OAuth2 end."""

    def __repr__(self) -> str:
        return f"Credential(user={self.user!r}, …)"


def find_credential(registry: str, environment: Mapping[str, str]) -> Credential | None:
    """Look a registry up as `docker` does; None when nobody logged in there.

    Raises SpecError for a config.json that cannot be read, ToolMissing for a helper that is not
    there.
    """
    path = config_path(environment)
    config = _read(path)
    helper = _table(config, "credHelpers").get(registry) or config.get("credsStore")
    host = _HUB_KEY if registry == DOCKER_HUB else registry
    if isinstance(helper, str) and helper:
        asked = f"https://{_HUB_KEY}/v1/" if registry == DOCKER_HUB else registry
        found = _ask_helper(helper, asked, path)
        if found is not None:
            return found
    for key, entry in _table(config, "auths").items():
        if _host_of(key) == host and isinstance(entry, dict):
            return _entry(entry, f"{path}: auths.{key}")
    return None


def config_path(environment: Mapping[str, str]) -> Path:
    """Path of docker's config.json."""
    folder = environment.get("DOCKER_CONFIG")
    home = Path(environment.get("HOME") or "/root")
    return (Path(folder) if folder else home / ".docker") / "config.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(
            f"docker's config.json cannot be read: {error}",
            subject=str(path),
            action="correct it, or log in again with `docker login`",
        ) from None
    return config if isinstance(config, dict) else {}


def _table(config: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def _host_of(key: str) -> str:
    return key.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _entry(entry: Mapping[str, Any], subject: str) -> Credential | None:
    user, secret = str(entry.get("username", "")), str(entry.get("password", ""))
    if entry.get("auth"):
        try:
            plain = base64.b64decode(str(entry["auth"]), validate=True).decode()
        except ValueError:
            raise SpecError(
                "`auth` is not base64", subject=subject, action="log in again with `docker login`"
            ) from None
        user, _, secret = plain.partition(":")
    token = str(entry.get("identitytoken", ""))
    if not (user or token):
        return None
    return Credential(user=user, secret=secret.rstrip("\0"), identity_token=token)


def _ask_helper(name: str, server: str, config: Path) -> Credential | None:
    program = f"docker-credential-{name}"
    found = process.find(program)
    if found is None:
        raise ToolMissing(
            f"the credential helper {program} is not there",
            subject=f"{config}: credsStore, credHelpers",
            action="install it, or take it out of config.json and log in again",
        )
    try:
        said = json.loads(process.run([found, "get"], stdin=server.encode(), timeout=30))
    except (CommandFailed, ValueError, RecursionError):
        # A helper says so, with status 1, when it knows nobody there.
        return None
    if not isinstance(said, dict):
        return None
    user, secret = str(said.get("Username", "")), str(said.get("Secret", ""))
    if user == "<token>":
        return Credential(identity_token=secret)
    return Credential(user=user, secret=secret)
