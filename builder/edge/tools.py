"""Programs from Debian's packages, unpacked into a folder; nothing is installed on the machine."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from builder.core.engine import ToolSet, tool
from builder.core.lock import DebPin
from builder.core.room import disk_full_line
from builder.core.settings import DebianSettings
from builder.edge import apt, files, process
from builder.edge.apt import AptRoot
from builder.errors import CommandFailed, ToolMissing

_LAYOUT = "1"
"""Part of a folder's name: raised when the layout below changes."""
_BIN = ("usr/bin", "usr/sbin", "bin", "sbin", "usr/libexec/docker/cli-plugins")
_FLAVOURS = ("nft", "legacy")
_MULTI_CALL = tuple(
    f"{program}{suffix}"
    for program in ("iptables", "ip6tables")
    for suffix in ("", "-save", "-restore")
)
# Part of the system's base: a second copy beside the first would break it.
_NEVER = frozenset({"libc6", "libgcc-s1", "libcrypt1"})


def find_tools(folder: Path, wanted: ToolSet) -> Path | None:
    """Return the newest complete folder that holds the wanted packages; None when there is none."""
    found = []
    # A folder with a dot is one that is being made.
    for manifest in folder.glob("[!.]*/manifest.json"):
        names = json.loads(manifest.read_text())
        if set(wanted.names) <= set(names):
            found.append((manifest.stat().st_mtime, manifest.parent))
    return max(found)[1] if found else None


def fetch_tools(folder: Path, wanted: ToolSet, apt_folder: Path, settings: DebianSettings) -> Path:
    """Fetch packages, with the libraries this machine lacks, and unpack them below `folder`.

    Raises:
        ToolMissing: apt or dpkg is not there, or a program does not run on this machine.
        NetworkError: Debian's archive is out of reach.
        DiskFull: there is no room.

    """
    architecture = process.run(["dpkg", "--print-architecture"]).strip()
    plan: list[tuple[AptRoot, tuple[DebPin, ...]]] = []
    for suite, names in wanted.suites.items():
        root = AptRoot(apt_folder / suite, apt.host_sources(suite, settings), architecture)
        root.update()
        libraries = _missing_libraries(root, names) if suite == wanted.libraries else ()
        plan.append((root, root.show([*names, *libraries])))
    pins = [pin for _, part in plan for pin in part]
    target = folder / _key(pins)
    if (target / "manifest.json").exists():
        return target
    needed = sum(pin.size for pin in pins) * 6
    files.require_free(folder, needed, "unpacking the engine")
    with files.fresh_folder(target) as fresh, TemporaryDirectory(dir=fresh) as scratch:
        for root, part in plan:
            for deb in root.download([pin.name for pin in part], Path(scratch)):
                unpack(deb, fresh / "root")
        _link_programs(fresh)
        _try_programs(fresh, wanted.programs)
        manifest = {pin.name: f"{pin.version} {pin.architecture}" for pin in pins}
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        files.write(fresh / "manifest.json", text.encode())
    return target


def unpack(deb: Path, folder: Path) -> None:
    """Unpack a .deb into a folder; raises DiskFull, CommandFailed."""
    try:
        process.run(
            ["dpkg-deb", "--extract", deb, folder],
            environment={**os.environ, "LC_ALL": "C"},
            what=f"{deb.name} cannot be unpacked",
            action="see the line below, then try again",
        )
    except CommandFailed as error:
        if full := disk_full_line(error.tail):
            raise files.disk_full(folder, full) from error
        raise


def tool_environment(tools: Path, flavour: str, path: str) -> dict[str, str]:
    """Return what the unpacked programs need to find one another, with `path` behind them.

    `flavour` is `nft` or `legacy`: what `iptables` means to dockerd.
    """
    libraries = sorted(
        str(folder)
        for base in ("root/usr/lib", "root/lib")
        for folder in (tools / base).glob("*-linux-gnu*")
    )
    found = {"PATH": f"{tools / flavour}:{tools / 'bin'}:{path}"}
    if libraries:
        found["LD_LIBRARY_PATH"] = ":".join(libraries)
        found["XTABLES_LIBDIR"] = ":".join(f"{folder}/xtables" for folder in libraries)
    return found


def versions(tools: Path) -> Mapping[str, str]:
    """Package → version of what was unpacked."""
    manifest: dict[str, str] = json.loads((tools / "manifest.json").read_text())
    return {name: version.split()[0] for name, version in manifest.items()}


def _missing_libraries(root: AptRoot, names: Sequence[str]) -> list[str]:
    said = process.run(["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n"])
    installed = {line.split()[1] for line in said.splitlines() if line.startswith("installed ")}
    return [
        pin.name
        for pin in root.resolve(names, essential=False)
        if pin.name.startswith("lib")
        and not pin.name.endswith("-perl")
        and pin.name not in installed | _NEVER | set(names)
    ]


def _key(pins: Iterable[DebPin]) -> str:
    rows = sorted(f"{pin.name} {pin.version} {pin.sha256}" for pin in pins)
    return hashlib.sha256("\n".join([_LAYOUT, *rows]).encode()).hexdigest()[:12]


def _link_programs(top: Path) -> None:
    for folder in _BIN:
        for program in sorted((top / "root" / folder).glob("*")):
            link = top / "bin" / program.name
            if not link.is_symlink():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(Path("../root") / folder / program.name)
    for flavour in _FLAVOURS:
        for name in _MULTI_CALL:
            link = top / flavour / name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(f"../root/usr/sbin/xtables-{flavour}-multi")


def _try_programs(top: Path, names: Sequence[str]) -> None:
    environment = {**os.environ, **tool_environment(top, "nft", os.environ.get("PATH", ""))}
    for name in names:
        try:
            process.run([tool(top, name), "--version"], environment=environment, timeout=30)
        except CommandFailed as error:
            raise ToolMissing(
                f"{name} from Debian's packages does not run on this machine: "
                f"{error.tail or error.what}",
                subject=str(top),
                action="install Docker Engine 26 or newer on this machine, or name one by "
                "DOCKER_HOST",
            ) from error
