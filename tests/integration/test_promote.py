"""promote against Debian's registry, and against one that alters what it is given."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builder.commands import promote
from builder.commands.context import Context
from builder.core.manifest import OCI_INDEX
from builder.core.reference import ImageRef
from builder.core.smoke import SmokeReport, receipt_of
from builder.edge import journal, records
from builder.edge.engine import Engine
from builder.edge.receipts import attach_receipt
from builder.edge.registry import Registry
from builder.errors import BadInput, Refused
from tests.support.registry import (
    FakeRegistry,
    push,
    put_manifest,
    served,
    small_image,
    small_index,
)
from tests.support.report import BUILD, LOCK, check_result, make_report
from tests.support.smoke_project import smoke_context

pytestmark = pytest.mark.docker

LABELS = {
    "org.nightlock.image": "cpu",
    "org.nightlock.lock.digest": LOCK,
    "org.nightlock.build.id": BUILD,
}
OLD = small_image(LABELS | {"night": "yesterday"})
NEW = small_image(LABELS | {"night": "today"})
IMMUTABLE = "0.32.0-cpu-" + "2" * 12


@pytest.fixture
def context(engine: Engine, tmp_path: Path) -> Context:
    """Make a project with the real policy and no records."""
    return smoke_context(tmp_path, engine)


@pytest.fixture
def ref(engine: Engine) -> Iterator[ImageRef]:
    """Yield a new image under its immutable tag, beside yesterday's under `nightly`."""
    name = f"nightlock-test/{uuid.uuid4().hex[:12]}"
    push(engine.registry, name, "nightly", OLD)
    push(engine.registry, name, IMMUTABLE, NEW)
    made = ImageRef.parse(f"{engine.registry}/{name}:{IMMUTABLE}")
    yield made
    with Registry.open(made.registry, os.environ) as registry:
        for digest in {registry.find_digest(made.with_tag(tag)) for tag in registry.tags(made)}:
            if digest:
                registry.delete(made, digest)


def prove(context: Context, report: SmokeReport, run: str = "1") -> None:
    """Keep a report and its receipt."""
    folder = records.smoke_folder(context.places, report.digest, run)
    records.write_report(folder, report, {})


def digests(ref: ImageRef, *tags: str) -> list[str]:
    """Read what tags name now."""
    with Registry.open(ref.registry, os.environ) as registry:
        return [registry.find_digest(ref.with_tag(tag)) for tag in tags]


def test_a_proven_digest_is_promoted(context: Context, ref: ImageRef) -> None:
    """The same bytes stand under every tag; the second time nothing changes."""
    prove(context, make_report(digest=NEW.digest))
    result = promote.run(context, str(ref), ("nightly", "stable")).result
    assert [
        ("nightly", OLD.digest, NEW.digest, "moved"),
        ("stable", "", NEW.digest, "created"),
    ] == [(move.tag, move.old, move.new, move.change) for move in result.tags]
    assert [NEW.digest, NEW.digest] == digests(ref, "nightly", "stable")
    with Registry.open(ref.registry, os.environ) as registry:
        assert NEW.manifest == registry.manifest(ref.with_tag("nightly")).data
    again = promote.run(context, str(ref), ("nightly", "stable", "nightly")).result
    assert ["unchanged", "unchanged"] == [move.change for move in again.tags]
    lines = (context.places.state / "records" / "promotions.ndjson").read_text().splitlines()
    assert [("nightly", OLD.digest), ("stable", "")] == [
        (row["tag"], row["old"]) for row in map(json.loads, lines)
    ]


def test_a_digest_is_promoted_as_well_as_a_tag(context: Context, ref: ImageRef) -> None:
    """The tag of a reference is only a name."""
    prove(context, make_report(digest=NEW.digest))
    promote.run(context, f"{ref.name}@{NEW.digest}", ("nightly",))
    assert [NEW.digest] == digests(ref, "nightly")


def test_a_dry_run_moves_nothing(context: Context, ref: ImageRef) -> None:
    """And says what would move."""
    prove(context, make_report(digest=NEW.digest))
    outcome = promote.run(context, str(ref), ("nightly",), dry_run=True)
    assert "would be moved" in outcome.text
    assert [OLD.digest] == digests(ref, "nightly")
    assert not (context.places.state / "records" / "promotions.ndjson").exists()


def test_every_unmet_condition_is_told_and_nothing_moves(context: Context, ref: ImageRef) -> None:
    """No receipt, a tag no rule knows, an immutable tag of other content."""
    push(ref.registry, ref.repository, "other-" + "2" * 12, OLD)
    with pytest.raises(Refused) as caught:
        promote.run(context, str(ref), ("nightly", "nigthly", "other-" + "2" * 12))
    for part in ("no cpu receipt", "no tag 'nigthly'", f"names {OLD.digest} already"):
        assert part in caught.value.what
    assert "nightlock smoke" in caught.value.action
    assert [OLD.digest, "", OLD.digest] == digests(ref, "nightly", "nigthly", "other-" + "2" * 12)


def test_a_failed_smoke_stops_it(context: Context, ref: ImageRef) -> None:
    """The newest record of this digest decides."""
    prove(context, make_report(digest=NEW.digest), "1")
    prove(context, make_report(check_result("a", "fail"), digest=NEW.digest), "2")
    with pytest.raises(Refused, match="says fail"):
        promote.run(context, str(ref), ("nightly",))
    assert [OLD.digest] == digests(ref, "nightly")


def attach(context: Context, ref: ImageRef, report: SmokeReport) -> None:
    """Attach the receipt of a report, as a smoke on another host does."""
    with Registry.open(ref.registry, os.environ) as registry:
        image = registry.manifest(ref.with_digest(report.digest))
        receipt = receipt_of(report)
        attach_receipt(registry, ref, image, receipt, context.places, context.output.note)


def test_a_receipt_of_another_host_counts(context: Context, ref: ImageRef) -> None:
    """Nothing of it lies here; the image has it beside it."""
    with pytest.raises(Refused, match="no cpu receipt"):
        promote.run(context, str(ref), ("nightly",))
    attach(context, ref, make_report(digest=NEW.digest))
    promote.run(context, str(ref), ("nightly",))
    assert [NEW.digest] == digests(ref, "nightly")


def test_a_later_fail_elsewhere_takes_a_pass_back(context: Context, ref: ImageRef) -> None:
    """Whichever host said it, the newest decides."""
    prove(context, make_report(digest=NEW.digest))
    late = make_report(check_result("a", "fail"), digest=NEW.digest)
    attach(context, ref, late.model_copy(update={"finished": "2026-11-30T18:00:00Z"}))
    with pytest.raises(Refused, match="says fail"):
        promote.run(context, str(ref), ("nightly",))
    assert [OLD.digest] == digests(ref, "nightly")


def test_a_receipt_for_another_lock_stops_it(context: Context, ref: ImageRef) -> None:
    """The chain of digests is checked again."""
    prove(context, make_report(digest=NEW.digest, lock="sha256:" + "9" * 64))
    with pytest.raises(Refused, match="receipt is for lock"):
        promote.run(context, str(ref), ("nightly",))


def test_an_index_is_promoted_as_it_is(context: Context, ref: ImageRef) -> None:
    """C68: neither unwrapped nor wrapped once more."""
    data = small_index({"linux/amd64": NEW})
    put_manifest(ref.registry, ref.repository, "index", data, OCI_INDEX)
    (digest,) = digests(ref, "index")
    prove(context, make_report(digest=digest))
    promote.run(context, str(ref.with_tag("index")), ("nightly",))
    with Registry.open(ref.registry, os.environ) as registry:
        found = registry.manifest(ref.with_tag("nightly"))
    assert (data, OCI_INDEX, digest) == (found.data, found.media_type, found.digest)


def test_two_at_once_do_not_mix(context: Context, ref: ImageRef) -> None:
    """One waits for the other; both tags end at one of the two digests."""
    prove(context, make_report(digest=NEW.digest))
    prove(context, make_report(digest=OLD.digest))
    sources = [str(ref), f"{ref.name}@{OLD.digest}"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda s: promote.run(context, s, ("candidate", "stable")), sources))
    assert digests(ref, "candidate") == digests(ref, "stable")


def test_an_unknown_image_or_a_bad_tag_is_bad_input(context: Context, ref: ImageRef) -> None:
    """Before anything moves."""
    with pytest.raises(BadInput, match="no such image"):
        promote.run(context, str(ref.with_tag("missing")), ("nightly",))
    with pytest.raises(BadInput, match="not a tag"):
        promote.run(context, str(ref), ("nightly", "not/a/tag"))
    assert [OLD.digest] == digests(ref, "nightly")


def test_promotion_changes_digest(context: Context) -> None:
    """C68: what rewrites manifests is noticed by reading back, and the tag gets its old bytes."""
    fake = FakeRegistry(drop_headers=True)
    fake.add("x", "nightly", OLD)
    fake.add("x", "new", NEW)
    prove(context, make_report(digest=NEW.digest))

    def rewrite(data: bytes) -> bytes:
        return data if data == OLD.manifest else data + b"\n"

    with served(fake, rewrite) as host, pytest.raises(Refused) as caught:
        promote.run(context, f"{host}/x:new", ("nightly",))
    assert ["promotion-changes-digest"] == [finding.key for finding in caught.value.findings]
    assert OLD.manifest == fake.manifests["x", "nightly"][0]
    assert not (context.places.state / "records" / "promotions.ndjson").exists()


def test_a_killed_promotion_is_recorded_by_the_next(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the put: the next run of this repository writes the missing line, once."""
    fake = FakeRegistry()
    fake.add("x", "nightly", OLD)
    fake.add("x", "new", NEW)
    prove(context, make_report(digest=NEW.digest))
    record = context.places.state / "records" / "promotions.ndjson"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with served(fake) as host:
        with monkeypatch.context() as patch:
            patch.setattr(journal, "finish", killed)
            with pytest.raises(KeyboardInterrupt):
                promote.run(context, f"{host}/x:new", ("nightly",))
        assert (NEW.manifest, False) == (fake.manifests["x", "nightly"][0], record.exists())
        promote.run(context, f"{host}/x:new", ("nightly",), dry_run=True)
        assert not record.exists()
        for _ in range(2):
            result = promote.run(context, f"{host}/x:new", ("nightly",)).result
            assert ["unchanged"] == [move.change for move in result.tags]
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(OLD.digest, NEW.digest)] == [(row["old"], row["new"]) for row in rows]


def test_a_promotion_killed_before_its_put_is_not_recorded(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag did not move; the next run moves it and writes one line."""
    fake = FakeRegistry()
    fake.add("x", "nightly", OLD)
    fake.add("x", "new", NEW)
    prove(context, make_report(digest=NEW.digest))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with served(fake) as host:
        with monkeypatch.context() as patch:
            patch.setattr(Registry, "put_manifest", killed)
            with pytest.raises(KeyboardInterrupt):
                promote.run(context, f"{host}/x:new", ("nightly",))
        result = promote.run(context, f"{host}/x:new", ("nightly",)).result
    assert ["moved"] == [move.change for move in result.tags]
    record = context.places.state / "records" / "promotions.ndjson"
    assert 1 == len(record.read_text().splitlines())
