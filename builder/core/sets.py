"""`images/sets.toml`: sets of images that are locked together, one vLLM for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, RootModel

from builder.core.spec import Platform, parse_toml
from builder.errors import BadInput, SpecError

_Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
_Images = Annotated[dict[Platform, str], Field(min_length=1)]


class _Sets(RootModel[dict[_Name, _Images]]):
    """Set → platform → image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Images that get one vLLM: a set, or one image alone."""

    name: str
    images: tuple[str, ...]
    """In the order of their platforms."""


def parse_sets(text: str, path: str, images: Collection[str]) -> dict[str, dict[str, str]]:
    """Parse sets.toml; `images` are the names there are.

    Raises SpecError.
    """
    sets = parse_toml(_Sets, text, path).root
    wrong = [
        f"{name}.{platform}: there is no image {image!r}"
        for name, members in sets.items()
        for platform, image in members.items()
        if image not in images
    ]
    wrong += [f"{name}: there is an image of that name" for name in sets if name in images]
    if wrong:
        raise SpecError(
            "; ".join(wrong), subject=path, action=f"images here: {', '.join(sorted(images))}"
        )
    return sets


def groups(
    names: Sequence[str], sets: Mapping[str, Mapping[str, str]], images: Collection[str]
) -> list[Group]:
    """Turn names of images and sets into groups; raises BadInput for an unknown name."""
    unknown = [name for name in names if name not in sets and name not in images]
    if unknown:
        raise BadInput(
            f"there is no image or set {', '.join(map(repr, unknown))}",
            subject="images/",
            action=f"images: {', '.join(sorted(images)) or 'none'}; "
            f"sets: {', '.join(sorted(sets)) or 'none'}",
        )
    return [
        Group(
            name=name,
            images=tuple(dict.fromkeys(image for _, image in sorted(sets[name].items())))
            if name in sets
            else (name,),
        )
        for name in dict.fromkeys(names)
    ]
