"""The build id and the command line."""

from __future__ import annotations

import csv
import shlex

from builder.core.buildid import BuildRecord, Invocation, build_id

FILES = {"Dockerfile": "sha256:" + "1" * 64}


def invocation(**fields: object) -> Invocation:
    """Return a plain build of one platform."""
    plain: dict[str, object] = {
        "platform": "linux/amd64",
        "epoch": 7,
        "name": "localhost:5000/x:t",
        "labels": {},
    }
    return Invocation(**(plain | fields))  # type: ignore[arg-type]


def test_everything_that_goes_in_moves_the_id() -> None:
    """Lock, any file, BuildKit's version; the order of files does not."""
    first = build_id("sha256:a", FILES, "v0.12.5")
    assert first == build_id("sha256:a", dict(FILES), "v0.12.5")
    more = FILES | {"base.tar": "sha256:" + "2" * 64}
    assert build_id("l", more, "v") == build_id("l", dict(reversed(more.items())), "v")
    others = {
        build_id("sha256:b", FILES, "v0.12.5"),
        build_id("sha256:a", more, "v0.12.5"),
        build_id("sha256:a", {"Dockerfile": "sha256:" + "3" * 64}, "v0.12.5"),
        build_id("sha256:a", FILES, "v0.13.0"),
    }
    assert 4 == len(others - {first})


def test_arguments_hold_the_digest_still() -> None:
    """No attestations, the lock's epoch, zstd in OCI's media types."""
    words = invocation(labels={"b": "2", "a": "1"}, push=True).arguments("DIR")
    assert ["buildx", "build"] == words[:2]
    assert "DIR" == words[-1]
    assert {"--provenance=false", "--sbom=false", "SOURCE_DATE_EPOCH=7"} <= set(words)
    assert ["a=1", "b=2"] == [words[at + 1] for at, word in enumerate(words) if word == "--label"]
    output = words[words.index("--output") + 1].split(",")
    assert {"compression=zstd", "oci-mediatypes=true", "force-compression=true"} <= set(output)
    assert "push=true" in output


def test_annotations_survive_the_list_they_stand_in() -> None:
    """Buildx reads one line of CSV: commas and quotes of JSON stay inside their field."""
    said = {"b": 'a "word", and 1=2', "a": '{"x":"1","y":"2"}'}
    words = invocation(annotations=said).arguments(".")
    (fields,) = csv.reader([words[words.index("--output") + 1]])
    found = [field.removeprefix("annotation.") for field in fields if "annotation." in field]
    assert [f"{key}={said[key]}" for key in ("a", "b")] == found


def test_a_plain_build_pushes_nothing_and_asks_for_nothing() -> None:
    """What is off leaves no word behind."""
    words = invocation().arguments(".")
    assert not {"--builder", "--no-cache", "--metadata-file", "--label"} & set(words)
    assert "push=true" not in words[words.index("--output") + 1]
    chosen = invocation(builder="b", cache=False, metadata="/m").arguments(".")
    assert {"--builder", "--no-cache", "--metadata-file"} <= set(chosen)


def test_text_is_the_same_for_a_shell() -> None:
    """Values with spaces survive copy and paste."""
    shown = invocation(labels={"k": "a b"})
    assert ["docker", *shown.arguments(".")] == shlex.split(shown.text())


def test_a_record_reads_back_and_a_damaged_one_counts_as_none() -> None:
    """Building again is always right."""
    record = BuildRecord(build_id="sha256:a", digest="sha256:b", reference="r")
    assert record == BuildRecord.parse(record.text())
    assert None is BuildRecord.parse(record.text()[:20])
