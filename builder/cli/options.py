"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Image = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of a folder under images/.")]
Builder = Annotated[str, typer.Option("--builder", metavar="NAME", help="A buildx builder.")]
Ref = Annotated[str, typer.Argument(metavar="REF", help="An image reference.")]
Profile = Annotated[str, typer.Option("--profile", metavar="NAME", help="In images/profiles/.")]
Of = Annotated[str, typer.Option("--image", metavar="NAME", help="Whose profile to take.")]
To = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Copy the report there.")]
Xml = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also as JUnit XML.")]
Push = Annotated[str, typer.Option("--push", metavar="REPO", help="Repository to push to.")]
Emulate = Annotated[
    bool, typer.Option("--emulate", help="Build for another architecture than the builder's.")
]
Sign = Annotated[str, typer.Option("--sign", metavar="KEY", help="Sign with cosign's key.")]
