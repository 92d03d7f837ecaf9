"""A project with one small image: the base of `cpu`, five real wheels, a server of ours.

Everything of the `cpu` image is in it but the weight: locked .debs, wheels with compiled code,
scripts and data, three layer groups, the family's template, the entrypoint.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.commands import fetch
from builder.commands.context import Context
from builder.core.debs import debs_digest
from builder.core.lock import BaseLock, DebPin, Lock, PlatformLock, VllmTable
from builder.core.spec import ImageSpec, parse_spec
from builder.edge.debs import archives, fetch_debs, resolve_base
from builder.edge.project import read_lock, read_spec, write_lock
from builder.edge.store import Store
from builder.output import Output

ROOT = Path(__file__).parents[2]
AMD64 = "linux/amd64"
GROUPS = [["markupsafe", "pyyaml"], ["ninja", "tqdm"], ["click"]]

SERVER = """
import http.server, os, signal, sys
port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 8000
print(sys.argv[1:], os.getuid(), os.environ["HF_HOME"], flush=True)
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
http.server.HTTPServer(("", port), Health).serve_forever()
"""


def mini_spec() -> ImageSpec:
    """Return the spec of the mini image, on the base of `cpu`."""
    cpu = read_spec(ROOT, "cpu")
    lines = [
        "[image]",
        'name = "mini"',
        'description = "A \\"small\\" image for $5"',
        f'platforms = ["{AMD64}"]',
        f'python = "{cpu.image.python}"',
        'targets = ["cpu"]',
        "[lock]",
        'channel = "release"',
        'package = "click"',
        'requirements = ["click"]',
        "[base]",
        f'debian = "{cpu.base.debian}"',
        f"packages = {cpu.base.packages!r}",
        "[run]",
        # Words of a command line have no newlines.
        f'server = ["python", "-c", {_toml(f"exec({SERVER!r})")}]',
        'model_argument = "--model"',
    ]
    return parse_spec("\n".join(lines) + "\n", "images/mini/image.toml")


def mini_project(context: Context, folder: Path) -> Context:
    """Write the project below `folder`, with a lock of its own, and fetch what it names.

    Wheels are those that lock/cpu names; .debs are today's, which Debian's mirrors still have.
    """
    spec = mini_spec()
    image = folder / "images/mini"
    image.mkdir(parents=True)
    (folder / "images/_shared").symlink_to(ROOT / "images/_shared")
    (image / "Dockerfile.j2").write_text('{% extends "_shared/image.j2" %}\n')
    (image / "image.toml").write_text(spec_text(spec))
    settings = context.settings.debian
    debs = resolve_base(spec.base, AMD64, settings, folder / "apt")
    assert spec.base.debian is not None
    fetch_debs(debs, Store(context.places.store), archives(spec.base.debian, settings))
    write_lock(folder, mini_lock(spec, debs))
    own = replace(context, project=folder, output=Output())
    fetch.run(own, "mini")
    return own


def mini_lock(spec: ImageSpec, debs: tuple[DebPin, ...]) -> Lock:
    """Take a few wheels out of the lock of `cpu`."""
    cpu = read_lock(ROOT, "cpu")
    content = cpu.platforms[AMD64]
    wheels = tuple(pin for pin in content.wheels if any(pin.name in group for group in GROUPS))
    (last,) = (pin for pin in wheels if pin.name == "click")
    header = cpu.header.model_copy(
        update={
            "image": spec.name,
            "spec": spec.digest,
            "vllm": VllmTable(package="click", version=last.version, commit="c" * 40),
            "companions": {},
            "base": BaseLock(debian=spec.base.debian or "", debs={AMD64: debs_digest(debs)}),
            "layers": {AMD64: GROUPS},
        }
    )
    return Lock(
        header=header,
        platforms={AMD64: PlatformLock(wheels=wheels, debs=debs, meta={})},
    )


def spec_text(spec: ImageSpec) -> str:
    """Spell a spec as image.toml."""
    import tomli_w  # noqa: PLC0415 - only this function writes TOML

    return tomli_w.dumps(spec.model_dump(mode="json", exclude_none=True))


def _toml(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""'
