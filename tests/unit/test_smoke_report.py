"""Reports, receipts, JUnit files, and the folder they are kept in."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from builder.core.places import Places
from builder.core.receipt import Receipt
from builder.core.ruling import Status
from builder.core.smoke import SmokeReport, findings_of, junit, overall, receipt_of
from builder.edge import records
from tests.support.report import BUILD, DIGEST, LOCK, check_result, make_report


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["pass"], "pass"),
        (["pass", "skip"], "pass"),
        (["skip"], "inconclusive"),
        (["pass", "inconclusive"], "inconclusive"),
        (["pass", "inconclusive", "fail"], "fail"),
        ([], "inconclusive"),
    ],
)
def test_only_what_was_proven_passes(states: list[Status], expected: str) -> None:
    """A fail fails; nothing proven is not a pass."""
    assert expected == overall(check_result(f"c{n}", state) for n, state in enumerate(states))


def test_findings_come_from_what_did_not_pass() -> None:
    """A fail is an error, all else a warning; a pass is none."""
    found = findings_of(
        [
            check_result("a", "fail", "garbage-output"),
            check_result("b", "inconclusive", "content-null"),
            check_result("c", "pass"),
            check_result("d", "skip", "tool-calls"),
        ],
        "image",
    )
    rows = [(f.key, f.severity, f.subject) for f in found]
    assert [
        ("garbage-output", "error", "image, check a"),
        ("content-null", "warning", "image, check b"),
        ("tool-calls", "warning", "image, check d"),
    ] == rows
    assert all(f.cause and f.action and f.evidence for f in found)


def test_a_report_is_read_back() -> None:
    """The file says its schema, and nothing is lost."""
    report = make_report()
    text = report.text()
    assert "nightlock/smoke-report/1" == json.loads(text)["schema"]
    assert report == SmokeReport.model_validate_json(text)
    assert "Paris" == report.answer
    assert "" == make_report(check_result("a", "fail", "garbage-output")).answer


def test_a_receipt_is_an_in_toto_statement() -> None:
    """Statement v1: the subject is the image's digest; canonical, and read back."""
    receipt = receipt_of(make_report())
    data = receipt.data()
    statement = json.loads(data)
    assert {"_type", "subject", "predicateType", "predicate"} == set(statement)
    assert "https://in-toto.io/Statement/v1" == statement["_type"]
    assert [{"name": "localhost:5000/nightlock/cpu", "digest": {"sha256": "d" * 64}}] == statement[
        "subject"
    ]
    predicate = statement["predicate"]
    assert ("cpu", "pass", LOCK, BUILD) == tuple(
        predicate[key] for key in ("kind", "verdict", "lock", "build")
    )
    assert [{"name": "capital", "status": "pass"}] == predicate["checks"]
    assert {"health": 30.5} == predicate["timeline"]
    assert receipt == Receipt.parse(data)
    assert data == receipt_of(SmokeReport.model_validate_json(make_report().text())).data()


def test_a_receipt_proves_its_own_digest_alone() -> None:
    """Not another one, and nothing that is not a receipt."""
    receipt = receipt_of(make_report())
    assert receipt.proves(DIGEST)
    assert not receipt.proves("sha256:" + "e" * 64)
    other = json.loads(receipt.data()) | {"predicateType": "https://slsa.dev/provenance/v1"}
    for data in (b"", b"{}", json.dumps(other).encode()):
        assert Receipt.parse(data) is None


def test_junit_counts_and_quotes() -> None:
    """Fails and inconclusive checks are failures, skips are skipped; no character breaks it."""
    bad = check_result("b", "fail", "garbage-output").model_copy(
        update={"answered": "<&\x00\ufffd"}
    )
    report = make_report(check_result("a"), bad, check_result("c", "skip", "tool-calls"))
    suite = ET.fromstring(junit(report))[0]  # noqa: S314 - our own
    assert ("3", "1", "1") == tuple(suite.attrib[key] for key in ("tests", "failures", "skipped"))
    failure = suite.find("testcase[@name='b']/failure")
    assert failure is not None
    assert "because fail" == failure.get("message")
    assert "answered: <&\ufffd" in str(failure.text)
    broken = ET.fromstring(junit(make_report(failure="the container ended")))[0]  # noqa: S314
    assert "1" == broken.get("failures")
    assert broken.find("testcase[@name='boot']/failure") is not None


def places(folder: Path) -> Places:
    """Put everything below one folder."""
    return Places(config=folder, cache=folder, state=folder, run=folder)


def keep(at: Places, run: str, report: SmokeReport) -> Path:
    """Write one smoke."""
    folder = records.smoke_folder(at, report.digest, run)
    records.write_report(folder, report, {"server.log": b"x"})
    return folder


def test_the_newest_record_counts(tmp_path: Path) -> None:
    """A later fail of the same profile takes a pass back; other profiles do not matter."""
    at, mine = places(tmp_path), make_report().profile_digest
    assert records.find_report(at, DIGEST, mine) is None
    keep(at, "20261130T1", make_report())
    assert make_report() == records.find_report(at, DIGEST, mine)
    keep(at, "20261130T2", make_report(check_result("a", "fail"), profile_digest="sha256:other"))
    assert make_report() == records.find_report(at, DIGEST, mine)
    keep(at, "20261130T3", make_report(failure="the container ended"))
    assert records.find_report(at, DIGEST, mine) is None
    assert records.find_report(at, "sha256:" + "e" * 64, mine) is None


def test_a_boot_that_never_answered_has_no_receipt(tmp_path: Path) -> None:
    """It has a report and a log; receipts come newest first."""
    at = places(tmp_path)
    broken = keep(at, "1", make_report(failure="the container ended"))
    assert {"report.json", "junit.xml", "server.log"} == {p.name for p in broken.iterdir()}
    keep(at, "2", make_report())
    keep(at, "3", make_report(check_result("a", "fail")))
    assert ["fail", "pass"] == [r.predicate.verdict for r in records.receipts(at, DIGEST)]


def test_damaged_and_half_made_records_are_left_out(tmp_path: Path) -> None:
    """What a killed process or a full disk left does not make the next run fail."""
    at = places(tmp_path)
    folder = keep(at, "1", make_report())
    for name in ("report.json", "receipt.json"):
        (folder / name).write_text("{")
    (folder.parent / ".2.half").mkdir()
    (folder.parent / ".2.half" / "receipt.json").write_bytes(receipt_of(make_report()).data())
    assert [] == list(records.reports(at, DIGEST))
    assert [] == list(records.receipts(at, DIGEST))


def test_promotions_are_appended(tmp_path: Path) -> None:
    """One line each, in order."""
    at = places(tmp_path)
    for tag in ("nightly", "stable"):
        records.append_promotion(at, {"tag": tag, "old": "", "new": DIGEST})
    lines = (tmp_path / "records" / "promotions.ndjson").read_text().splitlines()
    assert ["nightly", "stable"] == [json.loads(line)["tag"] for line in lines]
