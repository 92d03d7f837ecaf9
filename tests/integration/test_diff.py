"""`nightlock diff` on real git repositories, a forge and a registry on loopback."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder.commands import diff
from builder.commands.context import Context
from builder.core.labels import LOCK_DIGEST
from builder.core.lock import Lock, VllmTable, digest_of
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge.project import write_lock
from builder.errors import BadInput, LockFileError, RegistryError
from builder.output import Output
from tests.support.pages import serve
from tests.support.repository import commit, run_git
from tests.support.two_nightlies import (
    NEW_COMMIT,
    OLD_COMMIT,
    new_night,
    old_night,
    with_header,
)

NAME = "cuda13-sm120"


def context(project: Path, **forges: str) -> Context:
    """Stand in a project; no forge is asked unless one is named."""
    return Context(
        project=project,
        places=Places.from_environment({"HOME": str(project)}),
        settings=Settings(forges={"vllm": "none", "flashinfer": "none"} | forges),
        output=Output(out=io.StringIO(), err=io.StringIO(), verbose=True),
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a repository with two nights of one lock: HEAD~1 and HEAD."""
    folder = tmp_path / "project"
    (folder / "images" / NAME).mkdir(parents=True)
    (folder / "images" / NAME / "image.toml").write_text("")
    run_git(tmp_path, "init", "--quiet", str(folder))
    write_lock(folder, old_night())
    commit(folder, "old night")
    write_lock(folder, new_night())
    commit(folder, "new night")
    return folder


def test_a_revision_beside_a_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most common call: what is committed, and what lies there now."""
    monkeypatch.chdir(project)
    outcome = diff.run(context(project), f"HEAD~1:lock/{NAME}", f"lock/{NAME}")
    assert (old_night().digest, new_night().digest) == (
        outcome.result.old.lock,
        outcome.result.new.lock,
    )
    assert (run_git(project, "rev-parse", "HEAD~1"), "") == (
        outcome.result.old.revision,
        outcome.result.new.revision,
    )
    assert 31 == outcome.result.commits[0].count
    assert "file-rehashed" == outcome.findings[0].key
    assert outcome.text.startswith(f"HEAD~1:lock/{NAME} → lock/{NAME}\n")
    assert outcome.ok


@pytest.mark.parametrize(
    "form", ["HEAD~1", "HEAD~1:./lock/{}", "HEAD~1:lock/{}/", "main~1:lock/{}"]
)
def test_every_form_of_a_revision(project: Path, form: str) -> None:
    """As git itself takes them; a bare one where there is one lock."""
    run_git(project, "branch", "--force", "-m", "main")
    outcome = diff.run(context(project), form.format(NAME), "HEAD")
    assert old_night().digest == outcome.result.old.lock
    assert new_night().digest == outcome.result.new.lock


def test_a_bare_revision_of_several_locks_asks_which(project: Path) -> None:
    """The error names them and both ways to say it; --image is one."""
    write_lock(project, with_header(old_night(), image="cpu"))
    commit(project, "another image")
    with pytest.raises(BadInput, match="2 locks") as caught:
        diff.run(context(project), "HEAD", "HEAD")
    assert f"say which: cpu, {NAME}, as HEAD:lock/cpu or --image cpu" == caught.value.action
    outcome = diff.run(context(project), "HEAD~1", "HEAD", image=NAME)
    assert outcome.result.same
    with pytest.raises(BadInput, match="no lock of 'cpu'"):
        diff.run(context(project), "HEAD~1", "HEAD", image="cpu")


def test_a_revision_without_that_lock_says_what_is_there(project: Path) -> None:
    """A typing error ends with the names that exist."""
    with pytest.raises(BadInput, match="no lock in lock/cpu") as caught:
        diff.run(context(project), "HEAD:lock/cpu", "HEAD")
    assert f"entries of lock there: {NAME}" == caught.value.action


@pytest.mark.parametrize(
    "text", ["nowhere", "HEAD~99:lock/cpu", "lock/nowhere", "--upload-pack=x", ""]
)
def test_what_is_nothing_names_the_three_forms(project: Path, text: str) -> None:
    """No registry is asked for a typing error, and no option reaches git."""
    with pytest.raises(BadInput, match="neither a lock folder") as caught:
        diff.run(context(project), text, "HEAD")
    assert "HEAD~1:lock/cpu" in caught.value.action


def test_outside_a_repository_folders_still_work(tmp_path: Path) -> None:
    """Git is not needed for folders, and its absence is no other error."""
    for side, lock in (("a", old_night()), ("b", new_night())):
        write_lock(tmp_path, lock, tmp_path / side)
    assert not diff.run(context(tmp_path), "a", str(tmp_path / "b")).result.same
    with pytest.raises(BadInput, match="neither a lock folder"):
        diff.run(context(tmp_path), "HEAD", "a")


def test_a_folder_without_a_lock_is_said_to_be_one(tmp_path: Path) -> None:
    """And not taken for an image's name."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(LockFileError, match=r"no lock\.toml"):
        diff.run(context(tmp_path), "empty", "empty")


def test_an_edited_lock_of_a_revision_is_refused(project: Path) -> None:
    """The message names revision and file."""
    path = project / "lock" / NAME / "linux-amd64.txt"
    path.write_text(path.read_text().replace("2.5.2", "2.5.3"))
    commit(project, "edited by hand")
    with pytest.raises(LockFileError, match="was edited") as caught:
        diff.run(context(project), f"HEAD:lock/{NAME}", "HEAD~1")
    assert f"HEAD:lock/{NAME}" == caught.value.subject


def test_lock_noise_in_a_checkout_is_no_change(project: Path) -> None:
    """A user's `core.autocrlf` changes what is checked out, not what was committed."""
    run_git(project, "config", "core.autocrlf", "true")
    outcome = diff.run(context(project), "HEAD", f"HEAD:lock/{NAME}", exit_code=True)
    assert (True, "no difference") == (outcome.ok, outcome.text.splitlines()[-1])


@pytest.mark.parametrize(("new", "ok"), [("HEAD", False), ("HEAD~1", True)])
def test_exit_code_is_for_scripts(project: Path, new: str, ok: bool) -> None:
    """Without the option a difference is an answer, not a no."""
    assert diff.run(context(project), "HEAD~1", new).ok
    assert ok == diff.run(context(project), "HEAD~1", new, exit_code=True).ok


def test_formats(project: Path) -> None:
    """Text, markdown and HTML; what is none names them."""
    for form, start in (("markdown", "### `HEAD~1:./lock/"), ("html", "<!DOCTYPE html>")):
        assert diff.run(context(project), "HEAD~1", "HEAD", format=form).text.startswith(start)
    with pytest.raises(BadInput, match="no format 'pdf'"):
        diff.run(context(project), "HEAD~1", "HEAD", format="pdf")


def history(folder: Path) -> tuple[str, str]:
    """Make a clone of vLLM with three commits between two nights."""
    run_git(folder.parent, "init", "--quiet", str(folder))
    first = commit(folder, "first")
    for title in ("one", "two with a body\n\nthe body", "three"):
        last = commit(folder, title)
    return first, last


def moved(lock: Lock, sha: str) -> Lock:
    """Say that a lock is of that commit."""
    vllm = lock.header.vllm
    table = VllmTable(package=vllm.package, version=vllm.version, commit=sha)
    return with_header(lock, vllm=table.model_dump())


def test_a_clone_gives_titles_and_the_true_count(tmp_path: Path) -> None:
    """Newest first; a rollback lists what goes."""
    first, last = history(tmp_path / "vllm")
    write_lock(tmp_path, moved(old_night(), first), tmp_path / "old")
    write_lock(tmp_path, moved(new_night(), last), tmp_path / "new")
    standing = context(tmp_path, vllm=str(tmp_path / "vllm"))
    for sides in (("old", "new"), ("new", "old")):
        commits = diff.run(standing, *sides).result.commits[0]
        assert (3, "history") == (commits.count, commits.counted_by)
        assert ["three", "two with a body", "one"] == [row.title for row in commits.commits]


def test_a_clone_without_the_commits_is_passed_over(tmp_path: Path) -> None:
    """Silently: the count of the versions stands."""
    history(tmp_path / "vllm")
    write_lock(tmp_path, old_night(), tmp_path / "old")
    write_lock(tmp_path, new_night(), tmp_path / "new")
    standing = context(tmp_path, vllm=str(tmp_path / "vllm"))
    outcome = diff.run(standing, "old", "new")
    assert (31, []) == (outcome.result.commits[0].count, outcome.result.commits[0].commits)
    assert "the clone has not got both commits" in _said(standing)


def _said(standing: Context) -> str:
    assert isinstance(standing.output.err, io.StringIO)
    return standing.output.err.getvalue()


FORGE = f"/api/v3/repos/vllm-project/vllm/compare/{OLD_COMMIT}...{NEW_COMMIT}"
COMPARISON = {
    "status": "ahead",
    "total_commits": 30,
    "commits": [
        {"sha": "1" * 40, "commit": {"message": "older\n\nbody"}, "author": None},
        {"sha": "2" * 40, "commit": {"message": "newer"}},
    ],
}


def test_a_forge_gives_titles_and_the_true_count(project: Path) -> None:
    """GitHub's own shape; its list may be shorter than its count."""
    pages = {FORGE: (200, "application/json", json.dumps(COMPARISON).encode())}
    with serve(pages) as host:
        standing = context(project, vllm=f"http://{host}/api/v3/repos/vllm-project/vllm")
        commits = diff.run(standing, "HEAD~1", "HEAD").result.commits[0]
    assert (30, "history") == (commits.count, commits.counted_by)
    assert ["newer", "older"] == [row.title for row in commits.commits]


@pytest.mark.parametrize(
    "page",
    [
        (404, "application/json", b'{"message": "Not Found"}'),
        (403, "application/json", b'{"message": "API rate limit exceeded"}'),
        (200, "text/html", b"<html>please log in</html>"),
        (200, "application/json", b'{"commits": 3}'),
    ],
    ids=["unknown", "rate-limit", "portal", "other-shape"],
)
def test_a_forge_that_does_not_answer_is_passed_over(
    project: Path, page: tuple[int, str, bytes]
) -> None:
    """Titles are a courtesy: the diff is the same without."""
    with serve({FORGE: page}) as host:
        standing = context(project, vllm=f"http://{host}/api/v3/repos/vllm-project/vllm")
        commits = diff.run(standing, "HEAD~1", "HEAD").result.commits[0]
    assert (31, "version", []) == (commits.count, commits.counted_by, commits.commits)
    assert "the forge gave no commits" in _said(standing)


def test_a_forge_out_of_reach_is_passed_over(project: Path) -> None:
    """Nothing listens there any more."""
    with serve({}) as host:
        pass
    commits = diff.run(context(project, vllm=f"http://{host}/x"), "HEAD~1", "HEAD").result.commits
    assert 31 == commits[0].count


def _layer(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)


def image(
    lock: Lock | None, label: str | None = None, *, index: bool = True
) -> dict[str, tuple[int, str, bytes]]:
    """Lay out an image as a registry serves it, under the tag `night`."""
    oci = "application/vnd.oci.image."
    content = {f"opt/nightlock/lock/{n}": d for n, d in lock.files().items()} if lock else {}
    layers = [_layer({"opt/venv/big": b"x"}), _layer({"opt/nightlock/x": b"x", **content})]
    label = label if label is not None else lock.digest if lock else ""
    config = json.dumps(
        {
            "os": "linux",
            "architecture": "amd64",
            "config": {"Labels": {LOCK_DIGEST: label}},
        }
    ).encode()
    blobs = {digest_of(data): data for data in (*layers, config)}

    def descriptor(data: bytes, kind: str) -> dict[str, object]:
        return {"mediaType": oci + kind, "digest": digest_of(data), "size": len(data)}

    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": oci + "manifest.v1+json",
            "config": descriptor(config, "config.v1+json"),
            "layers": [
                # Too large to be the one: it must not be fetched.
                {
                    "mediaType": oci + "layer.v1.tar+zstd",
                    "digest": "sha256:" + "0" * 64,
                    "size": 2**33,
                },
                *(descriptor(layer, "layer.v1.tar+gzip") for layer in layers),
            ],
        }
    ).encode()
    platform = {"os": "linux", "architecture": "amd64"}
    top = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": oci + "index.v1+json",
            "manifests": [{**descriptor(manifest, "manifest.v1+json"), "platform": platform}],
        }
    ).encode()
    pages = {f"/v2/cpu/blobs/{d}": (200, "application/octet-stream", b) for d, b in blobs.items()}
    inner = (200, oci + "manifest.v1+json", manifest)
    pages[f"/v2/cpu/manifests/{digest_of(manifest)}"] = inner
    pages["/v2/cpu/manifests/night"] = (200, oci + "index.v1+json", top) if index else inner
    return pages


@pytest.mark.parametrize("index", [True, False])
def test_an_image_is_compared_by_the_lock_inside(project: Path, index: bool) -> None:
    """Read back from its last small layer; of an index and of a single manifest."""
    with serve(image(old_night(), index=index)) as host:
        outcome = diff.run(context(project), f"{host}/cpu:night", "HEAD")
    assert (old_night().digest, f"{host}/cpu:night") == (
        outcome.result.old.lock,
        outcome.result.old.name,
    )


@pytest.mark.parametrize(
    ("lock", "label", "words"),
    [
        (None, "", "the image holds no lock"),
        (old_night(), "sha256:" + "f" * 64, "the image's label says"),
    ],
    ids=["foreign", "altered"],
)
def test_an_image_without_its_own_lock_is_refused(
    project: Path, lock: Lock | None, label: str, words: str
) -> None:
    """Another project's image, and one that somebody built on."""
    with serve(image(lock, label)) as host, pytest.raises(LockFileError, match=words):
        diff.run(context(project), f"{host}/cpu:night", "HEAD")


def test_an_image_that_is_not_there_says_so(project: Path) -> None:
    """A tag that the registry has not got, and a registry that says something else."""
    with serve({}) as host, pytest.raises(BadInput, match="no such image"):
        diff.run(context(project), f"{host}/cpu:night", "HEAD")
    broken = {"/v2/cpu/manifests/night": (200, "text/html", b"<html>")}
    with serve(broken) as host, pytest.raises(RegistryError, match="not a manifest"):
        diff.run(context(project), f"{host}/cpu:night", "HEAD")
