"""`lock` with the real uv against an index on loopback; no network beyond it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.commands import lock as recipe
from builder.commands.context import Outcome
from builder.commands.lock_result import LockResult
from builder.core.lock import Lock
from builder.core.settings import Settings
from builder.edge import debs, download, uv
from builder.edge.project import read_lock
from builder.errors import BadInput, HashMismatch, NetworkError, Refused, SpecError
from tests.support.index import FakeIndex, fake_index
from tests.support.lockable import DEB, NO_FORGE, Tiny
from tests.support.wheels import make_vllm, make_wheel

CLEAN = ("PIP_", "UV_", "VIRTUAL_ENV", "XDG_", "NETRC", "NIGHTLOCK_")
VLLM = make_vllm("0.32.0", requires=["torch==2.13.0", "click>=8"])
TORCH = make_wheel("torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64", padding=200_000)
CLICK = make_wheel("click", "8.1.0", requires=["colorama; platform_system == 'Windows'"])


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of this machine reaches a test, .debs are a constant, retries are quick."""
    import os  # noqa: PLC0415

    for name in list(os.environ):
        if name.startswith(CLEAN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(debs, "resolve_base", lambda *_: (DEB,))
    monkeypatch.setattr(debs, "archives", lambda *_: {})
    monkeypatch.setattr(debs, "find_gone", lambda *_, **__: ([], []))
    monkeypatch.setattr(download, "BACKOFF", 0.01)


@pytest.fixture
def general() -> Iterator[FakeIndex]:
    """Run an index with a vLLM and what it wants, all but torch."""
    with fake_index(VLLM, CLICK) as index:
        yield index


@pytest.fixture
def pytorch() -> Iterator[FakeIndex]:
    """Run an index for torch alone, without hashes, with relative links."""
    with fake_index(TORCH) as index:
        index.hashes = False
        index.links = "relative"
        yield index


@pytest.fixture
def tiny(tmp_path: Path, general: FakeIndex, pytorch: FakeIndex) -> Tiny:
    """Make a project whose vLLM wants torch from one index and click from the other."""
    settings = Settings(
        forges=NO_FORGE, indexes={"general": general.url, "pytorch-cpu": pytorch.url}
    )
    project = Tiny(tmp_path, settings)
    project.spec("vllm==0.32.0", "torch==2.13.0", torch="pytorch-cpu")
    return project


def lock(tiny: Tiny, **options: object) -> Lock:
    """Lock and read back."""
    outcome = recipe.run(tiny.context, "tiny", **options)  # type: ignore[arg-type]
    assert outcome.ok, outcome.text
    return read_lock(tiny.root, "tiny")


def row(tiny: Tiny, package: str) -> dict[str, object]:
    """One package's row of meta.json."""
    meta = json.loads((tiny.lock / "linux-amd64.meta.json").read_text())
    found = meta[package]
    assert isinstance(found, dict)
    return found


def test_a_lock_names_every_byte(tiny: Tiny) -> None:
    """Each line has version, hash, file, size and index; the header says what it is of."""
    made = lock(tiny)
    assert (
        f"torch==2.13.0+cpu --hash=sha256:{TORCH.sha256}  # {TORCH.file} {len(TORCH.data)} "
        "pytorch-cpu" == tiny.line("torch")
    )
    assert (
        f"click==8.1.0 --hash=sha256:{CLICK.sha256}  # {CLICK.file} {len(CLICK.data)} general"
        == tiny.line("click")
    )
    header = made.header
    assert ("vllm", "0.32.0", "ea5f903f8") == (
        header.vllm.package,
        header.vllm.version,
        header.vllm.commit,
    )
    assert 1792485632 == header.epoch  # 2026-10-20 08:40:32 UTC, the date inside the wheel
    assert {"torch": "2.13.0+cpu"} == header.companions
    assert [["click", "torch"], ["vllm"]] == [
        sorted(name for group in header.layers["linux/amd64"][:-1] for name in group),
        header.layers["linux/amd64"][-1],
    ]
    assert {"hash_from": "index", "licence": "MIT", "requires_python": ""} == {
        key: value for key, value in row(tiny, "click").items() if key != "requires_dist"
    }
    assert (DEB,) == made.platforms["linux/amd64"].debs


def test_the_same_inputs_give_the_same_bytes(tiny: Tiny) -> None:
    """Two locks from nothing, with cold caches, are byte-equal; a third changes nothing."""
    lock(tiny)
    first = tiny.lock_files()
    for path in tiny.lock.iterdir():
        path.unlink()
    tiny.cache = "cold"
    lock(tiny)
    assert first == tiny.lock_files()
    assert "unchanged" == recipe.run(tiny.context, "tiny").result.of("tiny").change


def test_another_resolver_is_named_and_makes_no_lock_stale(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C20: it is recorded; a newer uv may choose otherwise, so that it is another is said."""
    lock(tiny)
    was = read_lock(tiny.root, "tiny").header.resolver.version
    monkeypatch.setattr(uv, "version", lambda: "99.1")
    assert recipe.run(tiny.context, "tiny", check=True).ok
    lock(tiny)
    assert f"tiny was resolved by uv {was}, now by uv 99.1" in tiny.said.getvalue()
    assert "99.1" == read_lock(tiny.root, "tiny").header.resolver.version


def test_a_hostile_configuration_changes_no_byte(
    tiny: Tiny, general: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constraints, strategies and further indexes of pip and uv are named and have no effect."""
    general.add(make_wheel("click", "8.3.0"), make_wheel("click", "9.0.0rc1"))
    with fake_index(make_wheel("click", "99.0"), make_wheel("torch", "99.0")) as hostile:
        lock(tiny)
        clean = tiny.lock_files()
        for path in tiny.lock.iterdir():
            path.unlink()
        (tmp_path / "constraints.txt").write_text("click<8.3\n")
        pip = tmp_path / "pip.conf"
        pip.write_text(
            f"[global]\nconstraint = {tmp_path}/constraints.txt\npre = true\n"
            f"extra-index-url = {hostile.url}\n"
        )
        uv = tmp_path / "uv.toml"
        uv.write_text(
            'index-strategy = "unsafe-best-match"\nprerelease = "allow"\n'
            'resolution = "lowest"\nconstraint-dependencies = ["click<8.3"]\n'
            f'[[index]]\nname = "hostile"\nurl = "{hostile.url}"\n'
        )
        monkeypatch.setenv("PIP_CONFIG_FILE", str(pip))
        monkeypatch.delenv("UV_NO_CONFIG")
        monkeypatch.setenv("UV_CONFIG_FILE", str(uv))
        for name, value in {
            "UV_CONSTRAINT": str(tmp_path / "constraints.txt"),
            "UV_INDEX": hostile.url,
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_PRERELEASE": "allow",
            "UV_RESOLUTION": "lowest-direct",
            "UV_EXCLUDE_NEWER": "2001-01-01",
            "UV_TORCH_BACKEND": "auto",
            "PIP_PRE": "1",
            "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
            "PIP_EXTRA_INDEX_URL": hostile.url,
        }.items():
            monkeypatch.setenv(name, value)
        tiny.cache = "hostile"
        outcome = recipe.run(tiny.context, "tiny")
        assert clean == tiny.lock_files()
        assert [] == hostile.requests
        assert {("user-configuration-ignored", "warning")} == {
            (row.key, row.severity) for row in outcome.findings
        }
        assert "UV_INDEX_STRATEGY=unsafe-best-match" in {row.evidence for row in outcome.findings}


def test_a_hashless_file_is_hashed_once_and_kept(tiny: Tiny, pytorch: FakeIndex) -> None:
    """index-without-hashes: one whole download, into the store, recorded as computed here."""
    lock(tiny)
    whole = [r for r in pytorch.asked(TORCH.file) if r[0] == "GET" and not r[2]]
    assert 1 == len(whole)
    assert (
        TORCH.data
        == (tiny.context.places.store / "sha256" / TORCH.sha256[:2] / TORCH.sha256).read_bytes()
    )
    assert "computed here" == row(tiny, "torch")["hash_from"]


def test_an_index_gives_only_what_is_bound_to_it(tiny: Tiny, pytorch: FakeIndex) -> None:
    """index-shadowing: a newer click on torch's index is not even looked at."""
    pytorch.add(make_wheel("click", "99.0"))
    lock(tiny)
    assert tiny.line("click").startswith("click==8.1.0 ")
    assert [] == pytorch.asked("/simple/click/")


def test_a_bound_package_that_others_pull_in_comes_from_its_index(tiny: Tiny) -> None:
    """`torch` is in nobody's requirements but vLLM's."""
    tiny.spec("vllm==0.32.0", torch="pytorch-cpu")
    lock(tiny)
    assert tiny.line("torch").endswith(" pytorch-cpu")


def test_find_links_serve_when_the_index_is_down(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index out of reach is a note while a folder has what is needed."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / TORCH.file).write_bytes(TORCH.data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    tiny.settings.indexes["pytorch-cpu"] = "http://127.0.0.1:9/simple"
    lock(tiny)
    assert f"--hash=sha256:{TORCH.sha256}" in tiny.line("torch")
    assert tiny.line("torch").endswith(" pytorch-cpu")
    assert "is out of reach; torch is taken from find-links of PIP_FIND_LINKS" in (
        tiny.said.getvalue()
    )


def test_find_links_bring_copies_and_no_versions(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """index-shadowing: a newer or better fitting torch in somebody's folder changes no byte."""
    tiny.spec("vllm==0.32.0", "torch>=2", torch="pytorch-cpu")
    lock(tiny)
    clean = tiny.lock_files()
    for path in tiny.lock.iterdir():
        path.unlink()
    for wheel in (
        make_wheel("torch", "99.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64"),
        make_wheel("torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_35_x86_64"),
        make_wheel("torch", "2.13.0+cpu", tag="9-cp311-cp311-manylinux_2_28_x86_64"),
    ):
        (tmp_path / wheel.file).write_bytes(wheel.data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    tiny.cache = "other"
    lock(tiny)
    assert clean == tiny.lock_files()


def test_a_bound_index_that_is_down_is_named(tiny: Tiny) -> None:
    """The error has name and address of the index, and every way to replace it."""
    tiny.settings.indexes["pytorch-cpu"] = "http://127.0.0.1:9/simple"
    with pytest.raises(NetworkError) as caught:
        recipe.run(tiny.context, "tiny")
    assert "the index pytorch-cpu at http://127.0.0.1:9/simple cannot be reached" in str(
        caught.value
    )
    assert "--index pytorch-cpu=URL-or-folder" in caught.value.action
    assert not tiny.lock.exists()


def test_the_general_index_that_is_down_is_named(tiny: Tiny) -> None:
    """Uv's own retries are over before we say it."""
    tiny.settings.indexes["general"] = "http://127.0.0.1:9/simple"
    with pytest.raises(NetworkError) as caught:
        recipe.run(tiny.context, "tiny")
    assert "the index general at http://127.0.0.1:9/simple cannot be reached" in caught.value.what
    assert "http://127.0.0.1:9/simple/vllm/" == caught.value.subject


def test_two_sources_that_disagree_are_refused(
    tiny: Tiny, pytorch: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A find-links copy differs from the index: refused; --upgrade-package takes the index's."""
    pytorch.hashes = True
    other = make_wheel(
        "torch", "2.13.0+cpu", tag="cp311-cp311-manylinux_2_28_x86_64", licence="BSD-3-Clause"
    )
    (tmp_path / other.file).write_bytes(other.data)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    assert TORCH.sha256 in caught.value.what
    assert other.sha256 in caught.value.what
    assert ["hash-mismatch"] == [row.key for row in caught.value.findings]
    assert "find-links of PIP_FIND_LINKS" in caught.value.what
    assert "nightlock lock tiny --upgrade-package torch" in caught.value.action
    lock(tiny, upgrade_packages=("torch",))
    assert TORCH.sha256 in tiny.line("torch")
    assert "left aside" in tiny.said.getvalue()
    lock(tiny)
    assert TORCH.sha256 in tiny.line("torch")


def test_a_file_replaced_under_its_name_is_refused(tiny: Tiny, general: FakeIndex) -> None:
    """hash-mismatch: the lock names other bytes than the index does now."""
    lock(tiny)
    before = tiny.lock_files()
    other = make_wheel("click", "8.1.0", licence="Apache-2.0")
    general.add(other)
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    assert f"the lock names sha256 {CLICK.sha256}" in caught.value.what
    assert "nightlock lock tiny --upgrade-package click" in caught.value.action
    assert ["hash-mismatch"] == [row.key for row in caught.value.findings]
    assert before == tiny.lock_files()
    lock(tiny, upgrade_packages=("click",))
    assert other.sha256 in tiny.line("click")


def test_what_need_not_change_does_not(tiny: Tiny, general: FakeIndex) -> None:
    """Newer versions are taken only for the asking, one package or all."""
    general.add(make_wheel("h11", "0.1"))
    tiny.spec("vllm==0.32.0", "torch", "h11", torch="pytorch-cpu")
    lock(tiny)
    general.add(make_wheel("click", "8.2.0"), make_wheel("h11", "0.2"))
    assert "unchanged" == recipe.run(tiny.context, "tiny").result.of("tiny").change
    lock(tiny, upgrade_packages=("click",))
    assert ("click==8.2.0", "h11==0.1") == tuple(
        tiny.line(name).split(" ")[0] for name in ("click", "h11")
    )
    result = recipe.run(tiny.context, "tiny", upgrade=True).result.of("tiny")
    assert [("h11", "0.1", "0.2")] == [(c.name, c.old, c.new) for c in result.changes]


def test_an_unknown_version_is_explained_in_words(tiny: Tiny, general: FakeIndex) -> None:
    """The resolver's own explanation, without its drawing; of vLLM ours."""
    tiny.spec("vllm==0.32.0", "torch", "click==99", torch="pytorch-cpu")
    with pytest.raises(Refused) as caught:
        recipe.run(tiny.context, "tiny")
    assert (
        f"click==99: the image asks for it; general at {general.url} has 8.1.0 (the requirements "
        "cannot be met: Because there is no version of click==99 and the image depends on "
        "click==99.)" == caught.value.what
    )
    assert ["dependency-on-no-index"] == [row.key for row in caught.value.findings]
    tiny.spec("vllm==0.99.0", "torch", torch="pytorch-cpu")
    with pytest.raises(Refused) as caught:
        recipe.run(tiny.context, "tiny")
    assert "no version of vllm is ==0.99.0; the newest is 0.32.0" == caught.value.what


def test_a_package_that_no_index_has_is_named(tiny: Tiny) -> None:
    """dependency-on-no-index: name and index."""
    tiny.spec("vllm==0.32.0", "torch", "no-such-thing", torch="pytorch-cpu")
    with pytest.raises(Refused, match="no-such-thing was not found on general at http"):
        recipe.run(tiny.context, "tiny")


def test_no_wheel_for_the_target_is_refused(tiny: Tiny, general: FakeIndex) -> None:
    """A wheel for another glibc, from the general index and from a bound one."""
    general.add(make_wheel("fast", "1.0", tag="cp311-cp311-manylinux_2_39_x86_64"))
    tiny.spec("vllm==0.32.0", "torch", "fast", torch="pytorch-cpu")
    with pytest.raises(Refused, match=r"no wheel fits the target: .*fast"):
        recipe.run(tiny.context, "tiny")
    tiny.settings.indexes["pytorch-cpu"] = general.url
    tiny.spec("vllm==0.32.0", "torch", "fast", fast="pytorch-cpu")
    with pytest.raises(Refused, match=r"no wheel of fast fits Python 3\.11, glibc 2\.36, x86_64"):
        recipe.run(tiny.context, "tiny")


def test_markers_and_tags_are_the_targets_not_the_hosts(tiny: Tiny, general: FakeIndex) -> None:
    """arm64 and amd64 of one image, each with its own wheels and marker values."""
    for machine in ("x86_64", "aarch64"):
        general.add(
            make_wheel(
                "vllm",
                "0.33.0",
                tag=f"cp38-abi3-manylinux_2_28_{machine}",
                requires=[
                    "only-arm; platform_machine == 'aarch64'",
                    "only-old; python_version < '3.12'",
                    "only-new; python_version >= '3.12'",
                ],
            ),
            make_wheel("best", "1", tag=f"cp311-cp311-manylinux_2_17_{machine}"),
        )
    general.add(
        make_wheel("best", "1"),
        make_wheel("best", "1", tag="cp310-abi3-manylinux_2_36_x86_64"),
        make_wheel("only-arm", "1"),
        make_wheel("only-old", "1"),
    )
    tiny.spec("vllm==0.33.0", "best", platforms=("linux/amd64", "linux/arm64"))
    made = lock(tiny)
    files = {
        platform: [pin.file for pin in content.wheels]
        for platform, content in made.platforms.items()
    }
    assert {
        "linux/amd64": [
            "best-1-cp311-cp311-manylinux_2_17_x86_64.whl",
            "only_old-1-py3-none-any.whl",
            "vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl",
        ],
        "linux/arm64": [
            "best-1-cp311-cp311-manylinux_2_17_aarch64.whl",
            "only_arm-1-py3-none-any.whl",
            "only_old-1-py3-none-any.whl",
            "vllm-0.33.0-cp38-abi3-manylinux_2_28_aarch64.whl",
        ],
    } == files


def test_one_platform_alone_leaves_the_other_as_it_was(tiny: Tiny, general: FakeIndex) -> None:
    """`--platform` moves one; the two never end up with two versions of vLLM."""
    for machine in ("x86_64", "aarch64"):
        general.add(
            make_wheel(
                "vllm", "0.33.0", tag=f"cp38-abi3-manylinux_2_28_{machine}", requires=["click"]
            )
        )
    tiny.spec("vllm>=0.32", platforms=("linux/amd64", "linux/arm64"))
    lock(tiny)
    arm = (tiny.lock / "linux-arm64.txt").read_bytes()
    general.add(make_wheel("click", "8.2.0"))
    lock(tiny, platforms=("linux/amd64",), upgrade=True)
    assert tiny.line("click").startswith("click==8.2.0 ")
    assert arm == (tiny.lock / "linux-arm64.txt").read_bytes()
    general.add(make_wheel("vllm", "0.34.0", tag="cp38-abi3-manylinux_2_28_x86_64"))
    lock(tiny, platforms=("linux/amd64",), upgrade=True)
    assert tiny.line("vllm").startswith("vllm==0.33.0 ")
    general.add(make_wheel("vllm", "0.34.0", tag="cp38-abi3-manylinux_2_28_aarch64"))
    with pytest.raises(Refused, match=r"vllm would differ between platforms: 0\.33\.0, 0\.34\.0"):
        recipe.run(tiny.context, "tiny", platforms=("linux/amd64",), upgrade=True)


@pytest.mark.parametrize("switch", ["no ranges", "PEP 658", "JSON", "redirect"])
def test_metadata_is_read_however_the_server_serves(
    tiny: Tiny, general: FakeIndex, switch: str
) -> None:
    """The lock is the same; without ranges the whole file comes, or a .metadata file."""
    lock(tiny)
    expected = tiny.lock_files()
    for path in tiny.lock.iterdir():
        path.unlink()
    general.ranges = switch not in ("no ranges", "PEP 658")
    general.metadata = switch == "PEP 658"
    general.json = switch in ("JSON", "PEP 658")
    general.redirect = switch == "redirect"
    tiny.cache = switch.replace(" ", "-")
    lock(tiny)
    assert expected == tiny.lock_files()


def test_a_size_that_is_not_the_files_is_refused(tiny: Tiny, general: FakeIndex) -> None:
    """The page says one size, the server another."""
    general.json = True
    general.sizes[CLICK.file] = len(CLICK.data) + 1
    with pytest.raises(HashMismatch, match=f"has {len(CLICK.data)} bytes where it is served"):
        recipe.run(tiny.context, "tiny")


def test_hash_mismatch_while_locking(tiny: Tiny, general: FakeIndex) -> None:
    """The page names one sha256, a server without ranges sends other bytes."""
    general.ranges = False
    general.served[CLICK.file] = CLICK.data[:-1] + b"?"
    with pytest.raises(HashMismatch) as caught:
        recipe.run(tiny.context, "tiny")
    assert [("hash-mismatch", CLICK.file)] == [
        (row.key, row.subject) for row in caught.value.findings
    ]
    assert "the index names sha256" in caught.value.what
    assert not tiny.lock.exists()


def test_a_renamed_wheel_is_a_finding_and_nothing_is_written(
    tiny: Tiny, general: FakeIndex
) -> None:
    """filename-metadata-version-differ."""
    general.wheels[CLICK.file] = make_wheel("click", "8.1.0", metadata_version="8.0.9").data
    outcome = recipe.run(tiny.context, "tiny")
    assert (False, "refused") == (outcome.ok, outcome.result.of("tiny").change)
    assert ["filename-metadata-version-differ"] == [row.key for row in outcome.findings]
    assert not tiny.lock.exists()


def test_filename_metadata_version_differ_by_the_label_alone(
    tiny: Tiny, general: FakeIndex, pytorch: FakeIndex
) -> None:
    """C14: METADATA's version is what gets installed, so the lock has it too; a warning."""
    for index in (general, pytorch):
        index.wheels.pop(TORCH.file, None)
    pytorch.add(
        make_wheel(
            "torch",
            "2.13.0+cpu",
            tag="cp311-cp311-manylinux_2_28_x86_64",
            metadata_version="2.13.0",
        )
    )
    outcome = recipe.run(tiny.context, "tiny")
    assert [("filename-metadata-version-differ", "warning")] == [
        (row.key, row.severity) for row in outcome.findings
    ]
    assert "2.13.0" == row(tiny, "torch")["metadata_version"]
    assert "metadata_version" not in row(tiny, "click")


def test_overrides_and_constraints_of_the_spec_count(tiny: Tiny, general: FakeIndex) -> None:
    """An override with a marker that is never true leaves a package out, without a finding."""
    general.add(make_wheel("click", "8.0.5"), make_wheel("click", "8.2.0"))
    tiny.spec(
        "vllm==0.32.0", overrides=("torch; sys_platform == 'never'",), constraints=("click<8.2",)
    )
    lock(tiny)
    assert ("", "click==8.1.0") == (tiny.line("torch"), tiny.line("click").split(" ")[0])


def test_tools_are_locked_apart_from_the_image(tiny: Tiny, general: FakeIndex) -> None:
    """What builds need is in the header, not in the platform file."""
    tool = make_wheel("uv", "0.13.9", tag="py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64")
    general.add(tool)
    tiny.spec("vllm==0.32.0", "torch", tools=("uv==0.13.9",), torch="pytorch-cpu")
    made = lock(tiny)
    assert [("uv", tool.sha256)] == [(p.name, p.sha256) for p in made.tools("linux/amd64")]
    assert "" == tiny.line("uv")


@pytest.mark.parametrize("tree", [False, True])
def test_folders_take_the_place_of_indexes(
    tiny: Tiny, general: FakeIndex, tmp_path: Path, tree: bool
) -> None:
    """`--index NAME=folder`, flat or with a page per project; the network is not asked."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    for wheel in (VLLM, CLICK, TORCH):
        name = wheel.file.split("-")[0]
        (folder / wheel.file).write_bytes(wheel.data)
        if tree:
            (folder / name).mkdir()
            link = f"../{wheel.file.replace('+', '%2B')}#sha256={wheel.sha256}"
            (folder / name / "index.html").write_text(f'<a href="{link}">{wheel.file}</a>')
    lock(tiny, indexes=(f"general={folder}", f"pytorch-cpu={folder}"))
    for wheel in (VLLM, CLICK, TORCH):
        assert wheel.sha256 in tiny.line(wheel.file.split("-")[0])
    assert ("index" if tree else "computed here") == row(tiny, "click")["hash_from"]
    assert [] == general.requests


def test_a_folder_that_is_not_there(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an index it is an error, as find-links it has nothing."""
    monkeypatch.setenv("PIP_FIND_LINKS", "/no/such/folder")
    lock(tiny)
    with pytest.raises(BadInput, match="there is no such folder") as caught:
        recipe.run(tiny.context, "tiny", indexes=("pytorch-cpu=/no/such/folder",))
    assert "pytorch-cpu at /no/such/folder" == caught.value.subject


def test_an_index_without_a_place_is_refused(tiny: Tiny) -> None:
    """A name nobody knows, with the ones there are."""
    tiny.spec("vllm==0.32.0", "torch", torch="my-own")
    with pytest.raises(SpecError, match="there is no index called 'my-own'"):
        recipe.run(tiny.context, "tiny")


def test_check_tells_a_stale_lock_from_a_good_one(tiny: Tiny, general: FakeIndex) -> None:
    """not-locked: no lock, a good one, another spec, an edited file; no file is asked for."""

    def check() -> Outcome[LockResult]:
        return recipe.run(tiny.context, "tiny", check=True)

    assert (False, ["not-locked"]) == (
        check().ok,
        [finding.key for finding in check().findings],
    )
    lock(tiny)
    general.requests.clear()
    assert check().ok
    assert {"/simple/click/", "/simple/vllm/"} == {path for _, path, _ in general.requests}
    asked = len(general.requests)
    tiny.spec("vllm==0.32.0", "torch", torch="pytorch-cpu")
    assert "it was made from spec sha256:" in check().findings[0].evidence
    tiny.spec("vllm==0.32.0", "torch==2.13.0", torch="pytorch-cpu")
    path = tiny.lock / "linux-amd64.txt"
    path.write_text(path.read_text().replace("click==8.1.0", "click==8.1.1"))
    assert "linux-amd64.txt was edited or damaged" == check().findings[0].evidence
    assert asked == len(general.requests)


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"check": True, "channel": "nightly"}, "--check, --channel"),
        ({"check": True, "commit": "abcdef1"}, "--check, --commit"),
        ({"check": True, "platforms": ("linux/amd64",)}, "--check, --platform"),
        ({"check": True, "upgrade": True, "out": Path("x")}, "--check, --upgrade, --out"),
        ({"check": True, "upgrade_packages": ("click",)}, "--check, --upgrade-package"),
        ({"check": True, "import_from": Path("x")}, "--check, --from"),
        ({"check": True, "cross_check": "pip-lock"}, "--check, --cross-check"),
        ({"check": True, "replan": True}, "--check, --replan"),
        ({"commit": "abcdef1", "channel": "release"}, "--commit, --channel release"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(
    tiny: Tiny, general: FakeIndex, options: dict[str, Any], flag: str
) -> None:
    """Before anything is asked: who says `--check --channel nightly` expects it to count."""
    with pytest.raises(BadInput) as caught:
        recipe.run(tiny.context, "tiny", **options)
    assert flag == caught.value.subject
    assert [] == general.requests


def test_out_writes_elsewhere_and_leaves_the_project_alone(tiny: Tiny, tmp_path: Path) -> None:
    """`--out DIR`."""
    recipe.run(tiny.context, "tiny", out=tmp_path / "elsewhere")
    assert not tiny.lock.exists()
    assert (tmp_path / "elsewhere" / "lock.toml").is_file()


@pytest.mark.parametrize("where", ["url", "netrc"])
def test_credentials_reach_the_index_and_nothing_else(
    tiny: Tiny, general: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """They stand in the index URL or in netrc; no file of the lock and no message has them."""
    general.user = "robot:s3cret"
    del tiny.settings.indexes["general"]
    if where == "url":
        monkeypatch.setenv("PIP_INDEX_URL", f"http://robot:s3cret@{general.host}/simple")
    else:
        monkeypatch.setenv("PIP_INDEX_URL", general.url)
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login robot password s3cret\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    lock(tiny)
    tiny.spec("vllm==9", "torch", torch="pytorch-cpu")
    with pytest.raises(Refused) as caught:
        recipe.run(tiny.context, "tiny")
    texts = [*(data.decode() for data in tiny.lock_files().values()), tiny.said.getvalue()]
    assert [] == [text for text in (*texts, str(caught.value)) if "s3cret" in text]


def test_the_debs_alone_are_locked_anew(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels stay, the .debs and their digest move, the project's own lock is not touched."""
    from dataclasses import replace  # noqa: PLC0415

    lock(tiny)
    before = tiny.lock_files()
    newer = replace(DEB, version="0.19.0-2", sha256="1" * 64)
    monkeypatch.setattr(debs, "resolve_base", lambda *_: (newer,))
    made, changes = recipe.relock_debs(tiny.context, "tiny", tmp_path / "state" / "tiny")
    assert [("tini", "0.19.0-1", "0.19.0-2")] == [(c.name, c.old, c.new) for c in changes]
    assert (newer,) == made.platforms["linux/amd64"].debs
    assert before == tiny.lock_files()
    assert (
        before["linux-amd64.txt"] == (tmp_path / "state" / "tiny" / "linux-amd64.txt").read_bytes()
    )
