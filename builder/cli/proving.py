"""Verbs that prove: smoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builder.cli.app import verb
from builder.cli.options import Of, Profile, Ref, To, Xml

if TYPE_CHECKING:
    from builder.commands.context import Context, Outcome


@verb("smoke", long=True)
def smoke(
    context: Context,
    ref: Ref,
    profile: Profile = "",
    image: Of = "",
    out: To = None,
    junit: Xml = None,
) -> Outcome[Any]:
    """Boot an image under testcontainers, ask it real questions, write a receipt."""
    from builder.commands import smoke as recipe  # noqa: PLC0415

    return recipe.run(context, ref, profile=profile, image=image, out=out, junit_file=junit)
