"""Smoke profiles: what is allowed, what is refused with its key path, what their digest covers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from builder.core.profile import Check, Profile, parse_profile
from builder.core.structure import structure_fields
from builder.edge.profiles import checkpoint_digest, read_policy, read_profile, readable_by_all
from builder.errors import BadInput, SpecError

CHAT = {"name": "a", "messages": [{"role": "user", "content": "?"}], "expect": {"content": "!"}}
GET = {"name": "g", "request": "get", "path": "/version", "expect": {"version": True}}


def text(**changes: Any) -> str:  # noqa: ANN401
    """Spell a profile with one check."""
    return tomli_w.dumps({"kind": "cpu", "check": [CHAT]} | changes)


def test_defaults_work() -> None:
    """One check is enough; shared memory is large enough for vLLM."""
    profile = parse_profile(text(), "p.toml")
    assert ("cpu", 8000, 0, 1024) == (
        profile.kind,
        profile.server.port,
        profile.server.host_port,
        profile.server.shm_mib,
    )


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"kind": "tpu"}, 'kind: "tpu": '),
        ({"check": []}, "check: []: "),
        ({"server": {"port": 0}}, "server.port: 0: "),
        ({"server": {"prot": 1}}, "server.prot: no such key"),
        ({"deadlines": {"health": 0}}, "deadlines.health: 0: "),
        ({"model": {"mount": "model"}}, 'model.mount: "model": '),
        ({"check": [CHAT, CHAT]}, "check 'a' stands twice"),
        ({"check": [CHAT | {"request": "post"}]}, 'check.0.request: "post": '),
        ({"check": [CHAT | {"prompt": "x"}]}, "request 'chat' takes no `prompt`"),
        ({"check": [CHAT | {"messages": []}]}, "request 'chat' needs `messages`"),
        ({"check": [GET | {"stream": True}]}, "request 'get' is not streamed"),
        ({"check": [GET | {"path": "version"}]}, 'check.0.path: "version": '),
        ({"check": [CHAT | {"expect": {"models": True}}]}, "expectations of request 'get'"),
        ({"check": [CHAT | {"expect": {"min_chunks": 2}}]}, "`min_chunks` needs `stream = true`"),
        ({"check": [CHAT | {"expect": {"same_as": "b"}}]}, "no earlier check 'b' for `same_as`"),
        ({"check": [{k: v for k, v in CHAT.items() if k != "expect"}]}, "check.0.expect: missing"),
    ],
)
def test_what_is_not_allowed_is_named(changes: dict[str, Any], row: str) -> None:
    """File, key path, value, and what is allowed."""
    with pytest.raises(SpecError) as caught:
        parse_profile(text(**changes), "p.toml")
    assert row in caught.value.what
    assert "p.toml" == caught.value.subject


def test_every_problem_is_in_one_error() -> None:
    """Nobody corrects a file line by line."""
    with pytest.raises(SpecError) as caught:
        parse_profile(text(kind="tpu", server={"port": 0}), "p.toml")
    assert 1 == caught.value.what.count("; ")


def test_requests() -> None:
    """Temperature 0 and a limit unless given; a stream asks for usage; the limit can grow."""
    chat = Check.model_validate(CHAT | {"stream": True, "parameters": {"max_tokens": 8}})
    assert {
        "model": "m",
        "temperature": 0,
        "max_tokens": 32,
        "messages": CHAT["messages"],
        "stream": True,
        "stream_options": {"include_usage": True},
    } == chat.body("m", 4)
    prompt = Check.model_validate(
        {"name": "p", "request": "completion", "prompt": "x", "expect": {}}
        | {"parameters": {"temperature": 1, "max_tokens": 8}}
    )
    assert {"model": "m", "temperature": 1, "max_tokens": 8, "prompt": "x"} == prompt.body("m")
    urls = [chat.url, prompt.url, Check.model_validate(GET).url]
    assert ["/v1/chat/completions", "/v1/completions", "/version"] == urls


def test_the_digest_covers_profile_and_model() -> None:
    """Not how the file is spelled."""
    one = parse_profile(text(), "p.toml")
    same = parse_profile("# a comment\n" + text(server={"port": 8000}), "q.toml")
    other = parse_profile(text(server={"port": 8001}), "p.toml")
    assert one.digest("m") == same.digest("m")
    assert 3 == len({one.digest("m"), one.digest("n"), other.digest("m")})


def test_tool_support_is_claimed_by_the_flag() -> None:
    """In both spellings."""
    for flag in (["--tool-call-parser", "hermes"], ["--tool-call-parser=hermes"]):
        profile = Profile.model_validate(
            {"kind": "cpu", "check": [CHAT], "server": {"arguments": flag}}
        )
        assert profile.claims_tools
    assert not parse_profile(text(), "p.toml").claims_tools


def test_the_checkpoint_is_part_of_the_profile(tmp_path: Path) -> None:
    """Another byte or another name is another checkpoint; a large file counts by its head."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "sub" / "x").write_text("x")
    first = checkpoint_digest(tmp_path)
    assert first == checkpoint_digest(tmp_path)
    (tmp_path / "sub" / "x").write_text("y")
    second = checkpoint_digest(tmp_path)
    (tmp_path / "sub" / "x").rename(tmp_path / "sub" / "y")
    third = checkpoint_digest(tmp_path)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(65 << 20)
    fourth = checkpoint_digest(tmp_path)
    assert 4 == len({first, second, third, fourth})


def test_what_others_may_read(tmp_path: Path) -> None:
    """A folder under umask 077 is not for a container's user."""
    (tmp_path / "config.json").write_text("{}")
    tmp_path.chmod(0o755)
    (tmp_path / "config.json").chmod(0o644)
    assert readable_by_all(tmp_path)
    (tmp_path / "config.json").chmod(0o600)
    assert not readable_by_all(tmp_path)
    (tmp_path / "config.json").chmod(0o644)
    tmp_path.chmod(0o700)
    assert not readable_by_all(tmp_path)


def test_an_unknown_profile_names_those_there_are(project_root: Path, tmp_path: Path) -> None:
    """And a checkpoint that is not there is an error of the file."""
    with pytest.raises(BadInput) as caught:
        read_profile(project_root, "nothing")
    assert "smoke-cpu" in caught.value.action
    place = tmp_path / "images" / "profiles"
    place.mkdir(parents=True)
    (place / "x.toml").write_text(text(model={"folder": "gone"}))
    with pytest.raises(SpecError, match="no such folder"):
        read_profile(tmp_path, "x")


def test_the_cpu_profile_asks_what_the_smoke_model_knows(project_root: Path) -> None:
    """Its questions and expected answers are those of dialogues.json."""
    bound = read_profile(project_root, "smoke-cpu")
    assert bound.folder == project_root / "images" / "cpu" / "model"
    known = json.loads((bound.folder / "dialogues.json").read_text())
    chats = {chat["name"]: chat for chat in known["chats"]}
    chats["many-bytes-a-letter"] = chats["burst"] = chats["greeting-japanese"]
    asked = [check for check in bound.profile.check if check.request == "chat"]
    for check in asked:
        chat = chats[check.name.removesuffix("-streamed")]
        expected = chat["expected"]
        assert chat["messages"] == check.messages
        assert chat.get("tools", []) == check.tools
        fields = structure_fields(check.structure, "response_format", "") if check.structure else {}
        held = chat.get("response_format", {}).get("json_schema", {}).get("schema")
        named = fields.get("response_format", {"json_schema": {"schema": None}})
        assert isinstance(named, dict)
        assert isinstance(named["json_schema"], dict)
        assert held == named["json_schema"]["schema"]
        assert chat.get("chat_template_kwargs") == check.parameters.get("chat_template_kwargs")
        assert check.expect.content in (None, expected.get("content"))
        assert check.expect.reasoning in (None, expected.get("reasoning"))
        assert all(part in expected["content"] for part in check.expect.contains)
        if check.expect.tool_calls is not None:
            calls = [call.model_dump() for call in check.expect.tool_calls]
            assert expected["tool_calls"] == calls
        assert expected["finish_reason"] == check.expect.finish_reason
    assert {"capital-plain", "capital-reasoning", "tool-call", "long-text"} <= {
        check.name for check in asked
    }
    answers = {row["prompt"]: row["expected"]["text"] for row in known["completions"]}
    (completion,) = (c for c in bound.profile.check if c.name == "completion")
    assert answers[str(completion.prompt)] == completion.expect.content


@pytest.mark.parametrize("name", ["", "../policy", "a/b", "a\0b", ".", "a" * 300])
def test_a_profiles_name_is_a_name(name: str, tmp_path: Path) -> None:
    """It cannot lead out of the folder."""
    with pytest.raises(BadInput, match="not a profile's name"):
        read_profile(tmp_path, name)


def place(project: Path, content: bytes) -> Path:
    """Write profile `p` and the policy."""
    path = project / "images" / "profiles" / "p.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    (project / "images" / "policy.toml").write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 100_000, b"a = " + b"9" * 5_000, b"\xff", b"a" + b".a" * 5_000 + b" = 1"],
)
def test_a_file_that_is_no_toml_is_told(content: bytes, tmp_path: Path) -> None:
    """Profile and policy alike, with the file's name."""
    path = place(tmp_path, content)
    with pytest.raises(SpecError) as caught:
        read_profile(tmp_path, "p")
    assert str(path) == caught.value.subject
    with pytest.raises(SpecError) as caught:
        read_policy(tmp_path)
    assert str(tmp_path / "images" / "policy.toml") == caught.value.subject


def test_a_value_nested_too_deep_is_told() -> None:
    """Dotted keys nest without brackets."""
    deep = "kind" + ".a" * 5_000 + " = 1"
    with pytest.raises(SpecError, match="too deep"):
        parse_profile(deep, "p.toml")


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    """Some editors write one."""
    place(tmp_path, b"\xef\xbb\xbf" + text().encode())
    assert "cpu" == read_profile(tmp_path, "p").profile.kind


def test_a_folder_in_a_files_place_is_told(tmp_path: Path) -> None:
    """Profile and policy alike."""
    (tmp_path / "images" / "profiles" / "p.toml").mkdir(parents=True)
    (tmp_path / "images" / "policy.toml").mkdir()
    with pytest.raises(SpecError, match="Is a directory"):
        read_profile(tmp_path, "p")
    with pytest.raises(SpecError, match="Is a directory"):
        read_policy(tmp_path)


def test_a_checkpoint_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A zero byte in its name, or a link that leads to itself."""
    (tmp_path / "loop").symlink_to("loop")
    path = place(tmp_path, b"")
    for folder in ("a\0b", "loop"):
        path.write_text(text(model={"folder": folder}))
        with pytest.raises(SpecError, match=r"model\.folder"):
            read_profile(tmp_path, "p")
