"""images/sets.toml: which images get one vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.core.sets import Group, groups, parse_sets
from builder.edge.project import image_names, read_sets, read_spec
from builder.errors import BadInput, SpecError

TEXT = '[pair]\n"linux/arm64" = "b"\n"linux/amd64" = "a"\n'


def test_a_set_becomes_its_images_in_the_order_of_platforms() -> None:
    """Names of images stand for themselves; a name twice counts once."""
    sets = parse_sets(TEXT, "images/sets.toml", ("a", "b", "c"))
    assert [Group(name="c", images=("c",)), Group(name="pair", images=("a", "b"))] == groups(
        ["c", "pair", "c"], sets, ("a", "b", "c")
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT, "pair.linux/arm64: there is no image 'b'"),
        ('[a]\n"linux/amd64" = "a"\n', "a: there is an image of that name"),
        ('[pair]\n"windows/amd64" = "a"\n', "windows/amd64"),
        ("[pair]\n", "pair"),
    ],
)
def test_a_set_that_makes_no_sense_is_refused(text: str, words: str) -> None:
    """With the file and the place in it."""
    with pytest.raises(SpecError) as caught:
        parse_sets(text, "images/sets.toml", ("a",))
    assert words in caught.value.what
    assert "images/sets.toml" == caught.value.subject


def test_an_unknown_name_says_what_there_is() -> None:
    """Images and sets."""
    with pytest.raises(BadInput, match="there is no image or set 'cuda14'") as caught:
        groups(["cuda14"], {"cuda13": {"linux/amd64": "a"}}, ("a",))
    assert "images: a; sets: cuda13" == caught.value.action


def test_the_projects_own_sets_name_images_for_their_platforms(project_root: Path) -> None:
    """`cuda13` is sm120 on amd64 and sm121 on arm64."""
    sets = read_sets(project_root)
    assert {"linux/amd64": "cuda13-sm120", "linux/arm64": "cuda13-sm121"} == sets["cuda13"]
    assert {} == {
        image: platform
        for members in sets.values()
        for platform, image in members.items()
        if platform not in read_spec(project_root, image).image.platforms
    }
    assert "cuda13" not in image_names(project_root)
