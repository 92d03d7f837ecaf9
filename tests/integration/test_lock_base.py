"""`lock`, `lock --check`, `fetch`, `render` with a base that is an image; on loopback alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.commands import fetch, lock, render_base
from builder.core.lock import BaseLock, Lock, digest_of
from builder.core.manifest import OCI_INDEX
from builder.edge import base_image, debs, registry_connection
from builder.edge.store import Store
from builder.errors import BadInput, NetworkError, Outside, Refused, SpecError
from tests.support.base_images import LayeredImage, dist_info, layer, system
from tests.support.lockable import DEB
from tests.support.registry import FakeRegistry, served, small_index
from tests.support.small_lock import AMD64
from tests.support.tiny_lock import TinyLock, clean, tiny_lock

REPOSITORY = "base/debian"


@dataclass(frozen=True)
class Based:
    """The smallest project on a base from a registry in memory."""

    tiny: TinyLock
    fake: FakeRegistry
    host: str

    def spec(self, *lines: str, ref: str = "") -> None:
        """Write image.toml with `[base] image` and more lines of that table."""
        self.tiny.project.spec("vllm==0.32.0", "torch==2.13.0", torch="pytorch-cpu")
        path = self.tiny.project.root / "images/tiny/image.toml"
        base = [f'image = "{ref or self.ref}"', *lines]
        path.write_text(path.read_text().replace('debian = "bookworm"', "\n".join(base)))

    @property
    def ref(self) -> str:
        """The base by tag."""
        return f"{self.host}/{REPOSITORY}:trixie"

    def lock(self, **flags: bool) -> Lock:
        """Run `lock tiny`, which must go well."""
        outcome = lock.run(self.tiny.project.context, "tiny", **flags)  # type: ignore[arg-type]
        assert outcome.ok, outcome.findings
        return Lock.parse(self.tiny.project.lock_files(), "lock/tiny")

    def check(self) -> list[tuple[str, str]]:
        """Key and severity of what `lock tiny --check` finds."""
        outcome = lock.run(self.tiny.project.context, "tiny", check=True)
        assert outcome.ok == (not outcome.findings)
        return [(row.key, row.severity) for row in outcome.findings]

    def tag(self, image: LayeredImage, name: str = "trixie") -> None:
        """Let a tag name an image."""
        image.add_to(self.fake, REPOSITORY, name)


@pytest.fixture
def based(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Based]:
    """Yield it, with a base of glibc 2.36 and Python 3.11 under the tag."""
    clean(monkeypatch, tmp_path / "home")
    monkeypatch.setattr(registry_connection, "BACKOFF", 0.0)
    fake = FakeRegistry()
    with tiny_lock(tmp_path) as tiny, served(fake) as host:
        made = Based(tiny, fake, host)
        made.tag(LayeredImage([layer(system())]))
        made.spec()
        yield made


def test_a_base_is_locked_by_digest(based: Based) -> None:
    """The tag's digest, what was learnt from its layers, and no .debs."""
    made = based.lock()
    digest = LayeredImage([layer(system())]).digest
    assert BaseLock(image=based.ref, images={AMD64: digest}) == made.header.base
    assert ("3.11", "2.36") == (made.header.target.python, made.header.target.glibc)
    assert () == made.platforms[AMD64].debs
    assert [] == based.check()


def test_of_an_index_the_platform_is_locked(based: Based) -> None:
    """By the manifest's digest, not the index's; other platforms of it do not matter."""
    mine, other = LayeredImage([layer(system())]), LayeredImage([], architecture="arm64")
    mine.add_to(based.fake, REPOSITORY, "mine")
    index = small_index({AMD64: mine, "linux/arm64": other})  # type: ignore[dict-item]
    based.fake.put(REPOSITORY, "trixie", index, OCI_INDEX)
    assert {AMD64: mine.digest} == based.lock().header.base.images
    based.spec(ref=f"{based.host}/{REPOSITORY}@{digest_of(index)}")
    assert {AMD64: mine.digest} == based.lock().header.base.images
    assert [] == based.check()


def test_a_moved_tag_moves_the_lock_only_when_asked(based: Based) -> None:
    """As a locked version: kept without --upgrade, the same bytes, and `--check` says it."""
    old = based.lock()
    before = based.tiny.project.lock_files()
    new = LayeredImage([layer(system()), layer({"etc/new": "1"})])
    based.tag(new)
    assert [("base-tag-removed", "warning")] == based.check()
    based.fake.requests.clear()
    assert old == based.lock()
    assert before == based.tiny.project.lock_files()
    assert [] == based.fake.requests
    assert {AMD64: new.digest} == based.lock(upgrade=True).header.base.images
    assert [] == based.check()


def test_another_reference_is_locked_anew(based: Based) -> None:
    """Without --upgrade too: image.toml says so."""
    based.lock()
    new = LayeredImage([layer(system()), layer({"etc/new": "1"})])
    based.tag(new, "other")
    based.spec(ref=f"{based.host}/{REPOSITORY}:other")
    assert {AMD64: new.digest} == based.lock().header.base.images


def test_a_digest_beside_the_tag_wins(based: Based) -> None:
    """The tag is a comment then; `--check` says that it has moved on."""
    old = LayeredImage([layer(system())])
    based.spec(ref=f"{based.ref}@{old.digest}")
    based.lock()
    assert [] == based.check()
    based.tag(LayeredImage([layer(system()), layer({"etc/new": "1"})]))
    assert {AMD64: old.digest} == based.lock(upgrade=True).header.base.images
    assert [("base-tag-removed", "warning")] == based.check()


def test_base_tag_removed_before_the_lock(based: Based) -> None:
    """Refused early, with the key; and again when a locked base is gone and nothing has it."""
    based.lock()
    locked = based.tiny.project.lock_files()
    based.fake.manifests.clear()
    assert [("base-tag-removed", "error")] == based.check()
    with pytest.raises(BadInput, match="no such image") as refused:
        based.lock(upgrade=True)
    assert ["base-tag-removed"] == [row.key for row in refused.value.findings]
    based.tiny.project.cache = "another-cache"
    with pytest.raises(Refused, match="not in its registry any more") as gone:
        based.lock()
    assert ["base-tag-removed"] == [row.key for row in gone.value.findings]
    assert locked == based.tiny.project.lock_files()


def test_a_platform_that_the_base_lacks(based: Based) -> None:
    """Said with those it has; of a single manifest by its config."""
    based.tag(LayeredImage([layer(system())], architecture="arm64"))
    with pytest.raises(BadInput, match="not for linux/amd64") as single:
        based.lock()
    assert "it is for linux/arm64" in single.value.action
    arm = LayeredImage([layer(system())], architecture="arm64")
    index = small_index({"linux/arm64": arm})  # type: ignore[dict-item]
    based.fake.put(REPOSITORY, "trixie", index, OCI_INDEX)
    with pytest.raises(BadInput, match="not for linux/amd64"):
        based.lock()


def test_a_registry_that_is_down(based: Based) -> None:
    """Exit 4; a lock whose base was read before needs no registry."""
    based.lock()
    with served(FakeRegistry()) as host:
        pass
    based.spec(ref=f"{host}/{REPOSITORY}:trixie")
    with pytest.raises(NetworkError) as down:
        based.lock()
    assert 4 == down.value.exit_code


def test_flashinfer_trio_mismatch_in_the_base(based: Based) -> None:
    """A stale cubin that the base carries is refused, and nothing is written (C01)."""
    stale = {**system(), **dist_info("flashinfer-cubin", "0.6.13")}
    based.tag(LayeredImage([layer(stale)]))
    outcome = lock.run(based.tiny.project.context, "tiny")
    assert not outcome.ok
    found = [row for row in outcome.findings if row.key == "flashinfer-trio-mismatch"]
    assert ["flashinfer-cubin"] == [row.subject for row in found]
    assert "the base image, /usr/lib/python3/dist-packages" in found[0].evidence
    assert not based.tiny.project.lock.exists()
    cleaned = {"usr/lib/python3/dist-packages/.wh.flashinfer_cubin-0.6.13.dist-info": ""}
    based.tag(LayeredImage([layer(stale), layer(cleaned)]))
    based.lock()


def test_distribution_twice_in_the_base(based: Based) -> None:
    """Torch is refused; what need not match vLLM and is hidden from it is a warning."""
    based.tag(LayeredImage([layer({**system(), **dist_info("click", "7.0")})]))
    outcome = lock.run(based.tiny.project.context, "tiny")
    assert outcome.ok
    rows = [(row.key, row.severity, row.subject) for row in outcome.findings]
    assert [("distribution-twice", "warning", "click")] == rows
    based.tag(LayeredImage([layer({**system(), **dist_info("torch", "2.13.0")})]))
    outcome = lock.run(based.tiny.project.context, "tiny", upgrade=True)
    assert not outcome.ok
    rows = [(row.key, row.severity, row.subject) for row in outcome.findings]
    assert ("distribution-twice", "error", "torch") in rows


def test_version_check_bypassed_in_the_base(based: Based) -> None:
    """A variable of its config counts as one of ours."""
    config = {"Env": ["PATH=/usr/bin", "FLASHINFER_DISABLE_VERSION_CHECK=1"]}
    based.tag(LayeredImage([layer(system())], config=config))
    outcome = lock.run(based.tiny.project.context, "tiny")
    assert not outcome.ok
    assert ["version-check-bypassed"] == [row.key for row in outcome.findings]


@pytest.mark.parametrize(
    ("content", "config", "said"),
    [
        (system(python="3.13"), {}, "`python3` of the base is 3.13"),
        ({**system(), "usr/lib/x86_64-linux-gnu/libc.so.6": "musl"}, {}, "no glibc"),
        ({**system(), "opt/venv/bin/python": ""}, {}, "it holds /opt/venv already"),
        (system(), {"OnBuild": ["COPY . /app"]}, "ONBUILD"),
        (system(), {"Env": ["PYTHONPATH=/x"]}, "PYTHONPATH=/x"),
    ],
)
def test_bases_that_cannot_carry_the_image(
    based: Based, content: dict[str, str], config: dict[str, object], said: str
) -> None:
    """Each with the key of image.toml that has to change."""
    based.tag(LayeredImage([layer(content)], config=config))
    with pytest.raises(SpecError, match=re.escape(said)) as refused:
        based.lock()
    assert "images/tiny/image.toml" in refused.value.subject


def test_manylinux_floor_of_the_base(based: Based) -> None:
    """What fits follows from its glibc: an old one takes no wheel for a newer."""
    based.tag(LayeredImage([layer(system(glibc="2.17"))]))
    with pytest.raises(Refused, match=r"needs glibc 2\.28, the base of linux/amd64 has 2\.17"):
        based.lock()


def test_extra_packages_need_debian(based: Based) -> None:
    """They come from Debian's archive, by the base's own release."""
    content = {**system(), "usr/lib/os-release": "ID=ubuntu\nVERSION_CODENAME=noble\n"}
    based.tag(LayeredImage([layer(content)]))
    based.lock()
    based.spec('packages = ["tini"]')
    with pytest.raises(SpecError, match="ubuntu noble"):
        based.lock()


def test_extra_packages_are_resolved_against_its_status(
    based: Based, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base's own dpkg status and release go to apt; what comes back is locked."""
    seen: list[object] = []

    def resolve(*given: object) -> tuple[object, ...]:
        seen[:] = given[:4]
        return (DEB,)

    monkeypatch.setattr(debs, "resolve_onto", resolve)
    based.spec('packages = ["tini"]')
    made = based.lock()
    assert [system()["var/lib/dpkg/status"], "bookworm", ["tini"], AMD64] == seen
    assert (DEB,) == made.platforms[AMD64].debs
    assert {AMD64} == made.header.base.debs.keys()


def test_the_base_is_fetched_and_rendered_as_a_layout(based: Based, tmp_path: Path) -> None:
    """Every blob verified into the store, then one OCI layout with one manifest."""
    made = based.lock()
    based.tiny.project.cache = "empty-cache"
    (based.tiny.project.root / "images/tiny/Dockerfile.j2").write_text("{{ base_context }}")
    context = based.tiny.project.context
    digest = made.header.base.images[AMD64]
    store = Store(context.places.store)
    with pytest.raises(Outside, match="not in the store"):
        render_base.find_or_make_base(context, made, AMD64)
    result = fetch.run(context, "tiny").result
    assert 3 + 2 == result.files
    assert 2 == result.indexes["registry"]
    based.fake.requests.clear()
    assert 0 == fetch.run(context, "tiny").result.bytes_fetched
    assert [] == based.fake.requests
    base = render_base.find_or_make_base(context, made, AMD64)
    assert digest == base.digest
    index = json.loads(base.texts["base/index.json"])
    assert [digest] == [row["digest"] for row in index["manifests"]]
    image = base_image.find_stored(digest, store)
    assert image is not None
    names = {f"base/blobs/sha256/{path.name}" for path in base.links.values()}
    assert names == set(base.links)
    assert {digest, *(blob.digest for blob in image.blobs)} == {
        f"sha256:{path.name}" for path in base.links.values()
    }


def test_hash_mismatch_of_a_layer(based: Based) -> None:
    """A registry that serves other bytes under a digest gets nothing into the store."""
    image = LayeredImage([layer(system())])
    based.fake.blobs[digest_of(image.layers[0])] = b"x" * len(image.layers[0])
    with pytest.raises(Refused) as refused:
        based.lock()
    assert ["hash-mismatch"] == [row.key for row in refused.value.findings]
    assert (
        base_image.find_stored(image.digest, Store(based.tiny.project.context.places.store)) is None
    )
