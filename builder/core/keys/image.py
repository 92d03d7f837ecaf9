"""Keys of what is inside a set of packages or an image, met on locks, wheels and images alike."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="companion-missing",
        title="a companion package is absent, and no policy says it may be",
        kind="lock",
        severity="error",
        cause="vLLM's metadata does not name it, so no resolver asks for it; without it kernels "
        "are compiled or downloaded when the first request needs them.",
        action='Add it at the version of its leader, or state the policy "none" for it in '
        "image.toml and ship what compiling needs.",
        seen="vllm-project/vllm#49804 vllm-project/vllm#47456",
    ),
    Key(
        key="cuda-toolchain-mixed",
        title="parts of the CUDA toolkit are of different minors",
        kind="lock",
        severity="error",
        cause="Packages ask for nvcc, cccl or cuda-python without an upper bound, so a resolver "
        "takes the newest beside the toolkit that torch pins. FlashInfer then cannot compile, "
        "and the driver may refuse the newer PTX.",
        action="Constrain the whole toolkit to the image's CUDA minor; `nightlock lock` does it "
        "by itself.",
        seen="vllm-project/vllm#47397",
    ),
    Key(
        key="dependency-conflict",
        title="a package's own requirement is not met",
        kind="lock",
        severity="error",
        cause="A pin was forced, overridden or installed without its dependencies.",
        action="Lock again without the override, or state it in [lock] of image.toml so that it "
        "is on purpose.",
        seen="vllm-project/vllm#48054",
    ),
    Key(
        key="distribution-twice",
        title="one package is there twice",
        kind="build",
        severity="error",
        cause="A copy from the base or an older layer was not removed; which of the two is "
        "imported depends on the search path.",
        action="Remove the copy that the lock does not name.",
        seen="vllm-project/vllm#49804",
    ),
    Key(
        key="wheel-not-for-target",
        title="a wheel does not fit the image's Python or machine",
        kind="lock",
        severity="error",
        cause="Its compatibility tags name another interpreter, ABI or architecture.",
        action="Lock for this platform again; the installer would refuse the file.",
        seen="eugr/spark-vllm-docker#21",
    ),
    Key(
        key="path-owned-twice",
        title="two packages ship the same path with different bytes",
        kind="lock",
        severity="error",
        cause="The last one installed wins, and installers work in parallel: the result is an "
        "accident.",
        action="Constrain one of them away, or state the winner in the lock.",
    ),
    Key(
        key="not-locked",
        title="something is in the image that the lock does not name",
        kind="build",
        severity="error",
        cause="It came from the base, from a build step, or was installed later.",
        action="Remove it, or add it to image.toml and lock again.",
        seen="vllm-project/vllm#49804",
    ),
    Key(
        key="file-edited",
        title="a file differs from its package's RECORD",
        kind="build",
        severity="error",
        cause="It was changed after the wheel was installed.",
        action="Rebuild the image from its lock; patch by a wheel of your own, which is locked.",
    ),
    Key(
        key="file-stray",
        title="a file belongs to no package",
        kind="build",
        severity="error",
        cause="A build step, an installer's cache or an earlier layer left it.",
        action="Find the layer that brought it and remove it there.",
    ),
    Key(
        key="secret-in-layer",
        title="a credential is stored in a layer or in the image's config",
        kind="build",
        severity="error",
        cause="A token was copied, written by a tool, or passed as an argument; deleting it in a "
        "later layer does not remove it.",
        action="Revoke the credential, then rebuild without it; pass it at run time.",
    ),
    Key(
        key="leftover-cache",
        title="an installer's or a download's cache is in the image",
        kind="build",
        severity="warning",
        cause="A build step wrote it and no step of the same layer removed it.",
        action="Keep caches out of layers: a cache mount, or `--no-cache` and a removal in the "
        "step that writes them.",
    ),
    Key(
        key="object-unreadable",
        title="a shared object's tables cannot be read",
        kind="build",
        severity="warning",
        cause="The file is damaged, or was made by a tool that puts its tables where nobody else "
        "does; what it needs is not known.",
        action="Compare the file with the one its wheel has; look at it with `readelf -d`.",
    ),
    Key(
        key="acceptance-expired",
        title="an accepted finding is still there after its last day",
        kind="release",
        severity="error",
        cause="images/policy.toml accepts it until a day that has passed.",
        action="Mend what was accepted, or look at it again and move `until` in `[[accept]]`.",
    ),
    Key(
        key="model-incomplete",
        title="a checkpoint lacks files, or has some that are damaged",
        kind="boot",
        severity="error",
        cause="The download was cut short, or only a part of the repository was copied.",
        action="Fetch the named files again; compare with the index file's list of shards.",
        seen="huggingface/huggingface_hub#4624",
    ),
    Key(
        key="overlay-stale",
        title="the checkpoint under an overlay is not the one it was made from",
        kind="boot",
        severity="error",
        cause="An overlay is links to a checkpoint and a corrected config; files of the checkpoint "
        "were changed or went away after it was made.",
        action="Make the overlay anew: nightlock model check SOURCE --overlay DIR.",
    ),
    Key(
        key="file-rehashed",
        title="the same file name and version now has another hash",
        kind="lock",
        severity="error",
        cause="Upstream replaced the file, or another index served it.",
        action="Find out which, compare the contents, and promote only when it is explained.",
        seen="pytorch/pytorch#145501 pytorch/pytorch#168362",
    ),
    Key(
        key="dependency-dropped",
        title="a package left while something that used it stayed",
        kind="lock",
        severity="warning",
        cause="A requirement was dropped upstream, on purpose or by mistake; imports that are not "
        "declared fail only when they are reached.",
        action="Check that what stayed works without it before promoting.",
        seen="sgl-project/sglang#30961",
    ),
    Key(
        key="companion-downgraded",
        title="a package that must match vLLM went back to an older version; vLLM did not",
        kind="lock",
        severity="warning",
        cause="A constraint, an override, another package's pin or a withdrawn version holds it "
        "back; vLLM's metadata does not pin all of its companions.",
        action="Find what holds it back, and promote only when it is meant.",
        seen="vllm-project/vllm#49804",
    ),
)
"""Set first, then its files."""
