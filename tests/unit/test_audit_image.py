"""`audit --image`: layers, labels, credentials, caches, drivers; in layouts and registries."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder.commands import audit
from builder.core.document import document
from builder.core.finding import Finding
from builder.core.lock import Lock
from builder.errors import BadInput, HashMismatch
from tests.support.audited import SITE, Audited, base, installed, others, vllm
from tests.support.elf import needing
from tests.support.layout import Entry, Link, Packing, write_layout
from tests.support.schemas import breaches
from tests.support.wheels import make_wheel

TOKEN = "hf_" + "A1b2" * 9
CHECKS: dict[str, tuple[Mapping[str, Entry], str]] = {
    "secret-in-layer": ({"root/.netrc": b"machine example login me password x"}, "passwords"),
    "leftover-cache": ({"root/.cache/pip/http/ab": b"x" * 9}, "an installer's cache, 9 bytes"),
    "cuda-compat-803": ({"usr/lib/x86_64-linux-gnu/libcuda.so.1": b"x"}, "looks there by itself"),
    "file-stray": ({"srv/notes.txt": b"hello"}, "no package lists it, 5 bytes; layer 3 of 4"),
    "object-unreadable": ({f"{SITE}/click/x.so": needing("libx.so")[:150]}, "at hand"),
    "file-edited": ({"usr/bin/python3": b"another"}, "layer 1 brought it, layer 3 replaced it"),
    "distribution-twice": (
        {f"{SITE}/torch-2.13.0.dist-info/METADATA": b"Name: torch\nVersion: 2.13.0\n"},
        "torch 2.13.0",
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Audited:
    """Make an empty project."""
    return Audited.at(tmp_path)


@pytest.fixture
def lock(project: Audited) -> Lock:
    """Lock a right set."""
    return project.lock([vllm(), *others()])


def findings(project: Audited, reference: str, **options: object) -> list[Finding]:
    """Audit an image."""
    outcome = audit.run(project.context, image=reference, **options)  # type: ignore[arg-type]
    return list(outcome.findings)


def of(rows: list[Finding], key: str) -> Finding:
    """Take the one finding with a key."""
    (row,) = [row for row in rows if row.key == key]
    return row


@pytest.mark.parametrize("key", CHECKS)
def test_what_a_later_layer_brings_is_found(key: str, project: Audited, lock: Lock) -> None:
    """Credentials, caches, a driver, strays, damage, a replaced program, a second torch."""
    later, says = CHECKS[key]
    wheels = installed([vllm(), *others()])
    row = of(findings(project, project.image(lock, wheels, later)), key)
    assert says in row.evidence


def test_leftover_cache_is_one_line_a_kind(project: Audited) -> None:
    """With the bytes of all; what a package itself ships is none."""
    later: dict[str, Entry] = {
        "root/.cache/pip/http/ab": b"x" * 9,
        "root/.cache/pip/http/cd": b"x" * 5,
        "var/lib/apt/lists/mirror_trixie_Packages": b"x" * 3,
    }
    wheels = [vllm(more={"vllm/.cache/pip/http/ab": b"x"}), *others()]
    lock = project.lock(wheels)
    rows = findings(project, project.image(lock, installed(wheels), later))
    found = [row for row in rows if row.key == "leftover-cache"]
    assert {
        "/root/.cache/pip/http/ab and 1 more": "an installer's cache, 14 bytes",
        "/var/lib/apt/lists/mirror_trixie_Packages": "apt's package lists, 3 bytes",
    } == {row.subject: row.evidence for row in found}
    assert {"warning"} == {row.severity for row in found}


def test_file_stray_many_of_a_folder_are_one_line(project: Audited, lock: Lock) -> None:
    """Counted with their bytes; a few have a line each, and the layer is named."""
    many: dict[str, Entry] = {f"srv/dump/{number}.pt": b"xy" for number in range(9)}
    few: dict[str, Entry] = {"srv/a.txt": b"hello", "srv/b.txt": Link("/srv/a.txt")}
    wheels = installed([vllm(), *others()])
    rows = findings(project, project.image(lock, wheels, {**many, **few}))
    assert {
        "/srv/dump": "no package lists 9 files in it, 18 bytes: 0.pt, 1.pt, 2.pt …; "
        "layer 3 of 4 brought it",
        "/srv/a.txt": "no package lists it, 5 bytes; layer 3 of 4 brought it",
        "/srv/b.txt": "no package lists it, a link to /srv/a.txt; layer 3 of 4 brought it",
    } == {row.subject: row.evidence for row in rows}
    assert {"file-stray"} == {row.key for row in rows}


def test_object_unreadable_is_a_warning(project: Audited) -> None:
    """A damaged table says nothing of what the file needs; the rest is judged all the same."""
    cut = {"vllm/cut.so": needing("libcudart.so.12")[:150]}
    wheels = [vllm(more=cut), *others()]
    (row,) = findings(project, project.image(project.lock(wheels), installed(wheels)))
    assert ("object-unreadable", "warning") == (row.key, row.severity)
    assert row.subject.endswith("vllm/cut.so")


def test_secret_in_layer_that_a_later_layer_deleted(project: Audited, lock: Lock) -> None:
    """Deleting does not remove it; the value is never printed."""
    wheels = installed([vllm(), *others()])
    reference = project.image(
        lock, {"tmp/build.env": f"HF_TOKEN={TOKEN}\n".encode()}, {"tmp/.wh.build.env": b""}, wheels
    )
    rows = findings(project, reference)
    row = of(rows, "secret-in-layer")
    assert ("/tmp/build.env", "error") == (row.subject, row.severity)  # noqa: S108
    assert "layer 2 of 5, hidden by a later one" in row.evidence
    assert [] == [one for one in rows if TOKEN in one.model_dump_json()]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"environment": [f"HF_TOKEN={TOKEN}"]}, "environment"),
        ({"labels": {"source": "https://me:hunter22@example.com/x"}}, "labels"),
        ({"history": [f"RUN |1 NPM_TOKEN={TOKEN} /bin/sh -c make"]}, "history"),
    ],
)
def test_secret_in_layer_is_also_one_in_the_config(
    options: dict[str, object], place: str, project: Audited, lock: Lock
) -> None:
    """Variables, labels, and the history of build arguments."""
    wheels = installed([vllm(), *others()])
    rows = findings(project, project.image(lock, wheels, **options))  # type: ignore[arg-type]
    found = [row for row in rows if row.key == "secret-in-layer"]
    assert found
    assert {f"the image's {place}"} == {row.subject for row in found}
    assert [] == [row for row in rows if TOKEN in row.evidence or "hunter22" in row.evidence]


@pytest.mark.parametrize(
    "text",
    [b"HF_TOKEN=\n", b"HF_TOKEN=$HF_TOKEN\n", b"API_KEY=None\n", b"see https://example.com:443/\n"],
)
def test_what_only_speaks_of_secrets_is_none(text: bytes, project: Audited, lock: Lock) -> None:
    """Names without values, references, ports."""
    wheels = installed([vllm(), *others()])
    rows = findings(project, project.image(lock, wheels, {"opt/nightlock/run.sh": text}))
    assert [] == rows


def test_published_files_are_not_searched_for_secrets(project: Audited) -> None:
    """A package's own test key is no secret of anybody here."""
    key = b"-----BEGIN RSA PRIVATE KEY-----\nx\n"
    wheels = [vllm(more={"vllm/tests/key.pem": key}), *others()]
    lock = project.lock(wheels)
    assert [] == findings(project, project.image(lock, installed(wheels)))


def test_layer_duplication_counts_exact_bytes(project: Audited, lock: Lock) -> None:
    """layer-duplication: the same files once more in a later layer, here two megabytes."""
    big = {"opt/nightlock/data": bytes(2 << 20)}
    wheels = installed([vllm(), *others()])
    outcome = audit.run(project.context, image=project.image(lock, big, wheels, big))
    row = of(list(outcome.findings), "layer-duplication")
    passwd = len(base()["etc/passwd"] or b"")  # type: ignore[arg-type]
    (one,) = outcome.result.audits
    assert (2 << 20) + passwd == one.hidden_bytes
    assert f"{one.hidden_bytes} of " in row.evidence
    assert f"layer 4 hides {2 << 20} of layer 2" in row.evidence
    assert [passwd, 2 << 20, 0, 0, 0] == [layer.hidden for layer in one.layers]
    assert ("warning", True) == (row.severity, outcome.ok)


@pytest.mark.parametrize(
    ("later", "environment", "severity"),
    [
        ({"usr/local/cuda/compat/libcuda.so.1": b"x"}, (), "warning"),
        (
            {
                "usr/local/cuda/compat/libcuda.so.1": b"x",
                "etc/ld.so.conf.d/compat.conf": b"/usr/local/cuda/compat\n",
            },
            (),
            "error",
        ),
        (
            {"usr/local/cuda/compat/libcuda.so.1": b"x"},
            ("LD_LIBRARY_PATH=/usr/local/cuda/compat:/x",),
            "error",
        ),
    ],
)
def test_cuda_compat_803_depends_on_the_loaders_path(
    later: Mapping[str, Entry],
    environment: tuple[str, ...],
    severity: str,
    project: Audited,
    lock: Lock,
) -> None:
    """A compat library that is only there, one that is configured, one that is in a variable."""
    wheels = installed([vllm(), *others()])
    rows = findings(project, project.image(lock, wheels, later, environment=environment))
    assert severity == of(rows, "cuda-compat-803").severity


def test_a_stub_is_no_compat_library(project: Audited, lock: Lock) -> None:
    """What compilers link against lies off the loader's path, as our builds lay it."""
    wheels = installed([vllm(), *others()])
    stub = {"usr/local/cuda/lib/stubs/libcuda.so.1": b"x"}
    assert [] == findings(project, project.image(lock, wheels, stub))


def test_not_locked_names_what_came_from_elsewhere(project: Audited, lock: Lock) -> None:
    """not-locked: a further package, one of another version, one that is gone."""
    rest = [wheel for wheel in others() if not wheel.file.startswith(("click", "ninja"))]
    more = [make_wheel("click", "8.2.0"), make_wheel("debugpy", "1.8.0")]
    rows = findings(project, project.image(lock, installed([vllm(), *rest, *more])))
    found = {row.subject: row.evidence for row in rows if row.key == "not-locked"}
    assert {"click", "debugpy", "ninja"} == set(found)
    assert "click 8.2.0" in found["click"]
    assert "the lock names click-8.1.8-py3-none-any.whl" in found["click"]
    assert "does not name it" in found["debugpy"]
    assert "it is not there" in found["ninja"]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"org.nightlock.vllm.version": "0.32.0"}, "vllm 0.32.0, 0.33.0 is installed"),
        ({"org.nightlock.companions": '{"torch":"2.13.0"}'}, "torch 2.13.0, 2.14.0 is installed"),
        ({"org.nightlock.lock.digest": "sha256:" + "0" * 64}, "the label says lock sha256:0000"),
    ],
)
def test_tag_vs_content(labels: dict[str, str], says: str, project: Audited, lock: Lock) -> None:
    """tag-vs-content: labels that say something else than what is inside."""
    wheels = installed([vllm(), *others()])
    rows = findings(project, project.image(lock, wheels, labels=labels))
    assert says in of(rows, "tag-vs-content").evidence


def test_tag_vs_content_between_vllms_two_versions(project: Audited) -> None:
    """`/version` and `vllm --version` would answer differently."""
    version = "__version__ = version = '0.32.1'\n__commit_id__ = commit_id = 'g4ba787ec9'\n"
    wheels = [vllm(more={"vllm/_version.py": version.encode()}), *others()]
    lock = project.lock(wheels)
    row = of(findings(project, project.image(lock, installed(wheels))), "tag-vs-content")
    assert "METADATA says 0.33.0, vllm/_version.py says 0.32.1" in row.evidence


ACCEPT = """
[[rule]]
images = ["*"]
tags = ["stable"]
receipts = ["cpu"]
[[accept]]
key = "file-stray"
subject = "/srv/*"
reason = "notes for the operators"
until = {until}
"""


@pytest.mark.parametrize(("until", "keys"), [("2999-12-31", []), ("2020-01-01", None)])
def test_acceptance_expired_alarms(
    until: str, keys: list[str] | None, project: Audited, lock: Lock
) -> None:
    """acceptance-expired: excused until its day and shown as such, then louder than before."""
    (project.root / "images/policy.toml").write_text(ACCEPT.format(until=until))
    wheels = installed([vllm(), *others()])
    outcome = audit.run(
        project.context, image=project.image(lock, wheels, {"srv/notes.txt": b"hello"})
    )
    (one,) = outcome.result.audits
    assert (keys is not None) == outcome.ok
    if keys is not None:
        assert keys == [row.key for row in outcome.findings]
        assert ["/srv/notes.txt"] == [row.finding.subject for row in one.accepted]
        assert "accepted until 2999-12-31: file-stray: /srv/notes.txt" in outcome.text
    else:
        assert ["acceptance-expired", "file-stray"] == [row.key for row in outcome.findings]
        assert "notes for the operators" in outcome.findings[0].evidence


def test_an_image_of_somebody_else(project: Audited) -> None:
    """No label, no lock: what it holds says what it is for; a named GPU is judged."""
    reference = write_layout(project.root / "other", [base(), installed([vllm(), *others()])])
    outcome = audit.run(project.context, image=reference, targets=("sm_75",))
    (one,) = outcome.result.audits
    assert ("3.13", "2.41", "13.0") == (one.python, one.glibc, one.cuda)
    assert [
        ("fp4-kernels-not-built", "vllm: vllm/_C_stable_libtorch.abi3.so"),
        ("fp4-kernels-not-built", "vllm: vllm/_flashmla_C.abi3.so"),
    ] == [(row.key, row.subject) for row in outcome.findings]


@pytest.mark.parametrize("packing", ["tar", "gzip", "zstd"])
def test_layers_of_any_kind(packing: Packing, project: Audited, lock: Lock) -> None:
    """Plain, gzip and zstd give the same answer."""
    wheels = installed([vllm(), *others()])
    assert [] == findings(project, project.image(lock, wheels, packing=packing))


def test_a_damaged_blob_is_told(project: Audited, lock: Lock) -> None:
    """Bytes that are not what the digest says are no image."""
    reference = project.image(lock, installed([vllm(), *others()]), packing="tar")
    blobs = project.root / "image/blobs/sha256"
    largest = max(blobs.iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[600] ^= 1
    largest.write_bytes(data)
    with pytest.raises(HashMismatch):
        audit.run(project.context, image=reference)


def test_a_layout_with_two_names(project: Audited) -> None:
    """The name decides; without it the choice is told."""
    folder = project.root / "two"
    write_layout(folder, [base()], name="one")
    first = json.loads((folder / "index.json").read_text())
    write_layout(folder, [base(), {"x": b"y"}], name="two")
    second = json.loads((folder / "index.json").read_text())
    second["manifests"] += first["manifests"]
    (folder / "index.json").write_text(json.dumps(second))
    (one,) = audit.run(project.context, image=f"oci:{folder}:one").result.audits
    (two,) = audit.run(project.context, image=f"oci:{folder}:two").result.audits
    assert (1, 2) == (len(one.layers), len(two.layers))
    with pytest.raises(BadInput, match="2 images"):
        audit.run(project.context, image=str(folder))


def test_the_document_fits_its_schema(project: Audited, lock: Lock) -> None:
    """`--json` is what builder/schemas/audit.json says."""
    reference = project.image(lock, installed([vllm(), *others()]), {"root/.netrc": b"x" * 9})
    outcome = audit.run(project.context, image=reference)
    whole = document("audit", result=outcome.result, ok=outcome.ok, findings=outcome.findings)
    assert [] == breaches("audit", json.loads(json.dumps(whole)))
    assert io.StringIO(outcome.text).readline().startswith("image oci:")
