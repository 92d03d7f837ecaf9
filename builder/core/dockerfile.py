"""The build folder as text: (spec, lock, templates) → Dockerfile and the small files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import jinja2

from builder.core.buildid import Invocation
from builder.core.companions import required
from builder.core.distribution import of_pin
from builder.core.labels import image_labels
from builder.core.layers import group_names
from builder.core.lock import Lock, WheelPin, canonical_json
from builder.core.spec import ImageSpec
from builder.core.target import target_of
from builder.errors import LockFileError, SpecError

VENV = "/opt/venv"
CUDA_HOME = "/usr/local/cuda"
"""Where programs look for a toolkit that nobody told them of."""
BASE_CONTEXT = "base-image"
"""Name of the context that is a base image; a stage of that name would be replaced by it."""
CACHE = "/cache"
"""The one folder a container writes to: home, models and compiled code; one volume keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One wheel group of the lock's layer plan: a stage, a folder, a layer."""

    name: str
    wheels: tuple[WheelPin, ...]
    lost: tuple[tuple[str, str], ...] = ()
    """Package and path: files of its wheels that another package wins, in this group or not."""

    @property
    def losers(self) -> tuple[WheelPin, ...]:
        """Wheels that are installed first, because they give paths up."""
        names = {package for package, _ in self.lost}
        return tuple(pin for pin in self.wheels if pin.name in names)

    @property
    def size(self) -> int:
        """Bytes of its wheels."""
        return sum(pin.size for pin in self.wheels)

    @property
    def title(self) -> str:
        """What it holds, in words."""
        if len(self.wheels) == 1:
            (only,) = self.wheels
            return f"{only.name} {only.version}, {_megabytes(self.size)}"
        return (
            f"{len(self.wheels)} wheels, {_megabytes(self.size)}: "
            f"{self.wheels[0].name} … {self.wheels[-1].name}"
        )

    def files(self) -> dict[str, bytes]:
        """Its lines of the lock, which pip and uv take as they are; losers apart, with a list."""
        losers = self.losers
        rest = [pin for pin in self.wheels if pin not in losers]
        found = {"requirements.txt": _lines(rest)}
        if losers:
            lost = "".join(f"{package} {path}\n" for package, path in self.lost)
            found |= {"losers.txt": _lines(losers), "lost.txt": lost.encode()}
        return found

    @property
    def all_lose(self) -> bool:
        """Whether nothing is left to install after the losers."""
        return len(self.losers) == len(self.wheels)


def _lines(pins: Iterable[WheelPin]) -> bytes:
    return "".join(pin.line() + "\n" for pin in pins).encode()


def groups_of(lock: Lock, platform: str) -> list[Group]:
    """Name the groups of the layer plan."""
    wins = lock.platforms[platform].wins
    lost = sorted(
        (loser, path)
        for losers in wins.values()
        for loser, paths in losers.items()
        for path in paths
    )
    return [
        Group(
            name=name,
            wheels=tuple(pins),
            lost=tuple(row for row in lost if row[0] in {pin.name for pin in pins}),
        )
        for name, pins in zip(
            group_names(lock.header.layers[platform]), lock.groups(platform), strict=True
        )
    ]


def installer(lock: Lock, platform: str) -> WheelPin:
    """Return the pinned uv; raise LockFileError when the lock has none."""
    for pin in lock.tools(platform):
        if pin.name == "uv":
            return pin
    raise LockFileError(
        "the lock names no uv, which installs the wheels",
        subject=f"lock/{lock.header.image}/lock.toml: tools.{platform}",
        action='add "uv==VERSION" to lock.tools in image.toml and lock again',
    )


_SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_COMPILED = {
    "CUDA_CACHE_PATH": "/cuda",
    "FLASHINFER_WORKSPACE_BASE": "",
    "CUTE_DSL_CACHE_DIR": "/cute-dsl",
    "TVM_FFI_CACHE_DIR": "/tvm-ffi",
    "TORCH_EXTENSIONS_DIR": "/torch-extensions",
    "TILELANG_CACHE_DIR": "/tilelang",
    "HUMMING_CACHE_DIR": "/humming",
    "QUACK_CACHE_DIR": "/quack",
    "B12X_COMPILE_CACHE_DIR": "/b12x",
}
"""Variable → folder: where packages beside vLLM 0.33 keep the GPU code they compile.

DeepGEMM's is set by vLLM, below VLLM_CACHE_ROOT; FlashInfer adds `.cache/flashinfer`.
"""


def environment(spec: ImageSpec, lock: Lock) -> dict[str, str]:
    """ENV of the image: one folder for all that is written, and what makes any UID work."""
    # What is compiled depends on what is installed. Its makers tell by the time of a source file
    # (Python, Numba), which is the same in every image, or by versions, which forks do not change:
    # a volume that outlives the image must not hand one image's code to the next.
    own = f"{CACHE}/{lock.digest.removeprefix('sha256:')[:12]}"
    # Before Debian's: FlashInfer takes the first nvcc there is for the image's.
    toolkit = [f"{CUDA_HOME}/bin"] if spec.image.cuda else []
    variables = {
        "PATH": ":".join([f"{VENV}/bin", *toolkit, *_SYSTEM]),
        "LANG": "C.UTF-8",
        # getpass and expanduser ask these first, then the user database, where a UID may lack.
        "HOME": CACHE,
        "USER": "vllm",
        "LOGNAME": "vllm",
        "XDG_CACHE_HOME": CACHE,
        "XDG_CONFIG_HOME": f"{CACHE}/config",
        "HF_HOME": f"{CACHE}/huggingface",
        "VLLM_CONFIG_ROOT": f"{CACHE}/config/vllm",
        "VLLM_CACHE_ROOT": f"{own}/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{own}/torchinductor",
        "TRITON_CACHE_DIR": f"{own}/triton",
        "NUMBA_CACHE_DIR": f"{own}/numba",
    }
    if spec.image.cuda:
        variables |= {name: f"{own}{folder}" for name, folder in _COMPILED.items()}
    return variables | _beside(spec, lock) | spec.run.environment


def _beside(spec: ImageSpec, lock: Lock) -> dict[str, str]:
    """Return what must be set because a companion is left out by policy."""
    platform, content = next(iter(sorted(lock.platforms.items())))
    pin = content.wheel(spec.lock.package)
    row = content.meta.get(pin.name) if pin is not None else None
    if pin is None or not isinstance(row, Mapping):
        return {}
    target = target_of(spec, platform)
    return dict(required(of_pin(pin, row), target, spec.lock.policies).environment)


def image_json(spec: ImageSpec, lock: Lock, platform: str) -> bytes:
    """Write what programs in the image know of it; a container cannot read its own labels."""
    program, *rest = spec.run.server
    server = [program if "/" in program else f"{VENV}/bin/{program}", *rest]
    return canonical_json(
        {
            "schema": "nightlock/image/1",
            "image": spec.name,
            "platform": platform,
            "server": server,
            "model_argument": spec.run.model_argument,
            "cache": CACHE,
            "vllm": lock.header.vllm.model_dump(),
            "channel": lock.header.channel,
            "target": lock.header.target.model_dump(),
            "targets": spec.image.targets,
            "companions": lock.header.companions,
            "lock": lock.digest,
            "spec": lock.header.spec,
        }
    )


def invocation(lock: Lock, platform: str) -> Invocation:
    """Build command of a rendered folder, as its first comment says it."""
    return Invocation(
        platform=platform,
        epoch=lock.header.epoch,
        name=f"nightlock/{lock.header.image}:local",
        labels={},
        contexts=base_context(lock, platform),
    )


def base_context(lock: Lock, platform: str) -> dict[str, str]:
    """Name the context of a base image: the folder `base/`, by digest; none for a base of .debs."""
    digest = lock.header.base.images.get(platform)
    return {BASE_CONTEXT: f"oci-layout://./base@{digest}"} if digest else {}


def dockerfile(templates: Mapping[str, str], *, spec: ImageSpec, lock: Lock, platform: str) -> str:
    """Render `NAME/Dockerfile.j2`; `templates` maps names below images/ to texts.

    Raises SpecError when a template is missing or wrong.
    """
    uid, _, gid = spec.run.user.partition(":")
    name = f"{spec.name}/Dockerfile.j2"
    # Not HTML: escaping would damage shell and JSON.
    engine = jinja2.Environment(  # noqa: S701
        loader=jinja2.DictLoader(dict(templates)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters["quoted"] = quoted
    try:
        return engine.get_template(name).render(
            spec=spec,
            lock=lock,
            platform=platform,
            command=invocation(lock, platform).text(),
            base_title=_base_title(lock, platform),
            base_context=BASE_CONTEXT if lock.header.base.image else "",
            debs=lock.platforms[platform].debs,
            uv=installer(lock, platform),
            groups=groups_of(lock, platform),
            venv=VENV,
            site=f"{VENV}/lib/python{spec.image.python}/site-packages",
            cuda_home=CUDA_HOME,
            cuda_major=(spec.image.cuda or "").partition(".")[0],
            cache=CACHE,
            uid=uid,
            gid=gid,
            environment=environment(spec, lock),
            labels=image_labels(spec, lock, platform),
        )
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        raise SpecError(
            f"the template cannot be rendered: {error.message or type(error).__name__}",
            subject=f"images/{getattr(error, 'name', None) or name}" + (f":{line}" if line else ""),
            action="correct the template; jinja2's StrictUndefined refuses names nobody defines",
        ) from error


def small_files(
    spec: ImageSpec,
    lock: Lock,
    platform: str,
    *,
    templates: Mapping[str, str],
    programs: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Everything in the build folder that is a function of spec, lock and nightlock itself."""
    return {
        "Dockerfile": dockerfile(templates, spec=spec, lock=lock, platform=platform).encode(),
        "runtime/image.json": image_json(spec, lock, platform),
        **{f"runtime/{name}": data for name, data in programs.items()},
        **{f"lock/{name}": data for name, data in lock.files().items()},
        **{
            f"wheels/{group.name}/{name}": data
            for group in groups_of(lock, platform)
            for name, data in group.files().items()
        },
    }


def quoted(value: str) -> str:
    r"""Quote a value of ENV or LABEL (Dockerfile reference: `\`, `"` and `$` are special)."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def _base_title(lock: Lock, platform: str) -> str:
    base = lock.header.base
    count = len(lock.platforms[platform].debs)
    if base.image:
        more = f", and {count} locked packages" if count else ""
        return f"{base.image}, {platform}: {base.images.get(platform, '')}{more}"
    return f"Debian {base.debian} from {count} locked packages, {base.debs.get(platform, '')}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
