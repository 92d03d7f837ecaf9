"""What an image should not carry: a driver's library, caches, the same bytes twice."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from builder.core.audit.layer import Image
from builder.core.audit.tree import Tree
from builder.core.finding import Finding
from builder.core.keys import finding

LARGEST_WASTE = 1 << 20
"""Hidden bytes, unpacked, that nobody needs to hear of."""
_SHOWN = 3
_DRIVER = re.compile(r"(?P<folder>.*/)libcuda\.so(?:\.\d+)*")
_SEARCHED = re.compile(r"(?:usr/)?(?:local/)?lib(?:64)?(?:/[a-z0-9_]+-linux-gnu)?/")
"""Folders where the loader looks without being told."""
_CACHES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"var/cache/apt/.+\.(?:deb|bin)"), "apt's cache"),
    (re.compile(r"var/lib/apt/lists/.+_(?:Packages|Sources|InRelease|Release)(?:\..+)?"),
     "apt's package lists"),
    (re.compile(r"(?:.*/)?\.cache/(?:pip|uv)/.+"), "an installer's cache"),
    (re.compile(r"(?:.*/)?\.cache/(?:huggingface|vllm|torch|flashinfer|triton)/.+"),
     "a cache of models or compiled code"),
    (re.compile(r".*\.dist-info/uv_cache\.json"), "an installer's note, with a time in it"),
    (re.compile(r"(?:tmp|var/tmp|root)/.+\.whl"), "wheels that were installed from"),
)  # fmt: skip


def check_compat(tree: Tree) -> list[Finding]:
    """Find a driver's library that shadows the host's (C35)."""
    image = tree.image
    if image is None:
        return []
    listed = dict(_listed_folders(tree))
    searched = image.environment.get("LD_LIBRARY_PATH", "")
    folders = {part.strip("/") for part in searched.split(":") if part}
    findings = []
    for path in sorted(tree.files):
        match = _DRIVER.fullmatch(path)
        if match is None or "/stubs/" in path:
            continue
        folder = match["folder"]
        plain = folder.rstrip("/")
        if plain in listed:
            why = f"/{listed[plain]} puts its folder on the loader's path"
        elif plain in folders:
            why = "LD_LIBRARY_PATH names its folder"
        elif _SEARCHED.fullmatch(folder):
            why = "the loader looks there by itself"
        else:
            why = ""
        findings.append(
            finding(
                "cuda-compat-803",
                severity=None if why else "warning",
                subject=f"/{path}",
                evidence=f"a driver's library is in the image; {why}"
                if why
                else "a driver's library is in the image, off the loader's path",
            )
        )
    seen = {posixpath.dirname(path) for path in tree.files if _DRIVER.fullmatch(path)}
    findings += [
        finding(
            "cuda-compat-803",
            subject=f"/{conf}",
            evidence=f"it puts /{folder} on the loader's path",
        )
        for folder, conf in sorted(listed.items())
        if "compat" in folder and folder not in seen
    ]
    return findings


def _listed_folders(tree: Tree) -> Iterator[tuple[str, str]]:
    for path in sorted(tree.texts):
        if path.startswith("etc/ld.so.conf"):
            for line in tree.text(path).splitlines():
                if line.startswith("/"):
                    yield line.strip().strip("/"), path


def check_caches(tree: Tree) -> list[Finding]:
    """Find what installers and downloads left behind."""
    if tree.kind != "image":
        return []
    found: dict[str, list[str]] = {}
    for path in sorted(tree.files):
        what = next((what for pattern, what in _CACHES if pattern.fullmatch(path)), "")
        if what and path not in tree.owners:
            found.setdefault(what, []).append(path)
    return [
        finding(
            "leftover-cache",
            subject=f"/{paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""),
            evidence=f"{what}, {sum(tree.files[path].size for path in paths)} bytes",
        )
        for what, paths in found.items()
    ]


def check_layers(image: Image) -> list[Finding]:
    """Find bytes that are shipped and that no container can see (C27)."""
    if image.wasted <= LARGEST_WASTE:
        return []
    total = sum(facts.size for layer in image.layers for facts in layer.files.values())
    pairs: dict[tuple[int, int], int] = {}
    for one in image.hidden:
        pairs[one.layer, one.by] = pairs.get((one.layer, one.by), 0) + one.facts.size
    rows = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    largest = max(image.hidden, key=lambda one: (one.facts.size, one.path))
    return [
        finding(
            "layer-duplication",
            subject=f"{len(image.hidden)} files",
            evidence=f"{image.wasted} of {total} bytes, unpacked, are hidden by later layers: "
            + ", ".join(
                f"layer {by + 1} hides {size} of layer {layer + 1}" for (layer, by), size in rows
            )
            + f"; the largest is /{largest.path} with {largest.facts.size}",
        )
    ]
