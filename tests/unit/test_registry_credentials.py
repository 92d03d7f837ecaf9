"""Who we are at a registry: docker's config.json, helpers, Basic, token servers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from builder.core.reference import ImageRef
from builder.edge.credentials import Credential, find_credential
from builder.edge.registry import Registry
from builder.edge.token import parse_challenge
from builder.errors import RegistryError, SpecError, ToolMissing
from tests.support.registry import FakeRegistry, small_image

HOST = "registry.example"
REF = ImageRef.parse(f"{HOST}/team/cpu:candidate")
ME = Credential(user="me", secret="s:e:c")  # noqa: S106
TOKEN = Credential(identity_token="t")  # noqa: S106


def write(folder: Path, config: object) -> dict[str, str]:
    """Write a config.json and return the environment that names it."""
    (folder / "config.json").write_text(json.dumps(config))
    return {"DOCKER_CONFIG": str(folder)}


def encoded(user: str, secret: str) -> str:
    """Spell `auth` as docker does."""
    return base64.b64encode(f"{user}:{secret}".encode()).decode()


@pytest.mark.parametrize("key", [HOST, f"https://{HOST}", f"https://{HOST}/v1/", f"http://{HOST}/"])
def test_auths_are_found_by_host(tmp_path: Path, key: str) -> None:
    """In any spelling docker has used; the secret may hold colons."""
    found = find_credential(
        HOST, write(tmp_path, {"auths": {key: {"auth": encoded("me", "s:e:c")}}})
    )
    assert ME == found


def test_plain_fields_and_identity_tokens(tmp_path: Path) -> None:
    """`username`/`password` of other tools, `identitytoken` of OAuth2."""
    plain = {"auths": {HOST: {"username": "me", "password": "s:e:c"}}}
    assert ME == find_credential(HOST, write(tmp_path, plain))
    token = {"auths": {HOST: {"auth": encoded("me", ""), "identitytoken": "t"}}}
    expected = Credential(user="me", identity_token="t")  # noqa: S106
    assert expected == find_credential(HOST, write(tmp_path, token))


def test_docker_hub_has_its_own_key(tmp_path: Path) -> None:
    """docker.io logs in as index.docker.io/v1."""
    config = {"auths": {"https://index.docker.io/v1/": {"auth": encoded("me", "s:e:c")}}}
    assert ME == find_credential("docker.io", write(tmp_path, config))


def test_nobody_logged_in(tmp_path: Path) -> None:
    """No file, no entry, an empty entry: nobody."""
    assert find_credential(HOST, {"DOCKER_CONFIG": str(tmp_path)}) is None
    assert find_credential(HOST, {"HOME": str(tmp_path)}) is None
    assert find_credential(HOST, write(tmp_path, {"auths": {"other": {"auth": "eA=="}}})) is None
    assert find_credential(HOST, write(tmp_path, {"auths": {HOST: {}}})) is None
    assert find_credential(HOST, write(tmp_path, [])) is None


def test_a_damaged_config_is_told(tmp_path: Path) -> None:
    """With the file, and the key where one is known."""
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SpecError) as caught:
        find_credential(HOST, {"DOCKER_CONFIG": str(tmp_path)})
    assert str(tmp_path / "config.json") == caught.value.subject
    with pytest.raises(SpecError, match="base64") as caught:
        find_credential(HOST, write(tmp_path, {"auths": {HOST: {"auth": "?"}}}))
    assert caught.value.subject.endswith(f"auths.{HOST}")


def helper(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a credential helper called `test` on PATH."""
    path = folder / "docker-credential-test"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `get`, with the host on its input; `<token>` marks an identity token."""
    answer = '{"ServerURL":"x","Username":"me","Secret":"s:e:c"}'
    helper(
        tmp_path,
        f"""test "$1" = get && test "$(cat)" = {HOST} && echo '{answer}'""",
        monkeypatch,
    )
    assert ME == find_credential(HOST, write(tmp_path, {"credHelpers": {HOST: "test"}}))
    assert ME == find_credential(HOST, write(tmp_path, {"credsStore": "test"}))
    helper(tmp_path, """echo '{"Username":"<token>","Secret":"t"}'""", monkeypatch)
    found = find_credential(HOST, write(tmp_path, {"credsStore": "test"}))
    assert TOKEN == found


def test_a_helper_that_knows_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status 1 means so, and `auths` is still looked at."""
    helper(tmp_path, "echo credentials not found in native keychain; exit 1", monkeypatch)
    assert find_credential(HOST, write(tmp_path, {"credsStore": "test"})) is None
    both = {"credsStore": "test", "auths": {HOST: {"auth": encoded("me", "s:e:c")}}}
    assert ME == find_credential(HOST, write(tmp_path, both))


def test_a_missing_helper_is_told(tmp_path: Path) -> None:
    """By the name of the program that is not there."""
    with pytest.raises(ToolMissing, match="docker-credential-nowhere"):
        find_credential(HOST, write(tmp_path, {"credsStore": "nowhere"}))


def test_a_secret_is_not_shown() -> None:
    """Not in a traceback either."""
    assert "s:e:c" not in repr(ME)


def client(fake: FakeRegistry, credential: Callable[[], Credential | None]) -> Registry:
    """Open the fake one as somebody."""
    return Registry(HOST, credential=credential, transport=httpx.MockTransport(fake.handle))


def test_basic_is_answered_and_remembered() -> None:
    """Only when asked, then with every request."""
    fake = FakeRegistry(auth="basic", users={"me": "s:e:c"})
    fake.add("team/cpu", "candidate", small_image({}))
    with client(fake, lambda: ME) as registry:
        registry.manifest(REF)
        registry.manifest(REF)
    shown = ["Authorization" in request.headers for request in fake.requests]
    assert [False, True, True] == shown


def test_a_wrong_password_is_shown_once() -> None:
    """It does not get better by repeating, and may lock an account."""
    fake = FakeRegistry(auth="basic", users={"me": "other"})
    with client(fake, lambda: ME) as registry, pytest.raises(RegistryError) as caught:
        registry.manifest(REF)
    assert 2 == len(fake.requests)
    assert "docker login" in caught.value.action


def test_an_anonymous_token_is_fetched() -> None:
    """Public images are behind a token too."""
    fake = FakeRegistry(auth="bearer")
    fake.add("team/cpu", "candidate", small_image({}))
    with client(fake, lambda: None) as registry:
        registry.manifest(REF)
        registry.find_digest(REF)
    paths = [request.url.path for request in fake.requests]
    manifest = "/v2/team/cpu/manifests/candidate"
    assert [manifest, "/token", manifest, manifest] == paths
    assert {"service": "fake", "scope": "repository:x:pull"} == dict(fake.requests[1].url.params)


def test_a_token_is_fetched_with_a_password_or_a_refresh_token() -> None:
    """Basic to the token server, or OAuth2's POST."""
    fake = FakeRegistry(auth="bearer", users={"me": "s:e:c"})
    with client(fake, lambda: ME) as registry:
        registry.find_digest(REF)
    assert fake.requests[1].headers["Authorization"].startswith("Basic ")
    fake = FakeRegistry(auth="bearer", users={"me": "s:e:c"})
    with client(fake, lambda: TOKEN) as registry:
        registry.find_digest(REF)
    assert ("POST", True) == (
        fake.requests[1].method,
        b"refresh_token=t" in fake.requests[1].content,
    )


def test_a_token_server_that_refuses_is_told() -> None:
    """With its host and the way to log in."""
    fake = FakeRegistry(auth="bearer", users={"me": "other"})
    with client(fake, lambda: ME) as registry, pytest.raises(RegistryError) as caught:
        registry.find_digest(REF)
    assert f"the token server {HOST} answered HTTP 401" == caught.value.what


def test_no_password_in_the_clear() -> None:
    """A registry cannot send us to a token server without TLS."""
    challenge = {"WWW-Authenticate": 'Bearer realm="http://evil.example/token",service="x"'}
    fake = FakeRegistry(faults=[httpx.Response(401, headers=challenge)])
    with client(fake, lambda: ME) as registry, pytest.raises(RegistryError, match="not https"):
        registry.find_digest(REF)
    assert 1 == len(fake.requests)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], {"scheme": ""}),
        (['Basic realm="a b"'], {"scheme": "basic", "realm": "a b"}),
        (
            ['Bearer realm="https://x/t",service=y,scope="repository:a:pull,push"'],
            {
                "scheme": "bearer",
                "realm": "https://x/t",
                "service": "y",
                "scope": "repository:a:pull,push",
            },
        ),
        (["Basic realm=x", 'bearer realm="z"'], {"scheme": "bearer", "realm": "z"}),
        (["Negotiate"], {"scheme": ""}),
    ],
)
def test_challenges(headers: list[str], expected: dict[str, str]) -> None:
    """Quoted and bare values; a token is preferred to a password."""
    assert expected == parse_challenge(headers)
