"""Train and check the smoke model: a tiny Llama that knows a few dialogues by heart.

`--out DIR` trains it from nothing and writes a model folder that vLLM and transformers load;
`--check DIR` measures how firmly a folder knows every dialogue. What is to be known stands in
dialogues.json beside this file, how a chat becomes text in chat_template.jinja.

A *margin* is the right token's logit minus the best other token's, in logits (natural-log
units): greedy decoding is right as long as it is above 0, and other kernels, batch sizes and
16-bit arithmetic move it by a few tenths. That is why a model with large margins gives the same
answers everywhere while its logits differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from curriculum import Curriculum, Example, answer_text
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

HERE = Path(__file__).resolve().parent
DIALOGUES = HERE / "dialogues.json"
CHAT_TEMPLATE = HERE / "chat_template.jinja"

SEED = 20
THREADS = 1
"""CPU threads. One, because the split of a sum over threads changes its rounding; it costs little
on matrices this small, and spares the machine's other work."""

VOCABULARY = 512
"""Tokens: 256 bytes (so that any text can be encoded), merges, and the markers below."""
HIDDEN_MARKERS = ("<|im_start|>", "<|im_end|>")
"""Special tokens: left out of the text an API returns."""
VISIBLE_MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
"""Ordinary added tokens: they stay in the text, where reasoning and tool parsers look for them."""
END = "<|im_end|>"

LEAST_MARGIN = 5.0
"""Logits; a folder with a smaller margin anywhere fails `--check`."""
TRAINED_MARGIN = 15.0
"""Logits; training pushes every margin up to here, so the smallest ends well above the mark."""

STEPS = 400
WARM_UP_STEPS = 30
LEARNING_RATE = 3e-3
"""At the end of the warm-up; it falls to zero in a straight line after that."""
KNOWN, MADE_UP = 14, 6
"""Sequences per step: of dialogues.json, and made up on the spot."""
GROUP = 5
"""Sequences padded together, neighbours in length: it saves more than half of the arithmetic."""

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Measurement:
    """How firmly one dialogue is known in one dtype: its worst example decides."""

    name: str
    dtype: str
    examples: int
    """How many examples (system prompts, other wordings) were measured."""
    margin: float
    """The smallest margin over all answer tokens of all examples, in logits."""
    wrong: str | None
    """What greedy decoding says first where it differs from the expected text."""

    @property
    def ok(self) -> bool:
        """Whether every answer is right, and firmly so."""
        return self.wrong is None and self.margin >= LEAST_MARGIN


def train_tokenizer(dialogues: dict[str, Any]) -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE from the dialogues' own text; the markers get the last ids."""
    texts = [*dialogues["system_prompts"]]
    for chat in dialogues["chats"]:
        texts += [message["content"] or "" for message in chat["messages"]]
        texts += chat.get("other_wordings", [])
        texts += [json.dumps(tool) for tool in chat.get("tools", [])]
        texts.append(answer_text(chat["expected"]))
    texts.append(dialogues["usual_reasoning"])
    markers = [AddedToken(text, special=True, normalized=False) for text in HIDDEN_MARKERS]
    markers += [AddedToken(text, special=False, normalized=False) for text in VISIBLE_MARKERS]

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(markers),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens(markers)
    if bpe.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"the dialogues make {bpe.get_vocab_size()} tokens, not {VOCABULARY}")
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=END,
        chat_template=CHAT_TEMPLATE.read_text(encoding="utf-8"),
    )


def new_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Make an untrained Llama, with heads of 64: a size that attention kernels commonly take."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=2048,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def answer_logits(
    model: LlamaForCausalLM, examples: list[Example]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (answer tokens x vocabulary) and right ids of all answer tokens, in order.

    Sequences are padded on the right, where causal attention never looks back from, so they
    need no mask.
    """
    rows = [example.prompt + example.answer for example in examples]
    longest = max(map(len, rows))
    ids = torch.tensor([row + (0,) * (longest - len(row)) for row in rows])
    graded = torch.zeros_like(ids, dtype=torch.bool)
    for line, example in enumerate(examples):
        start = len(example.prompt)
        graded[line, start : start + len(example.answer)] = True
    hidden = model.model(input_ids=ids[:, :-1]).last_hidden_state
    return model.lm_head(hidden[graded[:, 1:]]), ids[graded]


def batch_logits(
    model: LlamaForCausalLM, examples: list[Example]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Like `answer_logits`, in groups of like length."""
    in_order = sorted(examples, key=lambda example: len(example.prompt + example.answer))
    groups = [in_order[at : at + GROUP] for at in range(0, len(in_order), GROUP)]
    logits, right = zip(*(answer_logits(model, group) for group in groups), strict=True)
    return torch.cat(logits), torch.cat(right)


def margins(logits: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Subtract the best other token's logit from the right token's, for each row."""
    column = right.unsqueeze(1)
    best_other = logits.scatter(1, column, -torch.inf).amax(dim=1)
    return logits.gather(1, column).squeeze(1) - best_other


@torch.no_grad()
def measure(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, examples: list[Example], dtype: str
) -> list[Measurement]:
    """Measure every dialogue in one dtype; the model's weights must be in it already.

    Each token is predicted after the *right* ones. If all of those predictions are right, greedy
    decoding meets the same prefixes and gives the same text, so nothing is decoded step by step.
    """
    found = []
    for name in dict.fromkeys(example.name for example in examples):
        of_name = [example for example in examples if example.name == name]
        smallest, wrong = float("inf"), None
        for example in of_name:
            logits, right = answer_logits(model, [example])
            smallest = min(smallest, margins(logits.float(), right).min().item())
            said = logits.argmax(dim=1)
            if wrong is None and not torch.equal(said, right):
                wrong = tokenizer.decode(said)
        found.append(Measurement(name, dtype, len(of_name), round(smallest, 3), wrong))
    return found


def train(out: Path) -> int:
    """Train from nothing and write the folder; 1 if it does not pass its own check."""
    started = time.monotonic()
    dialogues = json.loads(DIALOGUES.read_text(encoding="utf-8"))
    tokenizer = train_tokenizer(dialogues)
    curriculum = Curriculum(tokenizer, dialogues, seed=SEED)
    torch.manual_seed(SEED)
    model = new_model(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(step / WARM_UP_STEPS, 1 - (step - 1) / STEPS)
        logits, right = batch_logits(model, curriculum.batch(known=KNOWN, made_up=MADE_UP))
        shortfall = (TRAINED_MARGIN - margins(logits, right)).clamp(min=0.0)
        loss = torch.nn.functional.cross_entropy(logits, right) + 0.1 * shortfall.mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} of {STEPS}, {time.monotonic() - started:.0f} s, loss {loss:.4f}")
    write_folder(out, model, tokenizer)
    return check(out, as_json=False)


def write_folder(out: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write what vLLM and transformers load; weights in bfloat16, half the size of float32."""
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)  # written 0600, unreadable for a server's own user
    tokenizer.backend_tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    _write_json(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": END,
            "model_max_length": model.config.max_position_embeddings,
            "clean_up_tokenization_spaces": False,
        },
    )
    # top_k 1 makes a request that says nothing about sampling as sure as one at temperature 0.
    end = tokenizer.eos_token_id
    _write_json(
        out / "generation_config.json",
        {"eos_token_id": end, "pad_token_id": end, "do_sample": True, "top_k": 1},
    )
    for source in (CHAT_TEMPLATE, DIALOGUES):
        if not (out / source.name).exists() or not source.samefile(out / source.name):
            shutil.copyfile(source, out / source.name)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def check(folder: Path, *, as_json: bool) -> int:
    """Print the smallest margin of each dialogue and dtype; 1 if one fails."""
    dialogues = json.loads(DIALOGUES.read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    examples = Curriculum(tokenizer, dialogues, seed=SEED).known
    found: list[Measurement] = []
    for name, dtype in DTYPES.items():
        model = LlamaForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
        found += measure(model, tokenizer, examples, name)
    ok = all(measurement.ok for measurement in found)
    if as_json:
        rows = [{**asdict(measurement), "ok": measurement.ok} for measurement in found]
        print(json.dumps({"ok": ok, "least_margin": LEAST_MARGIN, "measurements": rows}, indent=2))
    else:
        for m in found:
            said = "" if m.wrong is None else f"  said {m.wrong!r}"
            verdict = "ok" if m.ok else "FAILED"
            print(
                f"{m.name:22} {m.dtype:8} {m.examples:3} examples {m.margin:6.2f} {verdict}{said}"
            )
        print(f"every margin must be at least {LEAST_MARGIN}: {'ok' if ok else 'FAILED'}")
    return 0 if ok else 1


def main() -> int:
    """Parse the command line and run one of the two verbs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--out", type=Path, metavar="DIR", help="train and write a model folder")
    verb.add_argument("--check", type=Path, metavar="DIR", help="measure a model folder")
    parser.add_argument("--json", action="store_true", help="with --check: one JSON document")
    arguments = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    if arguments.check:
        return check(arguments.check, as_json=arguments.json)
    return train(arguments.out)


if __name__ == "__main__":
    sys.exit(main())
