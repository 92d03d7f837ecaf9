"""What the smoke model has to learn: the dialogues of dialogues.json as tokens, and made-up ones.

A *chat* is one entry of "chats" there: the fields of a request and the expected answer.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

Chat = dict[str, Any]

SMALL_LETTERS = (0x61, 0x7B)
"""The code points of a to z, the end excluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A prompt and the tokens that must follow it, the end marker included."""

    name: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def answer_text(expected: dict[str, Any]) -> str:
    """Write the raw text that the server's parsers take apart into `expected`."""
    reasoning = expected.get("reasoning")
    calls = "".join(
        f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
        for call in expected.get("tool_calls", [])
    )
    thought = f"<think>{reasoning}</think>" if reasoning else ""
    return thought + expected.get("content", "") + calls


def render(tokenizer: PreTrainedTokenizerBase, chat: Chat) -> str:
    """Write the prompt that the server makes of a chat."""
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

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, dialogues: dict[str, Any], *, seed: int
    ) -> None:
        self._tokenizer = tokenizer
        self._random = random.Random(seed)  # noqa: S311 -- must repeat, hides nothing
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
                answer=self._answer(completion["expected"]["text"]),
            )
            for completion in dialogues["completions"]
        ]

    def batch(self, *, known: int, made_up: int) -> list[Example]:
        """Draw one step's examples."""
        return [
            *self._random.sample(self.known, known),
            *(self._made_up() for _ in range(made_up)),
        ]

    def _made_up(self) -> Example:
        """Make a known chat under a nonsense system prompt, or a question nobody knows.

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
        """Replace a name in a known question by random letters."""
        words = self._random.choice(self._questions).split()
        names = [at for at, word in enumerate(words) if at and word != word.lower()]
        if not names:
            return self._nonsense()
        end = words[names[0]][-1]
        words[names[0]] = self._letters(*SMALL_LETTERS).title() + ("" if end.isalpha() else end)
        return " ".join(words)

    def _nonsense(self) -> str:
        """Mix words of the questions with random characters, and often repeat them all.

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
        """Take the chat as it is, under each system prompt, in other wordings, with tools."""
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
            answer=self._answer(answer_text(chat["expected"])),
        )

    def _answer(self, text: str) -> tuple[int, ...]:
        return (*self._ids(text), self._tokenizer.eos_token_id)

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def _under_system(chat: Chat, text: str) -> Chat:
    return chat | {"messages": [{"role": "system", "content": text}, *chat["messages"]]}


def _with_question(chat: Chat, text: str) -> Chat:
    return chat | {"messages": [*chat["messages"][:-1], {"role": "user", "content": text}]}


def _thinking_twins(chats: list[Chat], reasoning: str) -> list[Chat]:
    """Repeat each chat that is only listed without thinking, with the usual reasoning.

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
