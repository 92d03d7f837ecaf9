"""Packages that left while somebody who used them stayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from builder.core.diff import compare
from builder.core.diff_alarms import alarms
from builder.core.diff_dropped import dropped_packages
from builder.core.lock import Lock
from tests.support.two_nightlies import AMD64, ARM64, make_lock, new_night, old_night, wheel

Requires = Mapping[str, Sequence[str]]


def lock(versions: Mapping[str, str], requires: Requires, *platforms: str) -> Lock:
    """Make a lock of pure wheels: package → version, package → Requires-Dist."""
    pins = [wheel(name, version) for name, version in versions.items()]
    return make_lock(
        dict.fromkeys(platforms or (AMD64,), pins),
        requires=requires,
        vllm={"package": "vllm", "version": "1.0", "commit": ""},
    )


def why(old: Lock, new: Lock) -> dict[str, list[tuple[str, str, str]]]:
    """Give package → who misses it, why, and through which extra."""
    platforms = sorted(old.platforms)
    return {
        package.name: [(user.name, user.why, user.through) for user in package.users]
        for package in dropped_packages(old, new, platforms)
    }


def test_dependency_dropped_replays_sglang_30961() -> None:
    """FlashInfer drops an extra that vLLM asks for: one alarm that names all four compilers."""
    found = [a for a in alarms(compare(old_night(), new_night())) if a.key == "dependency-dropped"]
    compilers, six = found
    assert [True] * 4 == [
        f"{name} 13.0.88" in compilers.subject
        for name in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl")
    ]
    assert compilers.evidence.startswith(
        "vllm gets it through flashinfer-python[cu13], an extra that is gone"
    )
    assert "six 1.17.0 (linux/amd64, linux/arm64)" == six.subject


def test_a_requirement_that_is_still_there_is_an_error() -> None:
    """The user of the package names it as before: the lock is broken."""
    old = lock({"app": "1", "lib": "1"}, {"app": ["lib>=1"]})
    new = lock({"app": "1"}, {"app": ["Lib >= 1"]})
    assert {"lib": [("app", "still-required", "")]} == why(old, new)
    assert ["error"] == [alarm.severity for alarm in alarms(compare(old, new))]


def test_a_requirement_that_was_forgotten_is_a_warning() -> None:
    """The user stayed and does not name it any more."""
    old = lock({"app": "1", "lib": "1"}, {"app": ["lib"]})
    new = lock({"app": "2"}, {})
    assert {"lib": [("app", "no-longer-required", "")]} == why(old, new)
    assert ["warning"] == [alarm.severity for alarm in alarms(compare(old, new))]


def test_a_user_that_names_it_in_several_lines_is_said_once() -> None:
    """As packages do that need other versions on other Pythons."""
    requires = {"app": ["lib>=1", "lib>=2; python_version >= '3.12'"]}
    old, new = lock({"app": "1", "lib": "2"}, requires), lock({"app": "1"}, requires)
    assert {"lib": [("app", "still-required", "")]} == why(old, new)


def test_an_extra_that_still_exists_but_is_not_asked_for() -> None:
    """The one that asked is named, not the owner of the extra."""
    requires = {"lib": ["tool; extra == 'fast'"]}
    old = lock({"app": "1", "lib": "1", "tool": "1"}, {"app": ["lib[fast]"], **requires})
    new = lock({"app": "2", "lib": "1"}, {"app": ["lib"], **requires})
    assert {"tool": [("app", "extra-not-asked", "lib[fast]")]} == why(old, new)


def test_an_extra_that_lost_one_package() -> None:
    """The extra is there and asked for; its owner took the package out."""
    old = lock(
        {"app": "1", "lib": "1", "tool": "1", "other": "1"},
        {"app": ["lib[fast]"], "lib": ["tool; extra == 'fast'", "other; extra == 'fast'"]},
    )
    new = lock(
        {"app": "1", "lib": "2", "other": "1"},
        {"app": ["lib[fast]"], "lib": ["other; extra == 'fast'"]},
    )
    assert {"tool": [("lib", "no-longer-required", "lib[fast]")]} == why(old, new)


def test_an_extra_that_the_image_itself_asked_for() -> None:
    """image.toml is no part of a lock: an extra nobody asks for counts when it is gone."""
    old = lock({"lib": "1", "tool": "1"}, {"lib": ["tool; extra == 'fast'"]})
    assert {"tool": [("lib", "extra-gone", "lib[fast]")]} == why(old, lock({"lib": "2"}, {}))


def test_an_extra_asked_for_by_another_extra() -> None:
    """`lib[all]` asks for `lib[fast]`, as many packages do."""
    old = lock(
        {"app": "1", "lib": "1", "tool": "1"},
        {"app": ["lib[all]"], "lib": ["lib[fast]; extra == 'all'", "tool; extra == 'fast'"]},
    )
    new = lock({"app": "1", "lib": "2"}, {"app": ["lib[all]"]})
    assert {"tool": [("lib", "extra-gone", "lib[fast]")]} == why(old, new)


def test_what_nobody_misses_raises_no_alarm() -> None:
    """Users that left too, markers that never applied, extras nobody asked for."""
    gone = lock({"app": "1", "lib": "1"}, {"app": ["lib"]})
    assert {} == why(gone, lock({}, {}))
    foreign = lock({"app": "1", "lib": "1"}, {"app": ["lib; sys_platform == 'win32'"]})
    assert {} == why(foreign, lock({"app": "2"}, {}))
    unasked = lock(
        {"app": "1", "user": "1", "lib": "1"},
        {"user": ["lib"], "app": ["lib; extra == 'test'"]},
    )
    assert {} == why(unasked, lock({"app": "1"}, {"app": ["lib; extra == 'test'"]}))
    # The one that asked for the extra left, and so did what the extra brought.
    asked = lock(
        {"user": "1", "app": "1", "lib": "1"},
        {"user": ["app[fast]"], "app": ["lib; extra == 'fast'"]},
    )
    assert {} == why(asked, lock({"app": "2"}, {}))
    # Named by image.toml alone, and taken out of it.
    direct = lock({"app": "1", "lib": "1"}, {"app": ["lib; extra == 'fast'"]})
    assert {} == why(direct, lock({"app": "1"}, {"app": ["lib; extra == 'fast'"]}))


def test_markers_are_read_for_the_image_and_not_for_this_machine() -> None:
    """Each platform has its own answer."""
    old = lock(
        {"app": "1", "lib": "1"}, {"app": ["lib; platform_machine == 'aarch64'"]}, AMD64, ARM64
    )
    new = lock({"app": "2"}, {}, AMD64, ARM64)
    assert [["linux/arm64"]] == [
        package.platforms for package in dropped_packages(old, new, [AMD64, ARM64])
    ]


def test_metadata_that_is_not_pep_508_is_passed_over() -> None:
    """Old wheels hold such lines; they must not end a diff."""
    old = lock({"app": "1", "lib": "1"}, {"app": ["lib (>=1.*)", "lib>=1", "???"]})
    assert {"lib": [("app", "no-longer-required", "")]} == why(old, lock({"app": "2"}, {}))
