"""What a container of this image runs: vLLM's argument forms in, the server's command line out.

    MODEL --flags            as `docker run vllm/vllm-openai` takes it
    --model MODEL --flags    as its older images, whose entrypoint was the API server module, did
    serve MODEL --flags      as the `vllm` program takes it, with `vllm` before it or without
    bash, python -c …        any other program, found on PATH or named by its path
    preflight MODEL --flags  what would stop or hinder the server here, and nothing else
    -- MODEL --flags         never a program, whatever the model is called

The command that serves is in image.json beside this file, put there when the image was built:
nothing in the environment of a container can change it. Everything ends in `exec`, without a
shell, so signals reach the server and its exit status is the container's. Before the server is
started, preflight.py looks at the host.
"""

from __future__ import annotations

import itertools
import json
import os
import sys

# Python's own modules have no byte code in an image and are compiled at each import: `pathlib` and
# `typing` alone would take 0.2 s of every start. Type checkers read this name as true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

USAGE = 2
NOT_EXECUTABLE = 126
NOT_FOUND = 127
REFUSED = 78
"""Preflight says no (sysexits.h, EX_CONFIG): not a code that vLLM or a signal gives."""

TEMPORARY = "/tmp"  # noqa: S108 - where every program looks that nobody told another place
IMAGE = f"{os.path.dirname(os.path.abspath(__file__))}/image.json"


class UsageError(Exception):
    """The arguments cannot be meant; the text says why and what to write."""


def command(
    arguments: Sequence[str], image: Mapping[str, Any], path: str = ""
) -> tuple[list[str], bool]:
    """Map a container's arguments to a command line, and say whether it is the image's server.

    `path` is PATH, where programs are found.

    Raises UsageError when the model is named twice, or nobody can say which word it is.
    """
    words = list(arguments)
    if words[:1] == ["--"]:
        words = words[1:]
    elif words[:2] == ["vllm", "serve"]:
        words = words[2:]
    elif words[:1] == ["serve"]:
        words = words[1:]
    elif words and find_program(words[0], path):
        return words, False
    server = list(image["server"])
    if image["model_argument"] == "--model":
        return server + _named(words), True
    return server + _positional(words), True


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the server would only print its options (`--help`, `--help=GROUP`): no GPU needed."""
    return any(word in ("-h", "--help") or word.startswith("--help=") for word in words)


def find_program(word: str, path: str) -> str:
    """Return the path of the program that `word` means, as a shell would; empty for a model."""
    if not word or word.startswith("-"):
        return ""
    if "/" in word:
        return word if _is_program(word) else ""
    candidates = (f"{folder}/{word}" for folder in path.split(":") if folder)
    return next((name for name in candidates if os.access(name, os.X_OK)), "")


def cache_environment(
    environment: Mapping[str, str], folder: str, substitute: str
) -> dict[str, str]:
    """Point every variable that lies in the cache folder at its substitute."""
    return {
        name: substitute + value.removeprefix(folder)
        if value == folder or value.startswith(folder + "/")
        else value
        for name, value in environment.items()
    }


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the command; 2, 126 or 127 when that cannot be (as shells do)."""
    with open(IMAGE, encoding="utf-8") as file:
        image = json.load(file)
    environment = _writable_caches(dict(os.environ), image["cache"])
    environment = _temporary(environment, image["cache"])
    path = environment.get("PATH", os.defpath)
    # Beside this file; a site directory or PYTHONPATH has no say in what that is.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if list(arguments[:1]) == ["preflight"]:
        from builder.runtime import preflight  # noqa: PLC0415

        raise SystemExit(preflight.main(arguments[1:], image))
    try:
        argv, serves = command(arguments, image, path)
    except UsageError as error:
        _stop(USAGE, str(error))
    given = argv[len(image["server"]) :]
    if serves and not asks_for_help(given) and environment.get("NIGHTLOCK_PREFLIGHT", "") != "off":
        from builder.runtime import preflight  # noqa: PLC0415

        if not preflight.may_start(given, image, environment):
            raise SystemExit(REFUSED)
    program = find_program(argv[0], path) or argv[0]
    try:
        os.execve(program, argv, environment)  # noqa: S606 - no shell is the point
    except FileNotFoundError:
        _stop(NOT_FOUND, f"there is no program {program}")
    except OSError as error:
        _stop(NOT_EXECUTABLE, f"{program} cannot be run: {error.strerror}")


def _is_program(name: str) -> bool:
    # Model files on some volumes are all marked executable: what the kernel would start counts.
    if not os.access(name, os.X_OK):
        return False
    try:
        with open(name, "rb") as file:
            start = file.read(4)
    except OSError:
        return False
    return start == b"\x7fELF" or start.startswith(b"#!")


def _model_option(words: Sequence[str]) -> tuple[int, int, str] | None:
    """Find `--model`: where it starts, how many words it takes, the model."""
    for place, word in enumerate(words):
        if word.startswith("--model="):
            return place, 1, word.removeprefix("--model=")
        if word == "--model":
            return (place, 2, words[place + 1]) if place + 1 < len(words) else None
    return None


def _positional(words: list[str]) -> list[str]:
    """For `vllm serve MODEL`, which gives up `--model` in a future version."""
    option = _model_option(words)
    if option is None:
        return words
    _refuse_two(words, option[2])
    place, length, model = option
    return [model, *words[:place], *words[place + length :]]


def _named(words: list[str]) -> list[str]:
    """For the API server module, which takes `--model` and silently drops a positional model."""
    option = _model_option(words)
    if option is not None:
        _refuse_two(words, option[2])
        return words
    if words and not words[0].startswith("-"):
        return ["--model", *words]
    if any(word == "--config" or word.startswith("--config=") for word in words):
        return words
    for before, word in itertools.pairwise(words):
        if not word.startswith("-") and ("/" in word or not before.startswith("-")):
            raise UsageError(
                f"{word!r} may be the model or a value of the option before it: "
                "name the model first, or as --model MODEL"
            )
    return words


def _refuse_two(words: list[str], model: str) -> None:
    if not words[0].startswith("-"):
        raise UsageError(f"the model is named twice, as {words[0]!r} and as --model {model}")


def _writable_caches(environment: dict[str, str], folder: str) -> dict[str, str]:
    if os.access(folder, os.W_OK | os.X_OK):
        return environment
    substitute = f"{environment.get('TMPDIR') or '/tmp'}/cache-{os.getuid()}"  # noqa: S108
    try:
        os.makedirs(substitute, mode=0o700, exist_ok=True)
    except OSError as error:
        _say(f"neither {folder} nor {substitute} can be written ({error.strerror}): no caches")
        return environment
    _say(f"{folder} cannot be written, caches go to {substitute} and end with the container")
    return cache_environment(environment, folder, substitute)


def _temporary(environment: dict[str, str], cache: str) -> dict[str, str]:
    """Give compilers and sockets a place where the root is read-only and /tmp was not mounted."""
    if environment.get("TMPDIR") or os.access(TEMPORARY, os.W_OK | os.X_OK):
        return environment
    # Of each user its own: a volume may be shared.
    folder = f"{cache}/scratch-{os.getuid()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        _say(f"neither {TEMPORARY} nor {folder} can be written ({error.strerror})")
        return environment
    return {**environment, "TMPDIR": folder}


def _say(text: str) -> None:
    print(f"nightlock: {text}", file=sys.stderr, flush=True)


def _stop(status: int, text: str) -> NoReturn:
    _say(text)
    raise SystemExit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
