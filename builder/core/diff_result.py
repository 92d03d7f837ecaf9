"""DiffResult: what two locks differ in, as data; every output format is written from it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from builder.core.document import Result
from builder.core.image_diff_result import ImageDiff

Kind = Literal["added", "removed", "upgraded", "downgraded", "re-hashed", "moved"]
"""`re-hashed`: same version and file name, other bytes. `moved`: same version, other file or index.

Of a .deb the index is the suite.
"""

Why = Literal["still-required", "no-longer-required", "extra-gone", "extra-not-asked"]
"""Why a package that left is missed, see `DroppedBy`."""


class Side(Result):
    """One of the two locks."""

    name: str
    """As it was typed."""
    revision: str = ""
    """The git commit it was read from, 40 hex digits."""
    lock: str
    """Lock digest."""
    image: str
    channel: str
    vllm: str
    """Version of vLLM."""
    commit: str
    """Commit of vLLM."""


class Fact(Result):
    """One value of the header that changed."""

    name: str
    platform: str = ""
    """Empty: of the whole lock."""
    old: str
    new: str
    counts: bool = True
    """False: it is recorded, but changes no image, as which resolver ran."""


class FileRef(Result):
    """A file that a lock names."""

    file: str
    sha256: str
    size: int
    """Bytes."""
    index: str


class FileChange(Result):
    """The file of one platform, before and after."""

    platform: str
    old: FileRef | None = None
    new: FileRef | None = None


class PackageChange(Result):
    """One package that changed, identical changes of several platforms in one."""

    name: str
    kind: Kind
    old: str = ""
    """Version before; empty when added."""
    new: str = ""
    """Version after; empty when removed."""
    companion: bool = False
    """Whether it must match vLLM."""
    pinned: bool | None = None
    """Of a companion: whether vLLM's own metadata pins it exactly."""
    files: list[FileChange]

    @property
    def platforms(self) -> list[str]:
        """Platforms it changed on."""
        return [change.platform for change in self.files]


class Commit(Result):
    """One commit of a project, newest first in lists."""

    sha: str
    title: str


class CommitRange(Result):
    """What lies between two versions of a project."""

    project: str
    old: str
    new: str
    old_commit: str = ""
    new_commit: str = ""
    count: int | None = None
    """Commits between the two; None when nothing tells."""
    counted_by: Literal["", "version", "history"] = ""
    """`version`: from the dev numbers. `history`: a clone or a forge was asked."""
    backwards: bool = False
    """The new one is the older one; the commits are those that go."""
    compare: str = ""
    """Address of the forge's own page."""
    commits: list[Commit] = Field(default_factory=list)
    """Empty when no clone and no forge could be asked; may hold only the newest ones."""


class RequirementChange(Result):
    """Requires-Dist of a package that stayed."""

    name: str
    platforms: list[str]
    old: str
    """Version of the package before."""
    new: str
    added: list[str]
    removed: list[str]


class MetadataChange(Result):
    """Another field of a package's metadata, as `requires_python` or `licence`."""

    name: str
    platforms: list[str]
    field: str
    old: str
    new: str
    counts: bool = True
    """False: it is recorded, but changes no image, as who gave a hash."""


class DroppedBy(Result):
    """Somebody who used a package that left, and stayed.

    still-required      its metadata names the package as before
    no-longer-required  its metadata does not name the package any more
    extra-gone          it asks for an extra that the other package does not have any more
    extra-not-asked     it does not ask any more for the extra that brought the package
    """

    name: str
    old: str
    new: str
    why: Why
    through: str = ""
    """The extra that brought the package, as `flashinfer-python[cu13]`; empty: none was needed."""
    requirement: str
    """The Requires-Dist line that brought the package, of this user or of the extra's owner."""


class Dropped(Result):
    """A package that left while somebody who used it stayed."""

    name: str
    version: str
    platforms: list[str]
    users: list[DroppedBy]


class LayerPull(Result):
    """A layer that must be pulled again."""

    number: int
    """Position in the plan, from 1."""
    bytes: int
    packages: list[str]
    changed: list[str]
    """Those of its packages that are new to a host with the old image; empty: all moved here."""


class Pull(Result):
    """What a host that has the old image pulls for the new one, in bytes of wheels and .debs."""

    platform: str
    total: int
    """Bytes of the whole new image, base included."""
    pull: int
    base: int
    """Bytes of the base within `pull`; 0 when it is unchanged, or an image of unknown size."""
    base_changed: bool
    layers: list[LayerPull]
    layer_count: int
    reason: str = ""
    """Why every layer is pulled, when one reason moves all."""


class DiffResult(Result):
    """What two locks differ in; noise (order, comments, blank lines) is nowhere in it."""

    old: Side
    new: Side
    same: bool
    """Nothing differs that changes an image."""
    platforms: list[str]
    """Platforms that both have; only these are compared."""
    platforms_added: list[str]
    platforms_removed: list[str]
    facts: list[Fact]
    commits: list[CommitRange]
    packages: list[PackageChange]
    """Companions first."""
    dropped: list[Dropped]
    requirements: list[RequirementChange]
    metadata: list[MetadataChange]
    debs: list[PackageChange]
    tools: list[PackageChange]
    """What builds need and images do not hold."""
    pulls: list[Pull]
    images: list[ImageDiff] = Field(default_factory=list)
    """Platforms of two images, layer by layer; none unless both sides are images."""
