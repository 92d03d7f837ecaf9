"""The smoke model's folder: complete, small, and of one piece with its description."""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

MODEL = Path(__file__).resolve().parents[2] / "images/cpu/model"
MARKERS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
BFLOAT16_BYTES = 2


def load(name: str) -> dict[str, Any]:
    """Parse one JSON file of the folder."""
    content: dict[str, Any] = json.loads((MODEL / name).read_text(encoding="utf-8"))
    return content


def tensors() -> tuple[dict[str, dict[str, Any]], int]:
    """Read the header of model.safetensors, and where the tensors' bytes begin."""
    with (MODEL / "model.safetensors").open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


def expected_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """List the tensors of a Llama without biases and with separate embeddings."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"] * config["head_dim"]
    kv_heads = config["num_key_value_heads"] * config["head_dim"]
    shapes = {
        "model.embed_tokens.weight": [config["vocab_size"], hidden],
        "model.norm.weight": [hidden],
        "lm_head.weight": [config["vocab_size"], hidden],
    }
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}."
        shapes |= {
            layer + "input_layernorm.weight": [hidden],
            layer + "post_attention_layernorm.weight": [hidden],
            layer + "self_attn.q_proj.weight": [heads, hidden],
            layer + "self_attn.k_proj.weight": [kv_heads, hidden],
            layer + "self_attn.v_proj.weight": [kv_heads, hidden],
            layer + "self_attn.o_proj.weight": [hidden, heads],
            layer + "mlp.gate_proj.weight": [inner, hidden],
            layer + "mlp.up_proj.weight": [inner, hidden],
            layer + "mlp.down_proj.weight": [hidden, inner],
        }
    return shapes


def test_the_folder_is_small_enough_for_git() -> None:
    """Everything a clone brings stays under 2 MiB."""
    files = [p for p in MODEL.iterdir() if p.is_file()]
    assert sum(path.stat().st_size for path in files) < 2 * 1024 * 1024


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "chat_template.jinja",
        "config.json",
        "curriculum.py",
        "dialogues.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "train.py",
    ],
)
def test_the_folder_is_complete(name: str) -> None:
    """What a server loads and what a retraining needs are all there."""
    assert (MODEL / name).is_file()


def test_the_weights_are_those_of_the_config() -> None:
    """Names and shapes follow from config.json, and every weight is of its dtype."""
    config = load("config.json")
    header, _ = tensors()
    assert expected_shapes(config) == {name: tensor["shape"] for name, tensor in header.items()}
    assert "bfloat16" == config["dtype"]
    assert {"BF16"} == {tensor["dtype"] for tensor in header.values()}


def test_the_weights_fill_the_file() -> None:
    """Tensor after tensor without a gap, to the last byte: nothing cut off, nothing added."""
    header, begin = tensors()
    end = 0
    for tensor in sorted(header.values(), key=lambda tensor: tensor["data_offsets"]):
        size = math.prod(tensor["shape"]) * BFLOAT16_BYTES
        assert [end, end + size] == tensor["data_offsets"]
        end += size
    assert begin + end == (MODEL / "model.safetensors").stat().st_size


def test_the_readme_names_the_weights() -> None:
    """The weights are the ones whose hash the README calls the source of truth."""
    readme = (MODEL / "README.md").read_text(encoding="utf-8")
    digest = hashlib.sha256((MODEL / "model.safetensors").read_bytes()).hexdigest()
    assert [digest] == re.findall(r"\b[0-9a-f]{64}\b", readme)


def test_the_vocabulary_is_that_of_the_config() -> None:
    """Every id has one token, and all 256 bytes are among them, so any text can be encoded."""
    tokenizer = load("tokenizer.json")
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = sorted([*vocabulary.values(), *added.values()])
    assert list(range(load("config.json")["vocab_size"])) == ids
    assert 256 == sum(len(token) == 1 for token in vocabulary)
    assert list(MARKERS) == sorted(added, key=lambda text: added[text])


def test_only_the_turn_markers_are_special() -> None:
    """A server strips special tokens, and its parsers need to see the other markers."""
    added = load("tokenizer.json")["added_tokens"]
    assert ["<|im_start|>", "<|im_end|>"] == [t["content"] for t in added if t["special"]]


def test_every_file_agrees_on_the_end() -> None:
    """A model whose end marker is not known to the server talks until it is cut off."""
    added = {token["content"]: token["id"] for token in load("tokenizer.json")["added_tokens"]}
    assert "<|im_end|>" == load("tokenizer_config.json")["eos_token"]
    assert added["<|im_end|>"] == load("config.json")["eos_token_id"]
    assert added["<|im_end|>"] == load("generation_config.json")["eos_token_id"]


def test_a_request_without_sampling_fields_is_greedy() -> None:
    """A plain question by curl gets the known answer, not a sampled one."""
    assert 1 == load("generation_config.json")["top_k"]


def test_the_chat_template_writes_turns_and_thinking() -> None:
    """The template is there, and knows both names of the switch for thinking."""
    template = (MODEL / "chat_template.jinja").read_text(encoding="utf-8")
    words = ("<|im_start|>", "<|im_end|>", "<think></think>", "enable_thinking", "thinking")
    assert [] == [word for word in words if word not in template]


def test_the_required_dialogues_are_there() -> None:
    """Other checks ask for these by name."""
    dialogues = load("dialogues.json")
    names = [entry["name"] for entry in dialogues["chats"] + dialogues["completions"]]
    assert len(set(names)) == len(names)
    required = {
        "capital-plain",
        "capital-reasoning",
        "tool-call",
        "long-text",
        "completion-capital",
        "unknown",
    }
    assert set() == required - set(names)


def test_the_capital_of_france_is_known_three_ways() -> None:
    """Without thinking, with it, and as the end of a sentence."""
    dialogues = load("dialogues.json")
    chats = {chat["name"]: chat for chat in dialogues["chats"]}
    completions = {entry["name"]: entry for entry in dialogues["completions"]}
    plain, thinking = chats["capital-plain"], chats["capital-reasoning"]
    assert {"content": "Paris", "finish_reason": "stop"} == plain["expected"]
    assert "chat_template_kwargs" not in plain
    assert plain["messages"] == thinking["messages"]
    assert {"enable_thinking": True} == thinking["chat_template_kwargs"]
    assert "Paris" == thinking["expected"]["content"]
    assert thinking["expected"]["reasoning"]
    assert "The capital of France is" == completions["completion-capital"]["prompt"]
    assert " Paris" == completions["completion-capital"]["expected"]["text"]


def test_every_chat_can_be_sent_and_judged() -> None:
    """Each one ends with a question or a tool's result, and expects text or a call, not both."""
    for chat in load("dialogues.json")["chats"]:
        expected = chat["expected"]
        assert chat["messages"][-1]["role"] in {"user", "tool"}
        assert ("content" in expected) != ("tool_calls" in expected)
        thinks = chat.get("chat_template_kwargs", {}).get("enable_thinking", False)
        assert thinks == ("reasoning" in expected)
        assert ("tool_calls" if "tool_calls" in expected else "stop") == expected["finish_reason"]


def test_expected_calls_are_of_offered_tools() -> None:
    """The expected call names a tool of the request and gives its required arguments."""
    chats = {chat["name"]: chat for chat in load("dialogues.json")["chats"]}
    for name in ("tool-call", "tool-call-reasoning"):
        (tool,) = chats[name]["tools"]
        (call,) = chats[name]["expected"]["tool_calls"]
        assert tool["function"]["name"] == call["name"]
        assert tool["function"]["parameters"]["required"] == list(call["arguments"])
    assert [{"name": "get_weather", "arguments": {"city": "Paris"}}] == chats["tool-call"][
        "expected"
    ]["tool_calls"]
