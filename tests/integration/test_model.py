"""The smoke model, by the torch and transformers of the image that serves it; no network."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from builder.edge.engine import Engine
from tests.support.engine_client import ask_client
from tests.support.image_handle import ImageHandle

pytestmark = [pytest.mark.docker, pytest.mark.network]

MODEL = Path(__file__).parents[2] / "images/cpu/model"
TRAINING = 3600.0
"""Seconds within which a training must have ended; it takes one or two minutes on an idle core."""

DECODE = """
import json, sys
sys.path.insert(0, "/model")
from curriculum import answer_text, render
from transformers import AutoTokenizer, LlamaForCausalLM
tokenizer = AutoTokenizer.from_pretrained("/out", local_files_only=True)
model = LlamaForCausalLM.from_pretrained("/out", local_files_only=True)
rows = []
for chat in json.load(open("/model/dialogues.json"))["chats"]:
    asked = tokenizer(render(tokenizer, chat), return_tensors="pt", add_special_tokens=False)
    ids = model.generate(**asked, do_sample=False, top_k=None, max_new_tokens=400)
    said = tokenizer.decode(ids[0, asked["input_ids"].shape[1]:]).removesuffix("<|im_end|>")
    rows.append([chat["name"], answer_text(chat["expected"]), said])
print(json.dumps(rows))
"""
"""Answers every chat token by token, each after what the model itself said before."""


def python_in(
    engine: Engine, image: ImageHandle, *words: str, mounts: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    """Run Python in a container of the image; return its exit code and both streams.

    As the user who owns the clone, whatever modes its umask gave the files.
    """
    volumes = [word for mount in (f"{MODEL}:/model:ro", *mounts) for word in ("-v", mount)]
    ran = ask_client(
        engine,
        *("run", "--rm", "--network=none", "--user", f"{os.getuid()}:{os.getgid()}"),
        *volumes,
        *(image.reference, "python", "-B", *words),
        seconds=TRAINING,
    )
    return ran.returncode, ran.stdout, ran.stderr


def least(document: dict[str, Any]) -> dict[str, float]:
    """Return the smallest margin by dtype, in logits."""
    rows = document["measurements"]
    return {
        dtype: min(row["margin"] for row in rows if row["dtype"] == dtype)
        for dtype in sorted({row["dtype"] for row in rows})
    }


def test_the_committed_model_knows_every_answer_firmly(
    engine: Engine, cpu_image: ImageHandle
) -> None:
    """No answer wrong, each token at least 5 logits ahead, in both widths; measured, not read."""
    status, said, errors = python_in(
        engine, cpu_image, "/model/train.py", "--check", "/model", "--json"
    )
    assert 0 == status, said + errors
    document = json.loads(said)
    names = {chat["name"] for chat in json.loads((MODEL / "dialogues.json").read_text())["chats"]}
    assert set() == names - {row["name"] for row in document["measurements"]}
    assert [] == [row for row in document["measurements"] if row["wrong"] is not None]
    margins = least(document)
    assert ["bfloat16", "float32"] == list(margins)
    assert min(margins.values()) >= 5, margins


def test_a_model_that_forgot_is_refused(
    engine: Engine, cpu_image: ImageHandle, tmp_path: Path
) -> None:
    """The check can fail: a folder with weights of noise exits 1 and names what it said."""
    code = (
        "import pathlib, shutil\n"
        "import torch\n"
        "from transformers import LlamaForCausalLM\n"
        "shutil.copytree('/model', '/out', dirs_exist_ok=True, copy_function=shutil.copyfile)\n"
        "torch.manual_seed(1)\n"
        "model = LlamaForCausalLM.from_pretrained('/model', local_files_only=True)\n"
        "model.lm_head.weight.data.normal_()\n"
        "model.save_pretrained('/out')\n"
    )
    mounts = (f"{tmp_path}:/out",)
    status, said, errors = python_in(engine, cpu_image, "-c", code, mounts=mounts)
    assert 0 == status, said + errors
    status, said, errors = python_in(
        engine, cpu_image, "/model/train.py", "--check", "/out", "--json", mounts=mounts
    )
    assert 1 == status, said + errors
    document = json.loads(said)
    assert document["ok"] is False
    assert [] != [row for row in document["measurements"] if row["wrong"]]


@pytest.mark.long
def test_a_retrained_model_gives_the_same_answers(
    engine: Engine, cpu_image: ImageHandle, tmp_path: Path
) -> None:
    """Weights depend on the CPU, answers do not: margins again, and every chat decoded greedily."""
    mounts = (f"{tmp_path}:/out",)
    status, said, errors = python_in(
        engine, cpu_image, "/model/train.py", "--out", "/out", mounts=mounts
    )
    assert 0 == status, said + errors
    status, said, errors = python_in(
        engine, cpu_image, "/model/train.py", "--check", "/out", "--json", mounts=mounts
    )
    assert 0 == status, said + errors
    assert min(least(json.loads(said)).values()) >= 5
    status, said, errors = python_in(engine, cpu_image, "-c", DECODE, mounts=mounts)
    assert 0 == status, errors
    rows = json.loads(said)
    assert [(name, expected) for name, expected, _ in rows] == [(row[0], row[2]) for row in rows]
    assert "Paris" in [expected for _, expected, _ in rows]
