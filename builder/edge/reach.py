"""The way to all indexes: one client with the user's CA, proxy and credentials.

Credentials are parted from every configured address here; nothing behind this knows an address that
has any, so none can reach a lock, a message, a log or an image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from builder.core.lock import VllmTable
from builder.core.settings import Settings
from builder.edge import process
from builder.edge.download import open_client, path_of
from builder.edge.index import Indexes
from builder.edge.userconfig import UserConfig, part_url, read_user_config
from builder.errors import CommandFailed

_KEYRING_SECONDS = 30
_ASK_SECONDS = 5


@contextmanager
def open_indexes(
    settings: Settings,
    environment: Mapping[str, str],
    *,
    connections: int,
    nightlies: Iterable[VllmTable] = (),
) -> Iterator[Indexes]:
    """Open all places that settings and the configuration of pip and uv name.

    `nightlies` are the vLLMs of the locks whose files are looked for.

    Raises SpecError for a configuration file that cannot be read, BadInput for CA or netrc.
    """
    settings, config = _without_credentials(settings, read_user_config(environment))
    with open_client(config, connections=connections) as client:
        yield Indexes(client, config, settings, nightlies)


def silent(config: UserConfig, places: Iterable[str]) -> dict[str, str]:
    """Say of those places that do not answer within five seconds why; any answer counts."""
    wanted = list(dict.fromkeys(places))
    with open_client(config) as client, ThreadPoolExecutor(max(len(wanted), 1)) as pool:
        reasons = pool.map(lambda place: _silence(client, place), wanted)
        return {place: why for place, why in zip(wanted, reasons, strict=True) if why}


def _silence(client: httpx.Client, place: str) -> str:
    if "://" not in place or place.startswith("file:"):
        path = path_of(place) if "://" in place else Path(place)
        return "" if path.exists() else "it is not there"
    try:
        client.head(place, timeout=_ASK_SECONDS)
    except httpx.TimeoutException:
        return f"no answer within {_ASK_SECONDS} s"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return ""


def _without_credentials(settings: Settings, config: UserConfig) -> tuple[Settings, UserConfig]:
    """Move credentials in our own settings to where those of pip's and uv's already are."""
    known: dict[str, tuple[str, str]] = {}

    def bare(where: str, origin: str) -> str:
        url, host, user = part_url(where, origin)
        if user is not None:
            known.setdefault(host, user)
        return url

    plain = settings.model_copy(
        update={
            "indexes": {
                name: bare(where, f"indexes.{name}") for name, where in settings.indexes.items()
            },
            "find_links": [bare(where, "find_links") for where in settings.find_links],
        }
    )
    every = {**config.credentials, **known}
    return plain, replace(
        config,
        credentials={
            host: (user, word or _ask_keyring(host, user)) for host, (user, word) in every.items()
        },
    )


def _ask_keyring(host: str, user: str) -> str:
    """Ask the program `keyring` for the password of a user, as pip does; empty when it has none."""
    program = process.find("keyring")
    if program is None:
        return ""
    try:
        return process.run([program, "get", host, user], timeout=_KEYRING_SECONDS).rstrip("\n")
    except CommandFailed:
        return ""
