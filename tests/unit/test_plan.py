"""`nightlock plan`: layers, what upgrades pull, the matrix; on real git repositories."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from builder.commands import lock_history, plan
from builder.commands.context import Context
from builder.commands.lock_history import committed, past
from builder.core.lock import Lock, VllmTable
from builder.core.places import Places
from builder.core.settings import Settings
from builder.edge import git
from builder.edge.project import write_lock
from builder.errors import BadInput, ToolMissing
from builder.output import Output
from tests.support.repository import commit, run_git
from tests.support.small_lock import small_lock, small_spec_text
from tests.support.two_nightlies import AMD64, make_lock, wheel, with_header

ROOT = Path(__file__).parents[2]
PLAN = {AMD64: [["torch"], ["numpy", "six"], ["vllm"]]}


def lock(vllm: str, *, six: str = "1", **header: object) -> Lock:
    """Make a lock of four wheels in three layers."""
    pins = [
        wheel("torch", "2.14.0", size=500_000_000),
        wheel("numpy", "2.5.2", size=30_000_000),
        wheel("six", six, size=1_000_000),
        wheel("vllm", vllm, size=270_000_000),
    ]
    made = make_lock({AMD64: pins}, image="cpu", layers=PLAN)
    leader = VllmTable(package="vllm", version=vllm, commit="")
    return with_header(made, vllm=leader, **header)


def context(project: Path) -> Context:
    """Stand in a project."""
    return Context(
        project=project,
        places=Places.from_environment({"HOME": str(project)}),
        settings=Settings(),
        output=Output(out=io.StringIO(), err=io.StringIO(), verbose=True),
    )


def images(project: Path, *names: str, sets: str = "") -> None:
    """Write specs, and sets."""
    for name in names:
        folder = project / "images" / name
        folder.mkdir(parents=True)
        text = small_spec_text().replace('name = "cpu"', f'name = "{name}"')
        (folder / "image.toml").write_text(text)
    (project / "images/sets.toml").write_text(sets)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project in a folder of a repository, with three committed locks of one image."""
    folder = tmp_path / "repository/project"
    images(folder, "cpu")
    run_git(tmp_path, "init", "--quiet", str(folder.parent))
    for version, six in (("1.0", "1"), ("1.1", "1"), ("1.2", "2")):
        write_lock(folder, lock(version, six=six))
        commit(folder)
    return folder


def test_layers_have_names_bytes_and_what_they_cost(project: Path) -> None:
    """Over the upgrades that git knows; vLLM's layer is pulled each time."""
    result = plan.run(context(project)).result
    ((platform,),) = ([image.platforms for image in result.images],)
    (row,) = platform
    assert [
        (1, "group-torch", 500_000_000, ["torch"]),
        (2, "group-numpy-etc", 31_000_000, ["numpy", "six"]),
        (3, "group-vllm", 270_000_000, ["vllm"]),
    ] == [(layer.number, layer.name, layer.bytes, layer.packages) for layer in row.layers]
    assert (2, 801_000_000) == (row.upgrades, row.bytes)
    assert row.layers[2].expected == row.layers[2].bytes
    assert 0 < row.layers[1].expected < row.layers[1].bytes
    assert abs(row.expected - sum(layer.expected for layer in row.layers)) <= len(row.layers)
    # A layer for each wheel, since the budget allows it.
    assert row.expected_anew < row.expected


def test_what_is_pulled_since_the_lock_before(project: Path) -> None:
    """The same forecast as a diff's; the commit before the one that lies there."""
    before = run_git(project, "rev-parse", "HEAD~1")
    outcome = plan.run(context(project), "cpu")
    since = outcome.result.images[0].platforms[0].since
    assert since is not None
    assert (before, 301_000_000) == (since.revision, since.pull.pull)
    assert [["six"], ["vllm"]] == [layer.changed for layer in since.pull.layers]
    assert f"since {before[:9]}: 301.0 MB of 801.0 MB: 2 of 3 wheel layers" in outcome.text
    assert "--replan" in outcome.text


def test_an_uncommitted_lock_is_compared_with_the_committed_one(project: Path) -> None:
    """As somebody has it who has just locked."""
    head = run_git(project, "rev-parse", "HEAD")
    write_lock(project, lock("1.3", six="2"))
    row = plan.run(context(project)).result.images[0].platforms[0]
    assert row.since is not None
    assert (head, 270_000_000, 3) == (row.since.revision, row.since.pull.pull, row.upgrades)


def test_a_project_without_git_has_no_earlier_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor has a machine without git; layers are told all the same."""
    images(tmp_path, "cpu")
    write_lock(tmp_path, lock("1.0"))
    row = plan.run(context(tmp_path)).result.images[0].platforms[0]
    assert (None, 0, 3) == (row.since, row.upgrades, len(row.layers))

    def missing(*_: object) -> list[str]:
        raise ToolMissing("git is not there", subject="git", action="install it")

    monkeypatch.setattr(git, "commits_of", missing)
    here = context(tmp_path)
    assert 3 == len(plan.run(here).result.images[0].platforms[0].layers)
    assert isinstance(here.output.err, io.StringIO)
    assert "git is not there" in here.output.err.getvalue()


def test_the_matrix_names_each_image_and_platform_once(tmp_path: Path) -> None:
    """With the set it belongs to, and its lock; what has none is a job as well."""
    sets = '[pair]\n"linux/amd64" = "b"\n[one]\n"linux/amd64" = "b"\n'
    images(tmp_path, "a", "b", sets=sets)
    spec = small_lock().header.spec
    made = lock("1.0", spec=spec)
    write_lock(tmp_path, with_header(made, image="b"))
    outcome = plan.run(context(tmp_path))
    assert [("a", AMD64, "", ""), ("b", AMD64, "one", outcome.result.images[1].lock)] == [
        (row.image, row.platform, row.set, row.lock) for row in outcome.result.matrix.include
    ]
    assert outcome.result.images[1].lock.startswith("sha256:")
    assert {"one": {AMD64: "b"}, "pair": {AMD64: "b"}} == outcome.result.sets
    assert [[], ["one", "pair"]] == [image.sets for image in outcome.result.images]
    assert ["b"] == [image.image for image in plan.run(context(tmp_path), "pair").result.images]


def test_not_locked_is_a_warning_of_all_and_a_no_of_one(tmp_path: Path) -> None:
    """CI asks for all to know what is to be locked; a person asks for one."""
    images(tmp_path, "cpu")
    everything, one = plan.run(context(tmp_path)), plan.run(context(tmp_path), "cpu")
    assert (True, ["warning"]) == (everything.ok, [row.severity for row in everything.findings])
    assert (False, ["error"]) == (one.ok, [row.severity for row in one.findings])
    assert ["not-locked"] == [row.key for row in one.findings]
    assert "cpu: no lock that can be read" == one.text
    assert [[]] == [image.platforms for image in one.result.images]


def test_an_unknown_image_is_bad_input(tmp_path: Path) -> None:
    """With the names there are."""
    images(tmp_path, "cpu")
    with pytest.raises(BadInput, match="no image or set 'gpu'"):
        plan.run(context(tmp_path), "gpu")


def test_committed_locks_come_newest_first_and_those_that_cannot_be_read_are_told(
    project: Path,
) -> None:
    """A commit that changed another folder is none; a damaged one does not stop the others."""
    (project / "lock/cpu/linux-amd64.txt").write_text("damaged")
    damaged = commit(project)
    (project / "README.md").write_text("another file")
    commit(project)
    here = context(project)
    found = [row.lock.header.vllm.version for row in committed(here, "cpu")]
    assert ["1.2", "1.1", "1.0"] == found
    assert isinstance(here.output.err, io.StringIO)
    assert damaged[:9] in here.output.err.getvalue()


def test_a_lock_that_was_taken_away_for_a_while_counts_before_and_after(project: Path) -> None:
    """A commit without the folder has no lock."""
    kept = (project / "lock/cpu").rename(project / "kept")
    commit(project)
    assert 3 == len(list(committed(context(project), "cpu")))
    (project / "lock").mkdir(exist_ok=True)
    kept.rename(project / "lock/cpu")
    commit(project)
    assert ["1.2", "1.2", "1.1", "1.0"] == [
        row.lock.header.vllm.version for row in committed(context(project), "cpu")
    ]


def test_the_past_ends_with_what_lies_there(project: Path) -> None:
    """Oldest first; that is what a plan is made anew from."""
    found = past(context(project), "cpu", lock("1.3"))
    assert ["1.0", "1.1", "1.2", "1.3"] == [one.header.vllm.version for one in found]


def test_no_more_commits_are_read_than_two_months_of_nights(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest ones."""
    monkeypatch.setattr(lock_history, "MOST", 2)
    assert ["1.2", "1.1"] == [
        row.lock.header.vllm.version for row in committed(context(project), "cpu")
    ]


def test_a_shallow_clone_is_no_basis_for_a_new_plan(project: Path, tmp_path: Path) -> None:
    """The depth of a clone must not change a lock; to look at, what there is will do."""
    origin = f"file://{project.parent}"
    run_git(tmp_path, "clone", "--quiet", "--depth", "2", origin, str(tmp_path / "shallow"))
    here = context(tmp_path / "shallow/project")
    with pytest.raises(BadInput, match="lacks older commits"):
        past(here, "cpu", None)
    assert 1 == plan.run(here).result.images[0].platforms[0].upgrades


def test_the_committed_locks_of_this_project_have_their_layers_told() -> None:
    """All wheels of each, as JSON too; vLLM last and alone."""
    outcome = plan.run(context(ROOT))
    rows = json.loads(outcome.result.model_dump_json())["images"]
    assert ["cpu", "cuda13-sm120", "cuda13-sm121"] == [row["image"] for row in rows]
    for row in rows:
        for platform in row["platforms"]:
            assert platform["bytes"] == sum(layer["bytes"] for layer in platform["layers"])
            assert 1 == len(platform["layers"][-1]["packages"])
            assert len(platform["layers"]) <= platform["budget"]


def test_a_damaged_lock_is_not_locked(project: Path) -> None:
    """The finding says what is wrong with it."""
    (project / "lock/cpu/linux-amd64.txt").write_text("damaged")
    outcome = plan.run(context(project), "cpu")
    (row,) = outcome.findings
    assert not outcome.ok
    assert "linux-amd64.txt was edited or damaged" in row.evidence
