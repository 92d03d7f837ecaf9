"""Bytes that upgrades pull, over the locks of vLLM's releases as they would have been made.

    python tests/bench/plan.py --cache DIR              0.26 … 0.33; 0.20 … 0.26 as history
    python tests/bench/plan.py --cache DIR --upgrade    every package moves with each release
    python tests/bench/plan.py --cache DIR --budget 16  another number of layers

Each release is resolved as of the minute it came out (uv's --exclude-newer), for the platform,
Python and CUDA of the image cuda13-sm120; as in `nightlock lock`, a version that need not move
stays. Sizes are the index's; of each wheel only METADATA is read, by range. `DIR` keeps all of
that: a first run takes five minutes and more, another one seconds. Needs the package index.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import mean

from packaging.utils import parse_wheel_filename
from packaging.version import Version
from pypi_simple import PyPISimple
from uv import find_uv_bin

from builder.core.churn import RATES, Kind, churn_of, wheels_of
from builder.core.diff_layers import to_pull
from builder.core.diff_metadata import requires_of
from builder.core.layers import Groups, plan
from builder.core.lock import PlatformLock, WheelPin
from builder.core.pick import best
from builder.core.resolve import parse_pylock
from builder.core.settings import Settings
from builder.core.simple import Candidate
from builder.core.spec import ImageSpec
from builder.core.toolchain import constraints
from builder.core.wheel_target import wheel_target
from builder.edge.pool import Stop, each
from builder.edge.project import read_spec
from builder.edge.reach import open_indexes
from builder.edge.store import Store
from builder.edge.wheels import WheelReader

PROJECT = Path(__file__).parents[2]
VLLM = "vllm"
PLATFORM = "linux/amd64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release, locked on its day."""

    version: str
    content: PlatformLock

    @property
    def sizes(self) -> dict[str, int]:
        """Package → bytes."""
        return {pin.name: pin.size for pin in self.content.wheels}

    def layers(self, groups: Groups) -> list[set[str]]:
        """Name the wheels of each layer by their sha256."""
        hashes = {pin.name: pin.sha256 for pin in self.content.wheels}
        return [{hashes[name] for name in group} for group in groups]


def releases(first: Version, last: Version) -> dict[str, datetime]:
    """List versions of vLLM and when their last wheel for the platform came out, oldest first."""
    with PyPISimple() as client:
        packages = client.get_project_page(VLLM).packages
    found: dict[Version, datetime] = {}
    for package in packages:
        wheel = package.package_type == "wheel" and package.filename.endswith("x86_64.whl")
        if not wheel or package.upload_time is None:
            continue
        version = parse_wheel_filename(package.filename)[1]
        if version.is_prerelease or not first.release[:2] <= version.release[:2]:
            continue
        if version.release[:2] <= last.release[:2]:
            found[version] = max(found.get(version, package.upload_time), package.upload_time)
    return {str(version): when for version, when in sorted(found.items())}


def resolve(
    spec: ImageSpec, version: str, when: datetime, before: str, folder: Path
) -> tuple[str, list[Candidate]]:
    """Resolve as of a moment; `before` is an earlier answer, whose versions are kept."""
    target = wheel_target(spec, PLATFORM)
    answer, wanted, held = (folder / name for name in ("pylock.b.toml", "in.txt", "held.txt"))
    if before:
        answer.write_text(before)
    asked = [text for text in spec.lock.requirements if text != VLLM]
    wanted.write_text("\n".join([f"{VLLM}=={version}", *asked]))
    held.write_text("\n".join(constraints(spec.image.cuda or "")))
    argv = [
        find_uv_bin(), "pip", "compile", "--no-config", "--quiet", "--no-header", "--no-annotate",
        "--format", "pylock.toml", "--only-binary", ":all:", "--python-version", target.python,
        "--python-platform", target.uv_platform, "--constraints", str(held),
        "--exclude-newer", (when + timedelta(minutes=1)).isoformat(),
        "--output-file", str(answer), str(wanted),
    ]  # fmt: skip
    subprocess.run(argv, check=True)
    text = answer.read_text()
    chosen = [best(package.wheels, target) for package in parse_pylock(text, "general")]
    return text, [wheel for wheel in chosen if wheel is not None]


def locked(
    spec: ImageSpec, wanted: dict[str, datetime], cache: Path, *, upgrade: bool
) -> list[Release]:
    """Lock each release after the other."""
    found, before = [], ""
    with open_indexes(Settings(), os.environ, connections=32) as indexes:
        reader = WheelReader(indexes.client, Store(cache / "store"), cache / "facts")

        def read(wheel: Candidate, _stop: Stop) -> tuple[WheelPin, list[str]]:
            facts = reader.facts(wheel, wheel.sha256)
            pin = WheelPin(
                name=wheel.name,
                version=str(wheel.version),
                sha256=wheel.sha256,
                file=wheel.file,
                size=facts.size,
                index="general",
            )
            return pin, facts.requires_dist

        for version, when in wanted.items():
            kept = cache / ("upgrade" if upgrade else "keep") / f"{version}.json"
            if kept.is_file():
                before, rows = json.loads(kept.read_text())
                wheels = [Candidate(**row) for row in rows]
            else:
                with tempfile.TemporaryDirectory() as folder:
                    start = "" if upgrade else before
                    before, wheels = resolve(spec, version, when, start, Path(folder))
                rows = [
                    {"file": w.file, "url": w.url, "place": "", "sha256": w.sha256, "size": w.size}
                    for w in wheels
                ]
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps([before, rows]))
            pairs = each(read, wheels, threads=16)
            content = PlatformLock(
                wheels=tuple(sorted(pin for pin, _ in pairs)),
                debs=(),
                meta={pin.name: {"requires_dist": lines} for pin, lines in pairs},
            )
            found.append(Release(version=version, content=content))
    return found


Strategy = Callable[[Release, Groups], Groups]
"""Release and the plan before → its plan."""


def strategies(
    spec: ImageSpec, every: Sequence[Release], start: int, budget: int
) -> dict[str, Strategy]:
    """Name the contenders; releases before number `start` are history and not measured."""

    def make(release: Release, before: Groups, known: Sequence[Release]) -> Groups:
        return plan(
            churn_of(release.content, VLLM, [one.content for one in known]),
            last=VLLM,
            alone_above=spec.layers.alone_above,
            budget=budget,
            previous=before,
        )

    return {
        "one layer": lambda release, _: [sorted(release.sizes)],
        "planner": lambda release, before: make(release, before, []),
        "planner, history": lambda release, before: make(
            release, before, [] if before else every[:start]
        ),
        "anew each time": lambda release, _: make(release, (), every[: every.index(release)]),
        "a layer each": lambda release, _: [
            *([name] for name in sorted(release.sizes) if name != VLLM),
            [VLLM],
        ],
    }


def pulled(found: Sequence[Release], make: Strategy, *, chained: bool) -> list[int]:
    """Bytes that a host pulls at each upgrade, which has the release before."""
    rows, groups = [], list(make(found[0], ()))
    for old, new in pairwise(found):
        before, groups = old.layers(groups), list(make(new, groups))
        sizes = new.sizes
        wanted = to_pull(before, new.layers(groups), chained=chained)
        rows.append(sum(sizes[name] for at in wanted for name in groups[at]))
    return rows


def table(found: Sequence[Release], contenders: dict[str, Strategy]) -> Iterable[str]:
    """One row an upgrade, in MB, and the means; `chained` is what Docker's older stores pull."""
    columns = {name: pulled(found, make, chained=False) for name, make in contenders.items()}
    for name in ("planner", "planner, history"):
        columns[f"{name}, chained"] = pulled(found, contenders[name], chained=True)
    yield f"| upgrade | wheels changed | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 2) + "|"
    for at, (old, new) in enumerate(pairwise(found)):
        before = {pin.sha256 for pin in old.content.wheels}
        moved = sum(pin.sha256 not in before for pin in new.content.wheels)
        cells = " | ".join(f"{rows[at] / 1e6:,.0f}" for rows in columns.values())
        yield f"| {old.version} → {new.version} | {moved} | {cells} |"
    cells = " | ".join(f"{mean(rows) / 1e6:,.0f}" for rows in columns.values())
    yield f"| **mean** | | {cells} |"
    whole = mean(columns["one layer"])
    cells = " | ".join(f"{mean(rows) / whole:.2f}" for rows in columns.values())
    yield f"| **of one layer** | | {cells} |"


def rates(found: Sequence[Release]) -> str:
    """Count how often a cause of each kind moved: what `RATES` of core/churn.py rests on."""
    there: Counter[Kind] = Counter()
    moved: Counter[Kind] = Counter()
    for old, new in pairwise(found):
        before = {pin.sha256 for pin in old.content.wheels}
        pins = {pin.name: pin for pin in new.content.wheels if pin.name != VLLM}
        requires = {name: requires_of(new.content, name) for name in (*pins, VLLM)}
        versions = {name: pin.version for name, pin in pins.items()}
        causes: dict[str, Kind] = {}
        changed = set()
        for wheel in wheels_of(new.sizes, versions, requires, VLLM):
            if wheel.name == VLLM:
                continue
            causes[wheel.cause] = max(
                causes.get(wheel.cause, wheel.kind), wheel.kind, key=RATES.__getitem__
            )
            if pins[wheel.name].sha256 not in before:
                changed.add(wheel.cause)
        there.update(causes.values())
        moved.update(causes[cause] for cause in changed)
    shares = (f"{kind} {1000 * moved[kind] / there[kind]:.0f}" for kind in RATES)
    return f"{found[0].version} to {found[-1].version}: of 1000 upgrades, {', '.join(shares)}"


def main() -> None:
    """Resolve, plan, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cache", type=Path, required=True, help="keeps what was resolved")
    parser.add_argument("--past", default="0.20", help="first release of the history")
    parser.add_argument("--first", default="0.26")
    parser.add_argument("--last", default="0.33")
    parser.add_argument("--budget", type=int, help="most layers; image.toml's unless given")
    parser.add_argument("--upgrade", action="store_true", help="all packages move each time")
    given = parser.parse_args()
    spec = read_spec(PROJECT, "cuda13-sm120")
    wanted = releases(Version(given.past), Version(given.last))
    every = locked(spec, wanted, given.cache, upgrade=given.upgrade)
    start = next(at for at, one in enumerate(every) if Version(one.version) >= Version(given.first))
    budget = given.budget or spec.layers.budget
    contenders = strategies(spec, every, start, budget)
    print(f"{'upgrade' if given.upgrade else 'keep'}, {budget} layers, MB\n")
    print("\n".join(table(every[start:], contenders)))
    print(f"\nrates of kinds, {rates(every[: start + 1])}; {rates(every[start:])}")


if __name__ == "__main__":
    main()
