"""Signatures by a key pair: made by cosign, checked by the very line that the README gives."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from builder.commands.context import Context
from builder.commands.signer import Signer, open_signer
from builder.commands.smoke_receipt import Post
from builder.core.artifact import signature_tag
from builder.core.candidate import Candidate
from builder.core.reference import ImageRef
from builder.core.settings import Settings, SigningSettings
from builder.edge import cosign
from builder.edge.engine import Engine
from builder.edge.registry import Registry
from builder.errors import BadInput, CommandFailed
from tests.support.engine_client import forget
from tests.support.registry import push, small_image
from tests.support.report import BUILD, LOCK, make_report

pytestmark = [pytest.mark.docker, pytest.mark.network]

ROOT = Path(__file__).parents[2]
SECRET = "a secret of this test"  # noqa: S105 - protects a key that is deleted with the test
IMAGE = small_image({"night": "today"})
OTHER = small_image({"night": "yesterday"})


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Two key pairs, and who makes and checks with them."""

    program: Path
    folder: Path

    def private(self, name: str) -> str:
        """Return the file of a private key."""
        return str(self.folder / name / "cosign.key")

    def verify(self, name: str, reference: str) -> subprocess.CompletedProcess[str]:
        """Run the README's own line with this key on this reference."""
        lines = (ROOT / "README.md").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("cosign verify "))
        words = line.replace("cosign.pub", str(self.folder / name / "cosign.pub")).split()
        assert words[-1].startswith("registry.example/team/cpu@sha256:")
        return subprocess.run(
            [self.program, *words[1:-1], reference],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture(scope="module")
def keys(engine_context: Context, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Make two pairs with one password."""
    tools = engine_context.places.cache / "tools"
    program = cosign.find_cosign(tools)
    if program is None:
        program = cosign.unpack_cosign(tools, engine_context.settings.debian)
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        (folder / name).mkdir()
        subprocess.run(
            [program, "generate-key-pair"],
            cwd=folder / name,
            env={**os.environ, "COSIGN_PASSWORD": SECRET},
            check=True,
            capture_output=True,
            timeout=120,
        )
    return Keys(program=program, folder=folder)


@pytest.fixture
def ref(engine: Engine) -> Iterator[ImageRef]:
    """Yield an image that nobody has signed."""
    name = f"nightlock-test/{uuid.uuid4().hex[:12]}"
    push(engine.registry, name, "new", IMAGE)
    push(engine.registry, name, "old", OTHER)
    made = ImageRef.parse(f"{engine.registry}/{name}").with_digest(IMAGE.digest)
    yield made
    forget(engine, made)


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say it as a person does: by the environment."""
    monkeypatch.setenv("COSIGN_PASSWORD", SECRET)


def signer(context: Context, keys: Keys, name: str = "ours") -> Signer:
    """Open a signer by its option."""
    made = open_signer(context, keys.private(name))
    assert made is not None
    return made


@pytest.mark.usefixtures("password")
def test_a_signed_digest_is_verified_by_its_key_alone(
    engine_context: Context, keys: Keys, ref: ImageRef
) -> None:
    """Before: no. After: yes by our key, no by another; the image is what it was."""
    assert 0 != keys.verify("ours", ref.pinned).returncode
    signer(engine_context, keys).sign([ref.pinned])
    said = keys.verify("ours", ref.pinned)
    assert (0, True) == (said.returncode, IMAGE.digest in said.stdout)
    refused = keys.verify("theirs", ref.pinned)
    assert (True, True) == (refused.returncode != 0, "no matching signatures" in refused.stderr)
    with Registry.open(ref.registry, os.environ) as registry:
        assert IMAGE.digest == registry.find_digest(ref.with_tag("new"))


@pytest.mark.usefixtures("password")
def test_a_signature_of_another_image_does_not_count(
    engine_context: Context, keys: Keys, ref: ImageRef
) -> None:
    """Put under another digest's tag, it still names the digest it was made for."""
    signer(engine_context, keys).sign([ref.pinned])
    with Registry.open(ref.registry, os.environ) as registry:
        signature = registry.manifest(ref.with_tag(signature_tag(IMAGE.digest)))
        registry.put_manifest(ref.with_tag(signature_tag(OTHER.digest)), signature)
    said = keys.verify("ours", f"{ref.name}@{OTHER.digest}")
    assert 0 != said.returncode
    assert OTHER.digest not in said.stdout


@pytest.mark.usefixtures("password")
def test_signing_again_adds_nothing(engine_context: Context, keys: Keys, ref: ImageRef) -> None:
    """Each signature differs, so one more would grow the list with each build; two keys are two."""
    ours = signer(engine_context, keys)
    ours.sign([ref.pinned])
    ours.sign([ref.pinned])
    tag = ref.with_tag(signature_tag(IMAGE.digest))
    with Registry.open(ref.registry, os.environ) as registry:
        assert 1 == len(registry.manifest(tag).body.layers)
        signer(engine_context, keys, "theirs").sign([ref.pinned])
        assert 2 == len(registry.manifest(tag).body.layers)


@pytest.mark.usefixtures("password")
def test_the_setting_names_a_key_below_the_project(
    engine_context: Context, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the option; without either nobody signs."""
    own = replace(
        engine_context,
        project=keys.folder,
        settings=Settings(signing=SigningSettings(key="theirs/cosign.key")),
    )
    made = open_signer(own)
    assert made is not None
    assert (keys.folder / "theirs/cosign.pub").read_text() == made.public
    assert open_signer(replace(own, settings=Settings())) is None


@pytest.mark.usefixtures("password")
def test_a_receipt_is_signed_by_its_own_digest(
    engine_context: Context, keys: Keys, ref: ImageRef
) -> None:
    """Who smokes signs what was proven; the image itself is not signed by that."""
    candidate = Candidate(
        ref=ref,
        platform="linux/amd64",
        image="cpu",
        lock=LOCK,
        build=BUILD,
        vllm="0.32.0",
        targets=("cpu",),
    )
    post = Post(context=engine_context, candidate=candidate, signer=signer(engine_context, keys))
    post.take(make_report(digest=IMAGE.digest))
    (digest,) = post.digests
    assert 0 == keys.verify("ours", f"{ref.name}@{digest}").returncode
    assert 0 != keys.verify("ours", ref.pinned).returncode


def test_a_key_that_cannot_be_used_is_bad_input(
    engine_context: Context, keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Absent, without password, with a wrong one, no key at all; no message holds the password."""
    monkeypatch.delenv("COSIGN_PASSWORD", raising=False)
    with pytest.raises(BadInput, match="COSIGN_PASSWORD is not set"):
        signer(engine_context, keys)
    monkeypatch.setenv("COSIGN_PASSWORD", "not-the-one")
    with pytest.raises(BadInput, match="decryption failed") as caught:
        signer(engine_context, keys)
    assert "not-the-one" not in str(caught.value)
    with pytest.raises(BadInput, match="no such signing key"):
        open_signer(engine_context, str(tmp_path / "nothing"))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(BadInput, match="cannot be used"):
        open_signer(engine_context, str(tmp_path / "text"))


@pytest.mark.usefixtures("password")
def test_what_is_not_there_cannot_be_signed(engine_context: Context, keys: Keys) -> None:
    """A registry that is down: cosign's own words, and what to do."""
    digest = "sha256:" + "0" * 64
    with pytest.raises(CommandFailed, match="connection refused") as caught:
        signer(engine_context, keys).sign([f"127.0.0.1:9/nobody@{digest}"])
    assert "docker login" in caught.value.action
    assert SECRET not in str(caught.value)
