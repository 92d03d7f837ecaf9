"""Image references: the distribution grammar, Docker's defaults, round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.core.reference import ImageRef, build_of, is_loopback, parse_digest
from builder.errors import BadInput

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("debian", ("docker.io", "library/debian", "", "")),
        ("vllm/vllm-openai:nightly", ("docker.io", "vllm/vllm-openai", "nightly", "")),
        ("index.docker.io/library/debian", ("docker.io", "library/debian", "", "")),
        ("localhost/x", ("localhost", "x", "", "")),
        ("localhost:5000/nightlock/cpu:a-b", ("localhost:5000", "nightlock/cpu", "a-b", "")),
        (f"ghcr.io/o/r@{DIGEST}", ("ghcr.io", "o/r", "", DIGEST)),
        (f"ghcr.io/o/r:v1@{DIGEST}", ("ghcr.io", "o/r", "v1", DIGEST)),
        ("[::1]:5000/x:y", ("[::1]:5000", "x", "y", "")),
        ("Host/x", ("Host", "x", "", "")),
        ("a__b/c.d-e--f", ("docker.io", "a__b/c.d-e--f", "", "")),
    ],
)
def test_parts_of_a_reference(text: str, expected: tuple[str, str, str, str]) -> None:
    """Each part lands where distribution's own parser puts it."""
    ref = ImageRef.parse(text)
    assert expected == (ref.registry, ref.repository, ref.tag, ref.digest)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "repository"),
        ("UPPER", "repository"),
        ("a//b", "repository"),
        ("a/b_-c", "repository"),
        ("x:", "tag"),
        ("x:-a", "tag"),
        ("x:" + "a" * 129, "tag"),
        ("x@sha256:abc", "digest"),
        ("x@sha512:" + "0" * 128, "digest"),
        ("x@", "digest"),
        ("http://x/y", "registry"),
        ("-.x/y", "registry"),
        ("x.y:port/z", "registry"),
        ("localhost/" + "a" * 250, "bytes"),
    ],
)
def test_a_bad_reference_names_the_part(text: str, part: str) -> None:
    """The error says which part does not fit, and quotes the whole."""
    with pytest.raises(BadInput, match=part) as caught:
        ImageRef.parse(text)
    assert caught.value.action


alnum = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
component = st.builds(
    "".join, st.tuples(alnum, st.sampled_from(["", ".", "_", "__", "-", "---"]), alnum)
)
registries = st.sampled_from(
    ["docker.io", "localhost", "localhost:5000", "ghcr.io", "127.0.0.1:1", "[::1]:5000", "a.b-c.d"]
)
tags = st.builds(str.__add__, st.sampled_from("aZ0_"), st.text("azAZ09_.-", max_size=127))
digests = st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}")
references = st.builds(
    lambda registry, parts, tag, digest: ImageRef(
        registry=registry,
        repository="/".join(["library", *parts] if len(parts) == 1 else parts),
        tag=tag,
        digest=digest,
    ),
    registries,
    st.lists(component, min_size=1, max_size=3),
    st.just("") | tags,
    st.just("") | digests,
)


@given(references)
def test_spelling_and_parsing_are_inverse(ref: ImageRef) -> None:
    """What is spelled is read back as the same reference."""
    assert ref == ImageRef.parse(str(ref))


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_bad_input(text: str) -> None:
    """No text makes the parser fail in another way, and what passes is stable."""
    try:
        ref = ImageRef.parse(text)
    except BadInput:
        return
    assert ref == ImageRef.parse(str(ref))


def test_tag_and_digest_are_replaced() -> None:
    """Another tag drops the digest; pinning keeps the tag."""
    ref = ImageRef.parse(f"localhost:5000/x:a@{DIGEST}")
    assert "localhost:5000/x:b" == str(ref.with_tag("b"))
    other = "sha256:" + "f" * 64
    assert f"localhost:5000/x:a@{other}" == str(ref.with_digest(other))
    assert f"localhost:5000/x@{DIGEST}" == ref.pinned
    with pytest.raises(BadInput):
        ref.with_tag("no/slash")


def test_what_a_registry_is_asked_for() -> None:
    """The digest wins over the tag; nothing means `latest`."""
    assert DIGEST == ImageRef.parse(f"x:a@{DIGEST}").target
    assert "a" == ImageRef.parse("x:a").target
    assert "latest" == ImageRef.parse("x").target


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.8.8.8", True),
        ("[::1]:5000", True),
        ("[::1]", True),
        ("docker.io", False),
        ("10.0.0.1:5000", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_told_by_the_host(registry: str, expected: bool) -> None:
    """Plain HTTP is for this machine alone."""
    assert expected == is_loopback(registry)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("0.32.0-cpu-0123456789ab", "0123456789ab"),
        ("nightly", ""),
        ("nightly-0123456789AB", ""),
        ("0123456789ab", ""),
        ("0.32.0-cpu-0123456789abc", ""),
    ],
)
def test_an_immutable_tag_ends_in_its_build_id(tag: str, expected: str) -> None:
    """Twelve hex digits after a dash, nothing else."""
    assert expected == build_of(tag)


def test_a_digest_is_sha256_alone() -> None:
    """Other algorithms and upper case are refused."""
    assert DIGEST == parse_digest(DIGEST)
    for bad in ("sha256:" + "A" * 64, "sha256:" + "0" * 63, "0" * 64, "md5:" + "0" * 32):
        with pytest.raises(BadInput):
            parse_digest(bad)


@pytest.mark.parametrize(
    "host", ["localhost:0", "r.example:65536", "[::1]:99999", "x.y:" + "9" * 99]
)
def test_a_port_that_cannot_exist_is_bad_input(host: str) -> None:
    """Before anything is asked."""
    with pytest.raises(BadInput, match="not a port"):
        ImageRef.parse(f"{host}/x:y")
    assert "r.example:65535" == ImageRef.parse("r.example:65535/x").registry


def test_an_address_that_cannot_exist_is_bad_input() -> None:
    """Colons and hex digits alone make no IPv6 address."""
    with pytest.raises(BadInput, match="not an IPv6 address"):
        ImageRef.parse("[:::]:5000/x")


def test_no_password_is_quoted() -> None:
    """Somebody pastes an address with user and password."""
    for text in ("me:hunter2@r.example/x:y", "https://me:hunter2@r.example/x", "me:a@hunter2@r/x"):
        with pytest.raises(BadInput) as caught:
            ImageRef.parse(text)
        assert "hunter2" not in str(caught.value)
