"""Keys met while a server is asked."""

from __future__ import annotations

from builder.core.keys.key import Key

KEYS: tuple[Key, ...] = (
    Key(
        key="reasoning-field-rename",
        title="reasoning arrives under another field name",
        kind="api",
        severity="info",
        case="C54",
        cause="`reasoning_content` became `reasoning`; both have existed side by side.",
        action="Read both; list the change when two images differ.",
        seen="vllm-project/vllm#50624 vllm-project/vllm#27752 vllm-project/vllm#27755 "
        "vllm-project/vllm#33402 vllm-project/vllm#42664 BerriAI/litellm#20821",
    ),
    Key(
        key="content-null",
        title="status 200 and no content",
        kind="api",
        severity="error",
        case="C55",
        cause="The token limit fell into the thinking part (finish `length`), the parser took all "
        "for reasoning (`stop`, with reasoning), or nothing was made at all.",
        action="`length`: raise max_tokens or switch thinking off. `stop` with reasoning: another "
        "reasoning parser. Nothing at all: the image fails.",
        seen="vllm-project/vllm#52640 vllm-project/vllm#48645 vllm-project/vllm#45736",
    ),
    Key(
        key="tool-calls",
        title="a tool call was refused, or came back as text",
        kind="api",
        severity="error",
        case="C56",
        cause="Two flags must come together (400 without them), and the parser must be the "
        "model's own.",
        action="Set --enable-auto-tool-choice and --tool-call-parser; with markup in the content "
        "choose another parser.",
        seen="vllm-project/vllm#17792 vllm-project/vllm#17161 vllm-project/vllm#55080 "
        "vllm-project/vllm#22917",
    ),
    Key(
        key="streaming-usage",
        title="usage arrives in a chunk without choices",
        kind="api",
        severity="info",
        case="C57",
        cause="With include_usage the last chunk has `choices: []`; clients that take choices[0] "
        "fail at the very end.",
        action="Allow empty choices; it is not a fault of the server.",
        seen="BerriAI/litellm#25410 vllm-project/vllm#36379 vllm-project/vllm#7262",
    ),
    Key(
        key="chat-template-missing",
        title="the model has no chat template",
        kind="api",
        severity="warning",
        case="C58",
        cause="The template is a file of the model: base models have none, and copies may miss it.",
        action="Ask /v1/completions, or give --chat-template.",
        seen="vllm-project/vllm#39279 vllm-project/vllm#35679",
    ),
    Key(
        key="model-name-404",
        title="the request names another model than is served",
        kind="api",
        severity="error",
        case="C59",
        cause="The id is the served name, which by default is the argument as given, a path "
        "included.",
        action="Take the id from /v1/models, or set --served-model-name.",
        seen="zai-org/GLM-OCR#69 vllm-project/vllm#3486",
    ),
    Key(
        key="health-is-not-ready",
        title="/health says 200 and no answer comes",
        kind="api",
        severity="error",
        case="C60",
        cause="Health is a sign of life of the front end; a hung collective, a lost GPU or a cold "
        "compile shows only when tokens are asked for.",
        action="Gate on a completion with a deadline; a slow first and a fast second one is a "
        "cold start.",
        seen="vllm-project/vllm#36960 vllm-project/vllm#39863 vllm-project/vllm#24897 "
        "vllm-project/vllm#30700 kubernetes-sigs/gateway-api-inference-extension#550 "
        "kubernetes-sigs/gateway-api-inference-extension#558 vllm-project/vllm-ascend#7193 "
        "anthony-chaudhary/fak#3051 gpustack/gpustack#6203",
    ),
    Key(
        key="garbage-output",
        title="the answer is wrong or repeats itself",
        kind="api",
        severity="error",
        case="C61",
        cause="A kernel for another architecture, or a wrong one for this, was chosen without an "
        "error.",
        action="Do not promote; compare with the last promoted image and change the backend or "
        "the companion that differs.",
        seen="flashinfer-ai/flashinfer#3294 NVIDIA/cutlass#3096 vllm-project/vllm#50435",
    ),
    Key(
        key="testcontainers-reaper",
        title="the test's own helper container is not ready",
        kind="api",
        severity="error",
        case="C62",
        cause="The container that cleans up cannot be pulled or reached; its limit is reported as "
        "the server's.",
        action="Set TESTCONTAINERS_RYUK_DISABLED=true; nightlock cleans up by its own label.",
        seen="testcontainers/testcontainers-python#741 testcontainers/testcontainers-java#9369 "
        "testcontainers/testcontainers-java#7439 testcontainers/testcontainers-java#9218 "
        "testcontainers/testcontainers-go#1671",
    ),
    Key(
        key="request-refused",
        title="the server refuses a request of the profile",
        kind="api",
        severity="warning",
        cause="The request has a field or a value that this vLLM does not take; the image may be "
        "sound.",
        action="Correct `parameters` of the check; the answer names what is not taken.",
    ),
    Key(
        key="structured-output",
        title="the answer does not have the structure it was held to",
        kind="api",
        severity="error",
        cause="The server took a JSON schema and did not hold the model to it: the backend of "
        "structured output is missing, or ignores the field.",
        action="Look for xgrammar or guidance in the log; try the other `structure_form`.",
    ),
    Key(
        key="metrics-missing",
        title="/metrics lacks what dashboards and autoscalers read",
        kind="api",
        severity="error",
        cause="A metric was renamed or dropped in this vLLM, or statistics are switched off.",
        action="Compare /metrics with the last image's; correct dashboards, or drop "
        "--disable-log-stats.",
    ),
    Key(
        key="logprob-drift",
        title="the model finds the same tokens less or more likely than before",
        kind="api",
        severity="error",
        cause="Another kernel or another precision computes the same weights: numbers that are "
        "slightly wrong give the right words for long.",
        action="Compare the two images' kernels and companions; raise `max_drift` only when the "
        "change is meant.",
    ),
    Key(
        key="prompt-cut",
        title="a long prompt did not arrive whole",
        kind="api",
        severity="error",
        cause="The server counted fewer tokens than were sent: it cut the prompt instead of "
        "refusing it.",
        action="Look for truncate_prompt_tokens and --max-model-len in the profile.",
    ),
)
"""In the order of the cases; what was found while building this comes last."""
