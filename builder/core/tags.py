"""Tags: names inside a repository (OCI distribution-spec, `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`)."""

from __future__ import annotations

import re

from builder.core.lock import Header
from builder.core.spec import ImageSpec

_COMMIT_DIGITS = 9
_BUILD_DIGITS = 12


def candidate_tag(spec: ImageSpec, header: Header, build_id: str) -> str:
    """Spell the one immutable tag of a build.

    `<version>[-g<9 hex>][-cu130]-sm120-<12 hex of the build id>`; the commit is said of nightlies
    only, a release's version names it. `build_id` is `sha256:` and 64 hex digits.
    """
    parts = [version_part(header)]
    if header.channel == "nightly":
        parts.append(f"g{header.vllm.commit[:_COMMIT_DIGITS]}")
    if header.target.cuda:
        parts.append("cu" + header.target.cuda.replace(".", ""))
    parts += [target.replace("_", "") for target in spec.image.targets]
    parts.append(build_id.removeprefix("sha256:")[:_BUILD_DIGITS])
    return "-".join(parts)


def version_part(header: Header) -> str:
    """Spell vLLM's version inside a tag, where `+` and `!` are not allowed.

    Of the local label what other parts of the tag say is left out (commit, variant, CUDA); what
    remains follows after `_`: `0.33.0+cu130` → `0.33.0`, `0.33.0+fork.2` → `0.33.0_fork.2`.
    """
    public, _, local = header.vllm.version.partition("+")
    said = {header.vllm.variant, "cu" + header.target.cuda.replace(".", "")}
    labels = [
        label
        for label in local.split(".")
        if label and label not in said and not re.fullmatch(r"g[0-9a-f]{7,40}", label)
    ]
    return "_".join([public.replace("!", "_"), *([".".join(labels)] if labels else [])])
