"""A registry in memory for unit tests, and images small enough to push by hand."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX, OCI_MANIFEST

_PATH = re.compile(
    r"/v2/(?P<name>.+?)/(?P<kind>manifests|blobs|tags|referrers)/(?P<target>[^/]+|uploads/\w*)"
)


@dataclass(frozen=True)
class SmallImage:
    """A manifest with its config; no layers, since nobody runs it."""

    manifest: bytes
    config: bytes

    @property
    def digest(self) -> str:
        """Digest of the manifest."""
        return digest_of(self.manifest)


def small_image(
    labels: Mapping[str, str], *, architecture: str = "amd64", created: str = ""
) -> SmallImage:
    """Make an image that consists of what it says of itself."""
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            **({"created": created} if created else {}),
            "config": {"Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": []},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": digest_of(config),
                "size": len(config),
            },
            "layers": [],
        },
        indent=3,  # an unusual spelling: the bytes count, not what they mean
    ).encode()
    return SmallImage(manifest=manifest, config=config)


def small_index(images: Mapping[str, SmallImage]) -> bytes:
    """Make an index; keys are platforms."""
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [
                {
                    "mediaType": OCI_MANIFEST,
                    "digest": image.digest,
                    "size": len(image.manifest),
                    "platform": dict(zip(("os", "architecture"), platform.split("/"), strict=True)),
                }
                for platform, image in images.items()
            ],
        }
    ).encode()


def push(host: str, repository: str, tag: str, image: SmallImage) -> str:
    """Push an image to a real registry on loopback by plain requests; return its digest."""
    with httpx.Client(base_url=f"http://{host}", trust_env=False) as client:
        started = client.post(f"/v2/{repository}/blobs/uploads/")
        started.raise_for_status()
        where = httpx.URL(started.headers["Location"]).copy_merge_params(
            {"digest": digest_of(image.config)}
        )
        client.put(where, content=image.config).raise_for_status()
        put_manifest(host, repository, tag, image.manifest, OCI_MANIFEST)
    return image.digest


def put_manifest(host: str, repository: str, tag: str, data: bytes, media_type: str) -> None:
    """Put manifest bytes into a real registry on loopback."""
    with httpx.Client(base_url=f"http://{host}", trust_env=False) as client:
        client.put(
            f"/v2/{repository}/manifests/{tag}", content=data, headers={"Content-Type": media_type}
        ).raise_for_status()


@dataclass
class FakeRegistry:
    """One repository store behind `httpx.MockTransport(fake.handle)`."""

    auth: str = ""
    """`basic`, `bearer` or nothing."""
    users: dict[str, str] = field(default_factory=dict)
    page: int = 1000
    """Tags on one page."""
    faults: list[httpx.Response | httpx.TransportError] = field(default_factory=list)
    """Given out one a request, before anything else."""
    drop_headers: bool = False
    """Whether Docker-Content-Digest is left out, as some proxies do."""
    manifests: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    """(repository, tag or digest) → bytes, media type."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)

    def add(self, repository: str, tag: str, image: SmallImage) -> None:
        """Hold an image under a tag."""
        self.put(repository, tag, image.manifest, OCI_MANIFEST)
        self.blobs[digest_of(image.config)] = image.config

    def put(self, repository: str, tag: str, data: bytes, media_type: str) -> None:
        """Hold manifest bytes under a tag and their digest."""
        self.manifests[repository, tag] = (data, media_type)
        self.manifests[repository, digest_of(data)] = (data, media_type)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, httpx.TransportError):
                raise fault
            return fault
        if request.url.path == "/token":
            return self._token(request)
        return self._refused(request) or self._served(request)

    def _served(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v2/":
            return httpx.Response(200, json={})
        match = _PATH.fullmatch(request.url.path)
        if match is None:
            return _error(404, "NAME_UNKNOWN", "no such path")
        name, target = match["name"], match["target"]
        if target.startswith("uploads/"):
            return self._upload(request, name)
        answers = {
            "tags": lambda: self._tags(request, name),
            "manifests": lambda: self._manifest(request, name, target),
            "referrers": lambda: self.listed(request, name, target),
            "blobs": lambda: self._blob(target),
        }
        return answers[match["kind"]]()

    def _blob(self, digest: str) -> httpx.Response:
        data = self.blobs.get(digest)
        unknown = _error(404, "BLOB_UNKNOWN", "no such blob")
        return unknown if data is None else httpx.Response(200, content=data)

    def listed(self, request: httpx.Request, name: str, digest: str) -> httpx.Response:  # noqa: ARG002
        """Answer as a registry without the referrers API, such as Debian's."""
        return httpx.Response(404, text="404 page not found\n")

    def recorded(self, data: bytes) -> dict[str, str]:  # noqa: ARG002 - others need it
        """Headers that say which subject was recorded; none without the referrers API."""
        return {}

    def _upload(self, request: httpx.Request, name: str) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, headers={"Location": f"/v2/{name}/blobs/uploads/one?s=1"})
        digest = request.url.params["digest"]
        if digest != digest_of(request.content):
            return _error(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
        self.blobs[digest] = request.content
        return httpx.Response(201)

    def _manifest(self, request: httpx.Request, name: str, target: str) -> httpx.Response:
        if request.method == "PUT":
            self.put(name, target, request.content, request.headers["Content-Type"])
            headers = self._digest(request.content) | self.recorded(request.content)
            return httpx.Response(201, headers=headers)
        found = self.manifests.get((name, target))
        if found is None:
            return _error(404, "MANIFEST_UNKNOWN", "manifest unknown")
        if request.method == "DELETE":
            gone = [key for key, value in self.manifests.items() if value == found]
            for key in gone:
                del self.manifests[key]
            return httpx.Response(202)
        data, media_type = found
        return httpx.Response(
            200,
            content=b"" if request.method == "HEAD" else data,
            headers={"Content-Type": media_type, **self._digest(data)},
        )

    def _digest(self, data: bytes) -> dict[str, str]:
        return {} if self.drop_headers else {"Docker-Content-Digest": digest_of(data)}

    def _tags(self, request: httpx.Request, name: str) -> httpx.Response:
        tags = sorted(
            tag for repository, tag in self.manifests if repository == name and ":" not in tag
        )
        if not tags:
            return _error(404, "NAME_UNKNOWN", "repository name not known to registry")
        last = request.url.params.get("last", "")
        rest = [tag for tag in tags if tag > last]
        page = rest[: self.page]
        headers = {}
        if len(rest) > len(page):
            headers["Link"] = f'</v2/{name}/tags/list?n={self.page}&last={page[-1]}>; rel="next"'
        return httpx.Response(200, json={"name": name, "tags": page}, headers=headers)

    def _refused(self, request: httpx.Request) -> httpx.Response | None:
        shown = request.headers.get("Authorization", "")
        if self.auth == "basic" and not self._knows(shown):
            return _error(401, "UNAUTHORIZED", "who?", {"WWW-Authenticate": 'Basic realm="r"'})
        if self.auth == "bearer" and not shown.startswith("Bearer good:"):
            realm = f"{request.url.scheme}://{request.url.netloc.decode()}/token"
            challenge = f'Bearer realm="{realm}",service="fake",scope="repository:x:pull"'
            return _error(401, "UNAUTHORIZED", "who?", {"WWW-Authenticate": challenge})
        return None

    def _knows(self, shown: str) -> bool:
        scheme, _, value = shown.partition(" ")
        if scheme != "Basic":
            return False
        user, _, secret = base64.b64decode(value).decode().partition(":")
        return self.users.get(user) == secret

    def _token(self, request: httpx.Request) -> httpx.Response:
        shown = request.headers.get("Authorization", "")
        if shown and not self._knows(shown):
            return httpx.Response(401)
        if self.users and not shown and request.method == "GET":
            return httpx.Response(401)
        scope = request.url.params.get("scope", "")
        return httpx.Response(200, json={"token": f"good:{scope}"})


def _error(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    body = {"errors": [{"code": code, "message": message}]}
    return httpx.Response(status, json=body, headers=headers)


def methods(requests: Iterable[httpx.Request]) -> list[str]:
    """List what was asked, as `GET /path`."""
    return [f"{request.method} {request.url.path}" for request in requests]


@contextmanager
def served(fake: FakeRegistry, rewrite: Callable[[bytes], bytes] = bytes) -> Iterator[str]:
    """Put a fake registry on loopback; yields its host. `rewrite` alters what clients PUT."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

        def answer(self) -> None:
            """Hand the request on."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            url = f"http://{self.headers['Host']}{self.path}"
            content = rewrite(body) if self.command == "PUT" else body
            headers = {k: v for k, v in self.headers.items() if k != "Content-Length"}
            reply = fake.handle(httpx.Request(self.command, url, headers=headers, content=content))
            self.send_response(reply.status_code)
            for name, value in reply.headers.items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
