"""Keys met while images are released."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="nightly-tags-purged",
        title="an upstream nightly tag is gone or about to go",
        kind="release",
        severity="warning",
        case="C63",
        cause="Upstream keeps the tags of about 14 builds.",
        action="Mirror by digest while it exists, or move to a build of your own.",
        seen="vllm-project/vllm#24102 vllm-project/recipes#241 noonghunna/club-3090#165 "
        "noonghunna/club-3090#167 noonghunna/club-3090#258 SemiAnalysisAI/InferenceX#2143 "
        "SemiAnalysisAI/InferenceX#2855",
    ),
    Key(
        key="mutable-tag-broke-users",
        title="a run file names a tag that moves",
        kind="release",
        severity="error",
        case="C64",
        cause="`nightly`, `latest` or no tag at all pulls another build at the next restart.",
        action="Name the image by digest, with the tag in a comment.",
        seen="noonghunna/qwen36-27b-single-3090#6 cq27-dev/rag-rat#689 ROCm/aiter#3043 "
        "ROCm/aiter#1389 vllm-project/vllm#19335 vllm-project/vllm#24805 vllm-project/vllm#4949",
    ),
    Key(
        key="tag-meaning-inverted",
        title="a tag's name no longer says which CUDA it has",
        kind="release",
        severity="error",
        case="C65",
        cause="Upstream's default variant changed with a minor release; tags without a suffix "
        "changed their meaning.",
        action="Read the variant from the image's config and labels, never from a tag.",
        seen="vllm-project/vllm#39878 vast-ai/base-image#158 NVIDIA/Model-Optimizer#2042 "
        "llm-d/llm-d-kv-cache#584",
    ),
    Key(
        key="channel-stalled",
        title="a channel has stood still",
        kind="release",
        severity="warning",
        case="C66",
        cause="A variant was given up or its builds fail; the old tag or page stays and looks "
        "like last night's.",
        action="Look at the named newer sibling, and change the channel if it is the successor.",
        seen="vllm-project/vllm#42738 vllm-project/vllm#41350 vllm-project/vllm#44515 "
        "flashinfer-ai/flashinfer#5259",
    ),
    Key(
        key="tag-vs-content",
        title="an image holds another version than its name or labels say",
        kind="release",
        severity="error",
        case="C67",
        cause="A build argument shadowed the version, or a tool picked a junk tag; nothing "
        "compared the two.",
        action="Do not promote; rebuild from the lock and compare versions inside.",
        seen="substratusai/vllm-docker#30 llm-d/llm-d-benchmark#1572 MooreThreads/vllm-musa#104 "
        "aws/deep-learning-containers#5989",
    ),
    Key(
        key="promotion-changes-digest",
        title="promotion gave the image another digest",
        kind="release",
        severity="error",
        case="C68",
        cause="The tool wrapped the manifest in a new index, so signatures and receipts no longer "
        "match.",
        action="Put the same manifest bytes under the new tag, and read them back.",
        seen="omnigent-ai/omnigent#383 opslane/opslane#186 MorganKryze/cairn#64 "
        "XBP-Europe/sagemath-mcp#131 adorsys/status-list-server#475 docker/buildx#2481 "
        "harvard-lil/h2o#2149 open-software-network/os-clovy#44 docker/build-push-action#764",
    ),
    Key(
        key="arm64-missing",
        title="the image lacks a platform",
        kind="release",
        severity="error",
        case="C69",
        cause="Architectures are published by separate jobs.",
        action="Wait for the missing platform, or promote it alone on purpose.",
        seen="vllm-project/vllm#22206 eugr/spark-vllm-docker#21 docker/model-runner#637",
    ),
    Key(
        key="cve-and-sbom",
        title="a scanner's list has new entries",
        kind="release",
        severity="warning",
        case="C70",
        cause="Most come from the base or from build tools; without a comparison nobody sees what "
        "changed.",
        action="Look at the new ones, each with its layer; lock the base again for its fixes.",
        seen="vllm-project/vllm#41264 vllm-project/vllm#24507 vllm-project/vllm#24508 "
        "vllm-project/vllm#13580",
    ),
    Key(
        key="regression-and-rollback",
        title="a promoted build is worse than the one before",
        kind="release",
        severity="error",
        case="C71",
        cause="Several parts move each night, and small losses show days later.",
        action="`nightlock rollback TAG`, then `nightlock bisect GOOD BAD`.",
        seen="vllm-project/vllm#50435 noonghunna/club-3090#106 pytorch/pytorch#192057 "
        "NVIDIA-NeMo/RL#4080",
    ),
    Key(
        key="receipt-not-attached",
        title="a receipt lies on this machine alone",
        kind="release",
        severity="warning",
        cause="The registry did not take it: this account may read and not push, or it went away.",
        action="Log in with an account that may push and run `nightlock smoke` again, or promote "
        "from this machine.",
    ),
    Key(
        key="blob-damaged",
        title="a layer arrived damaged",
        kind="release",
        severity="error",
        cause="Bytes changed on the way; the digest in the message differs at each try.",
        action="Try again, then pull from a mirror of your own.",
        seen="VeraTools/vera#55",
    ),
)
"""In the order of the cases."""
