"""Everything read over HTTP from indexes and archives: retries, resuming, credentials, CA.

Only idempotent reads; a definite no (404, 403) is never asked twice.
"""

from __future__ import annotations

import netrc
import os
import socket
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from builder.core.hash_change import Answer
from builder.edge import files, store
from builder.edge.userconfig import PROXY_VARIABLES, UserConfig
from builder.errors import BadInput, NetworkError, NotOffered

ATTEMPTS = 5
"""Tries without any progress before a read is given up."""
BACKOFF = 0.5
"""Seconds before the second try; doubles with each."""
_LONGEST_WAIT = 60.0
_AS_IT_IS = {"Accept-Encoding": "identity"}
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


def open_client(
    config: UserConfig, *, connections: int = 16, proxies: Mapping[str, str] | None = None
) -> httpx.Client:
    """Open a client with the user's credentials, proxy and CA; proxy variables count as well.

    `proxies` maps URL patterns to proxies that win over all others there, "" for none.

    Raises BadInput when the file of CA certificates cannot be read, or an address is none.
    """
    verify = _context(config)
    try:
        return _open(config, verify, connections, proxies or {})
    except (ValueError, httpx.InvalidURL) as error:
        raise BadInput(
            f"a proxy address cannot be used: {error}",
            subject=_bad_proxy(config),
            action="write it as http://host:port",
        ) from error


def _bad_proxy(config: UserConfig) -> str:
    """Name the one variable whose address is none; else it is pip's."""
    for name in (spelling for one in PROXY_VARIABLES for spelling in (one, one.lower())):
        value = os.environ.get(name, "")
        try:
            httpx.HTTPTransport(proxy=(value if "://" in value else f"http://{value}") or None)
        except (ValueError, httpx.InvalidURL):
            return name
    return "PIP_PROXY, or `proxy` in pip.conf" if config.proxy else ", ".join(PROXY_VARIABLES)


def _open(
    config: UserConfig,
    verify: ssl.SSLContext | bool,
    connections: int,
    proxies: Mapping[str, str],
) -> httpx.Client:
    return httpx.Client(
        auth=_Credentials(config.credentials),
        verify=verify,
        mounts={
            pattern: httpx.HTTPTransport(verify=verify, proxy=proxy or None)
            for pattern, proxy in proxies.items()
        },
        proxy=config.proxy or None,
        follow_redirects=True,
        timeout=httpx.Timeout(30, connect=15, pool=None),
        limits=httpx.Limits(max_connections=connections),
        headers={"User-Agent": "nightlock"},
    )


def get(client: httpx.Client, url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """Read a whole page (or a range of a file), trying again while that may help.

    Raises NotOffered on a definite no, NetworkError when it stays out of reach.
    """
    tries = 0
    while True:
        tries += 1
        try:
            response = client.get(url, headers=headers)
            _refuse(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _wait(error, url, tries)
        else:
            return response


def is_there(client: httpx.Client, url: str) -> bool:
    """Whether a file is there, by HEAD, or by a first byte where HEAD is not allowed.

    Takes `file:` URLs too. Raises NetworkError when the server is out of reach, NotOffered when it
    wants credentials.
    """
    if url.startswith("file:"):
        return path_of(url).is_file()
    tries = 0
    while True:
        tries += 1
        try:
            response = client.head(url)
            if response.status_code in (405, 501):
                span = {"Range": "bytes=0-0", **_AS_IT_IS}
                with client.stream("GET", url, headers=span) as response:
                    _refuse(response)
                return True
            _refuse(response)
        except NotOffered as error:
            if error.status in (401, 407):
                raise
            return False
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _wait(error, url, tries)
        else:
            return True


def read_range(client: httpx.Client, url: str, span: str) -> tuple[bytes, int] | None:
    """Read part of a file: its bytes, and how long the whole is.

    `span` is a value of the header Range. None where the server does not do ranges; a whole file
    it sends instead is not read.

    Raises as `get`.
    """
    tries = 0
    while True:
        tries += 1
        try:
            with client.stream("GET", url, headers={"Range": span, **_AS_IT_IS}) as response:
                if response.status_code in (200, 416):
                    return None
                _refuse(response)
                total = response.headers.get("Content-Range", "").rpartition("/")[2]
                return (response.read(), int(total)) if total.isdigit() else None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _wait(error, url, tries)


def download(
    client: httpx.Client,
    url: str,
    target: Path,
    *,
    size: int | None = None,
    on_bytes: Callable[[int], None] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Make `target` hold what `url` serves, going on from the bytes that are there already.

    `size` is the length it should get, when known. `on_bytes` hears how many bytes more (negative:
    fewer, when it had to start over) lie in the file, and may raise to stop; what has arrived by
    then stays, so that the next call goes on from it. Takes `file:` URLs too. Does not check bytes.

    Raises NotOffered, NetworkError, DiskFull.
    """
    tell = on_bytes or (lambda _: None)
    if url.startswith("file:"):
        _copy(path_of(url), target, tell)
        return Answer()
    tries = 0
    escaped = False
    tell(_length(target))
    while True:
        before = _length(target)
        if size is not None and before == size:
            return Answer()
        tries += 1
        try:
            answer = _stream(client, url, target, size, tell, headers or {})
            if answer is not None:
                return answer
        except NotOffered:
            # Object stores take a bare `+` in a path for a space.
            if escaped or "+" not in urlsplit(url).path:
                raise
            url, escaped = url.replace("+", "%2B"), True
        except httpx.HTTPError as error:
            if _length(target) > before:
                tries = 0
            tell(0)
            _wait(error, url, tries)


def path_of(url: str) -> Path:
    """Path that a `file:` URL names."""
    return Path(unquote(urlsplit(url).path))


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _copy(source: Path, target: Path, tell: Callable[[int], None]) -> None:
    try:
        store.copy(source, target)
    except FileNotFoundError:
        raise NotOffered(
            "the file is not there",
            subject=str(source),
            action="put it there, or name another folder or address that has it",
        ) from None
    tell(_length(target))


def _stream(
    client: httpx.Client,
    url: str,
    target: Path,
    size: int | None,
    tell: Callable[[int], None],
    more: Mapping[str, str],
) -> Answer | None:
    """Take one answer into the file; None when it has to be asked for again from the start."""
    start = _length(target)
    if size is not None and start > size:
        _restart(target, start, tell)
        start = 0
    headers = {**more, **({"Range": f"bytes={start}-"} if start else {}), **_AS_IT_IS}
    with client.stream("GET", url, headers=headers) as response:
        if start and response.status_code == 416:
            total = response.headers.get("Content-Range", "").rpartition("/")[2]
            if total == str(start) and size in (None, start):
                return Answer(announced=start)
            _restart(target, start, tell)
            return None
        _refuse(response)
        if start and not _goes_on(response, start):
            _restart(target, start, tell)
            if response.status_code == 206:
                return None
            start = 0
        with files.full_disk_explained(target), target.open("ab") as file:
            for chunk in response.iter_raw(1 << 18):
                file.write(chunk)
                tell(len(chunk))
                # One piece too many shows in the hash; a server without an end fills the disk.
                if size is not None and file.tell() > size:
                    break
        length = response.headers.get("Content-Length", "")
        return Answer(
            announced=start + int(length) if length.isdigit() else None,
            modified=response.headers.get("Last-Modified", ""),
        )


def _goes_on(response: httpx.Response, start: int) -> bool:
    return response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {start}-"
    )


def _restart(target: Path, had: int, tell: Callable[[int], None]) -> None:
    target.unlink(missing_ok=True)
    tell(-had)


def _refuse(response: httpx.Response) -> None:
    status = response.status_code
    if response.is_success:
        return
    if status in _AGAIN:
        response.raise_for_status()
    action = "check the address, or name another index or mirror that has the file"
    if status in (401, 403, 407):
        action = "put the credentials for this host into ~/.netrc or into the configured URL"
    raise NotOffered(
        f"the server answers {status} {response.reason_phrase}".rstrip(),
        subject=_shown(response.request.url),
        action=action,
        status=status,
    )


def _wait(error: Exception, url: str, tries: int) -> None:
    """Sleep before the next try, or raise NetworkError when there is no use in one."""
    if tries >= ATTEMPTS or not _may_pass(error):
        raise NetworkError(
            _said(error),
            subject=_shown(httpx.URL(url)) if "://" in url else url,
            action=_advice(error),
        ) from error
    pause = BACKOFF * 2 ** max(tries - 1, 0)
    if isinstance(error, httpx.HTTPStatusError):
        after = error.response.headers.get("Retry-After", "")
        if after.isdigit():
            pause = float(after)
        if pause > _LONGEST_WAIT:
            raise NetworkError(
                f"the server answers {error.response.status_code} and asks to wait {pause:.0f} s",
                subject=_shown(error.request.url),
                action="try again after that time, or name a mirror",
            ) from error
    time.sleep(pause)


def _causes(error: BaseException) -> Generator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _may_pass(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return True
    if not isinstance(error, httpx.TransportError) or isinstance(error, httpx.UnsupportedProtocol):
        return False
    return not any(
        isinstance(cause, ssl.SSLCertVerificationError)
        or (isinstance(cause, socket.gaierror) and cause.errno in _NO_NAME)
        for cause in _causes(error)
    )


def _said(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server keeps answering {error.response.status_code}"
    if isinstance(error, httpx.TimeoutException):
        return "the server does not answer in time"
    return f"the server cannot be reached: {str(error) or type(error).__name__}"


def _advice(error: Exception) -> str:
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
        return "name the file of your CA certificates in SSL_CERT_FILE"
    return "check the network and the proxy variables, or name a mirror"


def _shown(url: httpx.URL) -> str:
    return str(url.copy_with(username=None, password=None) if url.userinfo else url)


def _context(config: UserConfig) -> ssl.SSLContext | bool:
    if config.ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=config.ca.value)
    except OSError as error:
        raise BadInput(
            f"the CA certificates cannot be read: {error}",
            subject=f"{config.ca.value} (from {config.ca.origin})",
            action=f"correct {config.ca.origin}",
        ) from error


class _Credentials(httpx.Auth):
    """Basic credentials by host: those that stood in configured URLs, the URL's own, then netrc.

    httpx drops the header itself when a redirect leaves the host.
    """

    def __init__(self, known: Mapping[str, tuple[str, str]]) -> None:
        self._known = known
        self._netrc = _read_netrc()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        user = self._known.get(request.url.netloc.decode("ascii"))
        if user is None and request.url.username:
            user = request.url.username, request.url.password
        if user is None and self._netrc is not None:
            found = self._netrc.authenticators(request.url.host)
            if found is not None:
                user = found[0], found[2] or ""
        if user is None:
            yield request
        else:
            yield from httpx.BasicAuth(*user).auth_flow(request)


def _read_netrc() -> netrc.netrc | None:
    path = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        return netrc.netrc(str(path))
    except FileNotFoundError:
        return None
    except (netrc.NetrcParseError, UnicodeDecodeError, OSError) as error:
        # netrc's own words quote the line, which may be a password.
        why = f"line {error.lineno}" if isinstance(error, netrc.NetrcParseError) else "not UTF-8"
        what = f"netrc cannot be read: {error.strerror if isinstance(error, OSError) else why}"
        raise BadInput(what, subject=str(path), action="correct it or remove it") from None
