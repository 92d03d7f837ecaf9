"""What a tree is judged by: its lock and image.toml where they are known, else what it says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from builder.commands.context import Context
from builder.core.audit.judge import Yardstick
from builder.core.audit.tree import Tree
from builder.core.companion import programs_of
from builder.core.labels import CUDA, TARGETS
from builder.core.lock import Lock
from builder.core.spec import ImageSpec
from builder.core.target import MACHINES, Target, architecture
from builder.edge.project import image_names, read_spec
from builder.errors import BadInput

_PYTHON = re.compile(r"cp3(\d{1,2})")
_SITE_PYTHON = re.compile(r".*/python(3\.\d+)/(?:site|dist)-packages")
_GLIBC = re.compile(r"^(\d+\.\d+)")


def read_yardstick(
    context: Context,
    tree: Tree,
    lock: Lock | None,
    targets: Sequence[str],
    platform: str = "",
) -> Yardstick:
    """Put together what is known of what a tree is for.

    Raises BadInput for a GPU that cannot be one, or a platform the lock does not have.
    """
    for gpu in targets:
        if architecture(gpu) is None:
            raise BadInput("not a GPU architecture", subject=gpu, action="write it as sm_120")
    if lock is None:
        return Yardstick(target=_seen(tree, targets))
    platform = platform or _platform(tree, lock)
    spec = _spec(context, lock)
    header, content = lock.header, lock.platforms[platform]
    debs = [pin.name for pin in content.debs]
    labels = tree.image.labels if tree.image else {}
    stated = spec.image.targets if spec else labels.get(TARGETS, "").split(",")
    gpus = targets or [gpu for gpu in stated if architecture(gpu)]
    commit = header.vllm.commit
    return Yardstick(
        target=Target(
            cuda=header.target.cuda,
            gpus=tuple(gpus),
            python=header.target.python,
            glibc=header.target.glibc,
            platform=platform,
            package=header.vllm.package,
            commit=commit,
            programs=programs_of(debs) if debs else None,
        ),
        lock=content,
        spec=spec,
    )


def _spec(context: Context, lock: Lock) -> ImageSpec | None:
    """Return the project's image.toml, if the lock was made from it."""
    name = lock.header.image
    if name not in image_names(context.project):
        return None
    spec = read_spec(context.project, name)
    if spec.digest == lock.header.spec:
        return spec
    context.output.note(
        f"images/{name}/image.toml is not the one that the lock was made from; what it overrides "
        "is taken from the lock alone"
    )
    return None


def _platform(tree: Tree, lock: Lock) -> str:
    found = tree.image.platform if tree.image else ""
    if not found:
        found = _machine(tree) if len(lock.platforms) > 1 else next(iter(lock.platforms))
    if found not in lock.platforms:
        raise BadInput(
            f"the lock has no platform {found}",
            subject=tree.subject,
            action=f"it has: {', '.join(sorted(lock.platforms))}",
        )
    return found


def _seen(tree: Tree, targets: Sequence[str]) -> Target:
    """Say what a tree without a lock is for, from what it holds."""
    labels = tree.image.labels if tree.image else {}
    stated = [gpu for gpu in labels.get(TARGETS, "").split(",") if architecture(gpu)]
    torch = next((one.distribution for one in tree.imported if one.name == "torch"), None)
    cuda = labels.get(CUDA, "") or (torch.content.cuda or "" if torch else "")
    installed = _debs(tree)
    glibc = _GLIBC.match(installed.get("libc6", ""))
    return Target(
        cuda="" if cuda == "cpu" else cuda,
        gpus=tuple(targets or stated),
        python=_python(tree),
        glibc=glibc[1] if glibc else "",
        platform=(tree.image.platform if tree.image else "") or _machine(tree),
        package="vllm",
        programs=programs_of(installed) if installed else None,
    )


def _debs(tree: Tree) -> dict[str, str]:
    """Installed packages of Debian and their versions."""
    found = {}
    for block in tree.text("var/lib/dpkg/status").split("\n\n"):
        rows = dict(line.split(": ", 1) for line in block.splitlines() if re.match(r"\w+: ", line))
        if "Package" in rows and "Version" in rows:
            found[rows["Package"]] = rows["Version"]
    return found


def _python(tree: Tree) -> str:
    if match := _SITE_PYTHON.fullmatch(tree.site):
        return match[1]
    named = Counter(
        match[1]
        for one in tree.packages
        for tag in one.distribution.tags
        if tag.abi == tag.interpreter and (match := _PYTHON.fullmatch(tag.interpreter))
    )
    return f"3.{named.most_common(1)[0][0]}" if named else Target().python


def _machine(tree: Tree) -> str:
    """Return the platform that most wheels with compiled code are for."""
    found = Counter(
        platform
        for one in tree.packages
        for platform, machine in MACHINES.items()
        if any(tag.platform.endswith(machine) for tag in one.distribution.tags)
    )
    return found.most_common(1)[0][0] if found else "linux/amd64"
