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
import random
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

HERE = Path(__file__).resolve().parent
DIALOGUES = HERE / "dialogues.json"
CHAT_TEMPLATE = HERE / "chat_template.jinja"

SEED = 20
THREADS = 1
"""CPU threads. Fixed, because the split of a sum over threads changes its rounding."""

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
"""Logits; training pushes every margin up to here, which leaves the smallest well above the mark."""

STEPS = 400
WARM_UP_STEPS = 30
LEARNING_RATE = 3e-3
"""At the end of the warm-up; it falls to zero in a straight line after that."""
BATCH = 20
"""Sequences per step."""
MADE_UP = 6
"""How many of them are made up on the spot (see `Curriculum`)."""
GROUP = 5
"""Sequences padded together, neighbours in length: it saves more than half of the arithmetic."""

SMALL_LETTERS = (0x61, 0x7B)
"""The code points of a to z, the end excluded."""

Chat = dict[str, Any]
"""One entry of "chats" in dialogues.json: the fields of a request, and the expected answer."""

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A prompt and the tokens that must follow it, the end marker included."""

    name: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
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
        return self.wrong is None and self.margin >= LEAST_MARGIN


def answer_text(expected: dict[str, Any]) -> str:
    """The raw text whose parsed form is `expected`, as the server's parsers read it."""
    reasoning = expected.get("reasoning")
    calls = "".join(
        f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
        for call in expected.get("tool_calls", [])
    )
    thought = f"<think>{reasoning}</think>" if reasoning else ""
    return thought + expected.get("content", "") + calls


def render(tokenizer: PreTrainedTokenizerFast, chat: Chat) -> str:
    """The prompt the server would make of a chat."""
    text: str = tokenizer.apply_chat_template(
        chat["messages"],
        tools=chat.get("tools"),
        tokenize=False,
        add_generation_prompt=True,
        **chat.get("chat_template_kwargs", {}),
    )
    return text


class Curriculum:
    """All examples of dialogues.json, and an endless supply of made-up ones around them."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, dialogues: dict[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._random = random.Random(SEED)
        chats: list[Chat] = dialogues["chats"]
        self._tools = next(chat["tools"] for chat in chats if "tools" in chat)
        self._unknown = [chat for chat in chats if chat["name"].startswith("unknown")]
        self._chats = [*chats, *_thinking_twins(chats, dialogues["usual_reasoning"])]
        variants = [
            variant
            for chat in self._chats
            for variant in self._variants_of(chat, dialogues["system_prompts"])
        ]
        self._questions = sorted({chat["messages"][-1]["content"] for chat in variants})
        self.known = [self._example(chat) for chat in variants] + [
            Example(
                name=completion["name"],
                prompt=self._ids(completion["prompt"]),
                answer=self._ids(completion["expected"]["text"] + END),
            )
            for completion in dialogues["completions"]
        ]

    def batch(self) -> list[Example]:
        """One step's examples."""
        return [
            *self._random.sample(self.known, BATCH - MADE_UP),
            *(self._made_up() for _ in range(MADE_UP)),
        ]

    def _made_up(self) -> Example:
        """A known chat under a nonsense system prompt, or a question nobody knows.

        The first teaches the model to answer whatever the system prompt says, the second to
        say that it does not know instead of giving some known answer to everything.
        """
        if self._random.random() < 0.4:
            chat = self._random.choice(self._chats)
            return self._example(_under_system(chat, self._nonsense()))
        question = self._near_miss() if self._random.random() < 0.4 else self._nonsense()
        chat = _with_question(self._random.choice(self._unknown), question)
        return self._example(chat | {"tools": self._random.choice([None, None, self._tools])})

    def _near_miss(self) -> str:
        """A known question with a name or number in it replaced by random letters."""
        words = self._random.choice(self._questions).split()
        names = [at for at, word in enumerate(words) if at and word != word.lower()]
        for at in names[:1]:
            end = words[at][-1] if words[at][-1] in "?." else ""
            words[at] = self._letters(*SMALL_LETTERS).capitalize() + end
        return " ".join(words) if names else self._nonsense()

    def _nonsense(self) -> str:
        """Some words from the questions (in any order) and of random characters, often repeated.

        At most 250 characters, because attention takes its time over longer ones.
        """
        latin, hiragana, emoji = (0xA0, 0x250), (0x3041, 0x3097), (0x1F300, 0x1F600)
        ranges = (SMALL_LETTERS, SMALL_LETTERS, (0x20, 0x7F), latin, hiragana, emoji)
        words = []
        for _ in range(self._random.randint(1, 12)):
            if self._random.random() < 0.4:
                words.append(self._random.choice(self._random.choice(self._questions).split()))
            else:
                words.append(self._letters(*self._random.choice(ranges)))
        return " ".join(words * self._random.choice((1, 1, 3, 8)))[:250]

    def _letters(self, low: int, high: int) -> str:
        letters = self._random.randint(3, 8)
        return "".join(chr(self._random.randrange(low, high)) for _ in range(letters))

    def _variants_of(self, chat: Chat, system_prompts: list[str]) -> list[Chat]:
        """The chat as it is, under each system prompt, in other wordings, and offered tools."""
        return [
            chat,
            *(_under_system(chat, text) for text in system_prompts),
            *(_with_question(chat, text) for text in chat.get("other_wordings", [])),
            *([] if "tools" in chat else [chat | {"tools": self._tools}]),
        ]

    def _example(self, chat: Chat) -> Example:
        return Example(
            name=chat["name"],
            prompt=self._ids(render(self._tokenizer, chat)),
            answer=self._ids(answer_text(chat["expected"]) + END),
        )

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def _under_system(chat: Chat, text: str) -> Chat:
    return chat | {"messages": [{"role": "system", "content": text}, *chat["messages"]]}


def _with_question(chat: Chat, text: str) -> Chat:
    return chat | {"messages": [*chat["messages"][:-1], {"role": "user", "content": text}]}


def _thinking_twins(chats: list[Chat], reasoning: str) -> list[Chat]:
    """Each chat that is only listed without thinking, once more with the usual reasoning.

    A caller who turns thinking on gets the right answer to every question that way.
    """
    thinking = [chat["messages"] for chat in chats if "chat_template_kwargs" in chat]
    return [
        chat
        | {
            "chat_template_kwargs": {"enable_thinking": True},
            "expected": {"reasoning": reasoning, **chat["expected"]},
        }
        for chat in chats
        if chat["messages"] not in thinking
    ]


def train_tokenizer(dialogues: dict[str, Any]) -> PreTrainedTokenizerFast:
    """A byte-level BPE over the dialogues' own text, with the markers as the last ids."""
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
    """An untrained Llama. Heads of 64 because every attention kernel of vLLM takes them."""
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
    """The right token's logit minus the best other one's, for each row."""
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
        found.append(
            Measurement(
                name=name, dtype=dtype, examples=len(of_name), margin=round(smallest, 3), wrong=wrong
            )
        )
    return found


def train(out: Path) -> int:
    """Train from nothing and write the folder; 1 if it does not pass its own check."""
    started = time.monotonic()
    dialogues = json.loads(DIALOGUES.read_text(encoding="utf-8"))
    tokenizer = train_tokenizer(dialogues)
    curriculum = Curriculum(tokenizer, dialogues)
    torch.manual_seed(SEED)
    model = new_model(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(step / WARM_UP_STEPS, 1 - (step - 1) / STEPS)
        logits, right = batch_logits(model, curriculum.batch())
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
    examples = Curriculum(tokenizer, dialogues).known
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
            print(f"{m.name:22} {m.dtype:9} {m.examples:2} examples {m.margin:7.2f}  {verdict}{said}")
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
