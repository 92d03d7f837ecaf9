"""`nightlock plan [IMAGE|SET…]`: layers with bytes, what upgrades pull, the matrix for CI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from builder.commands.context import Context, Outcome
from builder.commands.lock_check import judge_lock
from builder.commands.lock_history import Committed, committed
from builder.core import diff_words as words
from builder.core.churn import churn_of
from builder.core.diff_layers import pulls
from builder.core.diff_result import Pull
from builder.core.document import Result
from builder.core.finding import Finding
from builder.core.layers import group_names
from builder.core.layers import plan as make_plan
from builder.core.lock import Lock
from builder.core.sets import groups
from builder.core.spec import ImageSpec
from builder.edge import project as projects
from builder.errors import ToolMissing


class PlannedLayer(Result):
    """One layer of wheels."""

    number: int
    """Position, from 1 at the bottom."""
    name: str
    """Stage of the Dockerfile, and folder of wheels."""
    bytes: int
    """Of its wheels; the layer has about as many."""
    expected: int
    """Bytes of it that an upgrade pulls on average."""
    packages: list[str]


class PlannedSince(Result):
    """What a host pulls that has the image of the lock before."""

    revision: str
    """Commit that has the lock before, 40 hex digits."""
    lock: str
    """Its digest."""
    pull: Pull


class PlannedPlatform(Result):
    """The layers of one platform."""

    platform: str
    bytes: int
    """Of all wheels."""
    base_bytes: int
    """Of all .debs; 0 where the base is an image."""
    budget: int
    """Most layers that image.toml allows."""
    expected: int
    """Bytes that an upgrade pulls on average."""
    expected_anew: int
    """The same under a plan made anew, as `lock --replan` does."""
    upgrades: int
    """Earlier upgrades of the lock that both rest on, beside rates of kinds."""
    layers: list[PlannedLayer]
    since: PlannedSince | None = None
    """None where git knows no other lock of this platform."""


class PlannedImage(Result):
    """One image."""

    image: str
    sets: list[str]
    """Sets it belongs to."""
    lock: str
    """Lock digest; empty when there is none."""
    path: str
    platforms: list[PlannedPlatform]
    """Empty when there is no lock."""


class MatrixRow(Result):
    """One job."""

    image: str
    platform: str
    set: str
    """The first set that has the image for this platform; empty when none has."""
    lock: str
    """Lock digest; empty when there is none."""


class Matrix(Result):
    """As GitHub's `strategy.matrix` takes it."""

    include: list[MatrixRow]


class PlanResult(Result):
    """Layers of each image, and what CI has to run."""

    images: list[PlannedImage]
    sets: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Set → platform → image."""
    matrix: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """One image before it is described."""

    spec: ImageSpec
    sets: tuple[str, ...]
    lock: Lock | None
    problem: Finding | None
    earlier: tuple[Committed, ...]
    """Committed locks, newest first."""


def run(context: Context, *names: str) -> Outcome[PlanResult]:
    """Say how the locks spread wheels over layers; without names, all images.

    A lock that is missing or stale is a finding; the answer is no when it was asked for by name.
    """
    sets, known = projects.read_sets(context.project), projects.image_names(context.project)
    wanted = [image for group in groups(names, sets, known) for image in group.images] or known
    found = [_read(context, name, sets) for name in dict.fromkeys(wanted)]
    images = [_describe(context, one) for one in found]
    result = PlanResult(
        images=images,
        sets=sets,
        matrix=Matrix(include=[row for one in found for row in _rows(one, sets)]),
    )
    problems = [one.problem for one in found if one.problem is not None]
    if not names:
        problems = [row.model_copy(update={"severity": "warning"}) for row in problems]
    return Outcome(
        result=result,
        text="\n\n".join("\n".join(_lines(image)) for image in images),
        ok=not (names and problems),
        findings=tuple(problems),
    )


def _read(context: Context, name: str, sets: Mapping[str, Mapping[str, str]]) -> _Image:
    spec = projects.read_spec(context.project, name)
    lock, problem = judge_lock(spec, context.lock_folder(name))
    earlier: list[Committed] = []
    try:
        earlier = list(committed(context, name)) if lock is not None else []
    except ToolMissing as error:
        context.output.note(f"  no earlier locks: {error.what}")
    return _Image(
        spec=spec,
        sets=tuple(sorted(key for key, members in sets.items() if name in members.values())),
        lock=lock,
        problem=problem,
        earlier=tuple(earlier),
    )


def _describe(context: Context, one: _Image) -> PlannedImage:
    return PlannedImage(
        image=one.spec.name,
        sets=list(one.sets),
        lock=one.lock.digest if one.lock else "",
        path=str(context.lock_folder(one.spec.name)),
        platforms=[_platform(one, one.lock, name) for name in one.lock.platforms]
        if one.lock
        else [],
    )


def _platform(one: _Image, lock: Lock, platform: str) -> PlannedPlatform:
    content, last = lock.platforms[platform], lock.header.vllm.package
    past = [row.lock.platforms.get(platform) for row in reversed(one.earlier)]
    churn = churn_of(content, last, [row for row in past if row is not None])
    plan, layers = lock.header.layers[platform], one.spec.layers
    anew = make_plan(churn, last=last, alone_above=layers.alone_above, budget=layers.budget)
    return PlannedPlatform(
        platform=platform,
        bytes=sum(pin.size for pin in content.wheels),
        base_bytes=sum(pin.size for pin in content.debs),
        budget=layers.budget,
        expected=churn.expected(plan, last),
        expected_anew=churn.expected(anew, last),
        upgrades=churn.known,
        layers=[
            PlannedLayer(
                number=number,
                name=name,
                bytes=churn.size(group),
                expected=churn.expected([group], last),
                packages=list(group),
            )
            for number, (name, group) in enumerate(
                zip(group_names(plan), plan, strict=True), start=1
            )
        ],
        since=_since(one.earlier, lock, platform),
    )


def _since(earlier: Sequence[Committed], lock: Lock, platform: str) -> PlannedSince | None:
    """Compare with the newest committed lock that is another one."""
    for row in earlier:
        if row.lock.digest != lock.digest and platform in row.lock.platforms:
            (pull,) = pulls(row.lock, lock, [platform])
            return PlannedSince(revision=row.commit, lock=row.lock.digest, pull=pull)
    return None


def _rows(one: _Image, sets: Mapping[str, Mapping[str, str]]) -> Iterator[MatrixRow]:
    for platform in sorted(set(one.spec.image.platforms)):
        homes = [name for name in one.sets if sets[name].get(platform) == one.spec.name]
        yield MatrixRow(
            image=one.spec.name,
            platform=platform,
            set=homes[0] if homes else "",
            lock=one.lock.digest if one.lock else "",
        )


def _lines(image: PlannedImage) -> Iterator[str]:
    if not image.lock:
        yield f"{image.image}: no lock that can be read"
    for number, row in enumerate(image.platforms):
        yield from [""] if number else []
        base = f", base {words.size(row.base_bytes)}" if row.base_bytes else ""
        yield (
            f"{image.image} {row.platform}: {len(row.layers)} of {row.budget} layers, "
            f"wheels {words.size(row.bytes)}{base}"
        )
        for layer in row.layers:
            first = layer.packages[0]
            more = len(layer.packages) - 1
            title = f"{first} and {more} more" if more else first
            yield (
                f"  {layer.number:>2}  {words.size(layer.bytes):>9}  "
                f"{100 * layer.expected / max(layer.bytes, 1):>3.0f} %  {title}"
            )
        yield (
            f"  an upgrade pulls {words.size(row.expected)} of wheels on average "
            f"({row.upgrades} earlier ones known)"
        )
        if row.expected_anew < row.expected:
            yield (
                f"  under a new plan {words.size(row.expected_anew)}, after one pull of what it "
                f"moves: nightlock lock {image.image} --replan"
            )
        if row.since is not None:
            yield f"  since {row.since.revision[:9]}: {words.pull_line(row.since.pull)}"
            for pulled in row.since.pull.layers:
                cause = words.layer_cause(pulled)
                yield f"    layer {pulled.number}, {words.size(pulled.bytes)}: {cause}"
