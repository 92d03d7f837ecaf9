"""mmdebstrap: a root file system from .debs that lie here, without a network.

Flags are those of mmdebstrap(1) 1.3.5 (Debian 12) and 1.5.7 (Debian 13).
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from builder.core import control
from builder.core.lock import DebPin, digest_of
from builder.core.room import disk_full_line
from builder.core.rootfs import EPOCH
from builder.core.settings import DebianSettings
from builder.edge import files, process
from builder.edge.apt import AptRoot, host_sources
from builder.edge.pool import Stop, each
from builder.edge.store import Store, link, verified
from builder.edge.tools import unpack
from builder.errors import CommandFailed, ToolMissing

_LINE = 300
"""Characters of a line of its output that are shown."""
_PROGRAM = "usr/bin/mmdebstrap"
_SUITE = "trixie"
"""Whose mmdebstrap is unpacked; it is a Perl script, and any version gives the same base."""
_PERL_MODULES = ("English", "Digest::SHA", "Time::HiRes", "IO::Select", "Getopt::Long")
"""Of those mmdebstrap uses, the ones that a system with perl-base alone lacks."""
_BINFMT = Path("/proc/sys/fs/binfmt_misc")
"""Where the kernel lists what it starts programs of other machines with."""
_EMULATORS = {"arm64": "qemu-aarch64", "amd64": "qemu-x86_64"}
"""Debian's architecture → the name that qemu-user-static registers."""


def can_make_base() -> str | None:
    """Return why no root file system can be made here, with the fix; None when it can."""
    rights = _mounts_missing if os.geteuid() == 0 else _namespace_missing
    return _programs_missing() or rights()


def _emulator_missing(architecture: str) -> str | None:
    """Return why scripts of this architecture's packages do not run here; None when they do."""
    native = process.run(["dpkg", "--print-architecture"]).strip()
    registered = _BINFMT / _EMULATORS.get(architecture, architecture)
    if architecture == native or registered.exists():
        return None
    return (
        f"packages for {architecture} do not run on {native}: use a native {architecture} machine, "
        "or install Debian's packages qemu-user-static and binfmt-support"
    )


def _programs_missing() -> str | None:
    wanted = ("apt-get", "dpkg", "dpkg-deb", "tar", "perl", "unshare")
    lacking = [name for name in wanted if not process.find(name)]
    if lacking:
        return f"{', '.join(lacking)} not there: install the packages of a Debian-family system"
    if not _works(["perl", *(f"-M{name}" for name in _PERL_MODULES), "-e", "1"]):
        return "Perl's standard modules are not there: install Debian's package perl"
    return None


def _mounts_missing() -> str | None:
    if _works(["unshare", "--mount", "true"]):
        return None
    return (
        "root may not mount here (a container without CAP_SYS_ADMIN?): "
        "start the container with --privileged, or run on the machine itself"
    )


def _namespace_missing() -> str | None:
    if not process.find("newuidmap"):
        return "not root, and newuidmap is not there: install Debian's package uidmap, or use root"
    if not _works(["unshare", "--user", "--map-root-user", "true"]):
        return (
            "not root, and user namespaces do not work: set the sysctls "
            "user.max_user_namespaces, kernel.unprivileged_userns_clone=1 and "
            "kernel.apparmor_restrict_unprivileged_userns=0, or use root"
        )
    if not _has_subordinate_ids():
        return (
            "not root, and /etc/subuid or /etc/subgid gives this user no ids: run `usermod "
            "--add-subuids 100000-165535 --add-subgids 100000-165535 USER`, or use root"
        )
    return None


def find_mmdebstrap(folder: Path) -> Path | None:
    """Find the program: the machine's own, else what `unpack_mmdebstrap` left below `folder`."""
    unpacked = sorted(folder.glob(f"mmdebstrap-*/{_PROGRAM}"))
    return process.find("mmdebstrap") or next(iter(reversed(unpacked)), None)


def unpack_mmdebstrap(folder: Path, settings: DebianSettings) -> Path:
    """Fetch Debian's package and unpack it below `folder`; nothing is installed.

    Raises as `AptRoot.update` and `host_sources`.
    """
    architecture = process.run(["dpkg", "--print-architecture"]).strip()
    sources = host_sources(_SUITE, settings)
    root = AptRoot(folder / f"apt-{_SUITE}-{architecture}", sources, architecture)
    root.update()
    (pin,) = root.show(["mmdebstrap"])
    target = folder / f"mmdebstrap-{pin.version}"
    with files.locked(folder / "mmdebstrap.lock"):
        if not (target / _PROGRAM).is_file():
            with files.fresh_folder(target) as fresh:
                (deb,) = root.download([pin.name], fresh)
                unpack(deb, fresh)
                deb.unlink()
    return target / _PROGRAM


def bootstrap(
    program: Path,
    codename: str,
    controls: Sequence[tuple[DebPin, str]],
    store: Store,
    work: Path,
    target: Path,
) -> None:
    """Install exactly these .debs into a tar.

    `controls` is what `read_controls` gave; `work` is an empty folder for what lies between. The
    tar still holds traces of this machine: `core.rootfs.normalise` takes them out.

    Raises:
        ToolMissing: a program or a right that it needs is not there.
        CommandFailed: mmdebstrap or a package's script failed.
        DiskFull: there is no room.

    """
    reason = can_make_base() or _emulator_missing(_architecture([pin for pin, _ in controls]))
    if reason is not None:
        raise ToolMissing(
            f"no root file system can be made here: {reason}",
            subject=str(program),
            action="do as said, or render on another machine: `nightlock doctor` checks it",
        )
    archive = work / "archive"
    _write_archive(codename, controls, store, archive)
    debs = [pin for pin, _ in controls]
    scratch = work / "scratch"
    _make_open(scratch)
    names = ",".join(sorted(pin.name for pin in debs))
    command = [
        # A package's script makes files with our umask, so it must not be the caller's.
        *("sh", "-c", 'umask 022 && exec "$@"', "sh"),
        str(program),
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        "--variant=required",
        "--format=tar",
        # Nothing of this tree has to survive a power cut.
        "--dpkgopt=force-unsafe-io",
        f"--architectures={_architecture(debs)}",
        f"--include={names}",
        codename,
        str(target),
        f"deb [trusted=yes] copy:{quote(str(archive))} ./",
    ]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": str(work),
        "TMPDIR": str(scratch),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(EPOCH),
    }
    try:
        process.run(
            command,
            cwd=work,
            environment=environment,
            what="the root file system could not be made from the locked .debs",
            action="see the lines below; `nightlock doctor` checks what mmdebstrap needs",
        )
    except CommandFailed as error:
        if full := disk_full_line(error.tail):
            raise files.disk_full(target, full[:_LINE]) from error
        # Its command and some of its lines name every package: the reason would drown in them.
        raise CommandFailed(
            error.what,
            subject=str(program),
            action=error.action,
            status=error.status,
            tail="\n".join(line[:_LINE] for line in error.tail.splitlines()),
        ) from error
    finally:
        if os.geteuid() != 0 and any(scratch.iterdir()):
            # What a killed run leaves belongs to subordinate ids: only their owner may remove it.
            _works([str(program), "--unshare-helper", "rm", "-rf", str(scratch)])


def read_controls(debs: Sequence[DebPin], store: Store) -> list[tuple[DebPin, str]]:
    """Read each .deb's own control data; raises HashMismatch for one that the disk damaged."""

    def read(pin: DebPin, _: Stop) -> tuple[DebPin, str]:
        path = verified(store.path(pin.sha256), pin.file)
        return pin, process.run(["dpkg-deb", "--field", path])

    return each(read, debs, threads=4)


def _write_archive(
    codename: str, controls: Sequence[tuple[DebPin, str]], store: Store, folder: Path
) -> None:
    """Lay out a flat archive of these files; apt checks each against its locked sha256."""
    _make_open(folder)
    for pin, _ in controls:
        link(store.path(pin.sha256), folder / pin.file)
    index = control.packages_index(controls).encode()
    files.write(folder / "Packages", index)
    # mmdebstrap asks apt for what is essential `in this codename`, so a Release must name it.
    release = (
        f"Suite: {codename}\nCodename: {codename}\nDate: Tue, 01 Jan 1980 00:00:00 UTC\n"
        f"SHA256:\n {digest_of(index).removeprefix('sha256:')} {len(index)} Packages\n"
    )
    files.write(folder / "Release", release.encode())


def _make_open(folder: Path) -> None:
    """Make a folder that subordinate users may enter, whatever our umask is."""
    files.make_folder(folder)
    folder.chmod(0o755)


def _architecture(debs: Sequence[DebPin]) -> str:
    return next(pin.architecture for pin in debs if pin.architecture != "all")


def _works(command: list[str]) -> bool:
    try:
        process.run(command, timeout=60)
    except (CommandFailed, ToolMissing):
        return False
    return True


def _has_subordinate_ids() -> bool:
    try:
        own = {getpass.getuser(), str(os.getuid())}
    except KeyError:
        own = {str(os.getuid())}
    for path in (Path("/etc/subuid"), Path("/etc/subgid")):
        lines = path.read_text().splitlines() if path.is_file() else []
        if not any(line.split(":")[0] in own for line in lines):
            return False
    return True
