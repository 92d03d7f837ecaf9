"""mmdebstrap: a root file system from .debs that lie here, without a network.

Flags are those of mmdebstrap(1) 1.3.5 (Debian 12) and 1.5.7 (Debian 13).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

from builder.core import control
from builder.core.lock import DebPin, digest_of
from builder.core.rootfs import EPOCH
from builder.edge import files, process
from builder.edge.store import Store, link
from builder.errors import CommandFailed, ToolMissing

_PERL_MODULES = ("English", "Digest::SHA", "Time::HiRes", "IO::Select", "Getopt::Long")
"""Of those mmdebstrap uses, the ones that a system with perl-base alone lacks."""


def can_make_base() -> str | None:
    """Return why no root file system can be made here, with the fix; None when it can."""
    lacking = [name for name in ("apt-get", "dpkg", "dpkg-deb", "tar", "perl") if not process.find(name)]
    if lacking:
        return f"{', '.join(lacking)} not there: install them from a Debian-family system's packages"
    modules = [f"-M{name}" for name in _PERL_MODULES]
    if not _works(["perl", *modules, "-e", "1"]):
        return "Perl's standard modules are not there: install Debian's package perl"
    if os.geteuid() == 0:
        if _works(["unshare", "--mount", "true"]):
            return None
        return (
            "root may not mount here (a container without CAP_SYS_ADMIN?): "
            "run in a container started with --privileged, or on the machine itself"
        )
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
            "not root, and /etc/subuid or /etc/subgid gives this user no ids: "
            "run `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`, or use root"
        )
    return None


def bootstrap(
    program: Path,
    codename: str,
    controls: Sequence[tuple[DebPin, str]],
    store: Store,
    work: Path,
    target: Path,
) -> None:
    """Install exactly these .debs into a tar; `controls` is what `read_controls` gave, `work` is
    an empty folder for what lies between.

    The tar still holds traces of this machine: `core.rootfs.normalise` takes them out.

    Raises:
        ToolMissing: a program or a right that it needs is not there.
        CommandFailed: mmdebstrap or a package's script failed.
        DiskFull: there is no room.

    """
    reason = can_make_base()
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
    scratch.mkdir(mode=0o755)
    names = ",".join(sorted(pin.name for pin in debs))
    command = [
        # A package's script makes files with our umask, so it must not be the caller's.
        *("sh", "-c", 'umask 022 && exec "$@"', "sh"),
        str(program),
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        "--variant=required",
        "--format=tar",
        # Nothing of this tree has to survive a power cut; its fsyncs cost most of the time.
        "--dpkgopt=force-unsafe-io",
        f"--architectures={_architecture(debs)}",
        f"--include={names}",
        codename,
        str(target),
        f"deb [trusted=yes] copy:{quote(str(archive))} ./",
    ]
    environment = {
        "PATH": os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin",
        "HOME": str(work),
        "TMPDIR": str(scratch),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(EPOCH),
    }
    try:
        with files.full_disk_explained(target):
            process.run(
                command,
                cwd=work,
                environment=environment,
                what="the root file system could not be made from the locked .debs",
                action="see the lines below; `nightlock doctor` checks what mmdebstrap needs",
            )
    finally:
        if os.geteuid() != 0 and any(scratch.iterdir()):
            # What a killed run leaves belongs to subordinate ids: only their owner may remove it.
            _works([str(program), "--unshare-helper", "rm", "-rf", str(scratch)])


def read_controls(debs: Sequence[DebPin], store: Store) -> list[tuple[DebPin, str]]:
    """Read each .deb's own control data."""

    def read(pin: DebPin) -> tuple[DebPin, str]:
        return pin, process.run(["dpkg-deb", "--field", store.path(pin.sha256)])

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(read, debs))


def _write_archive(
    codename: str, controls: Sequence[tuple[DebPin, str]], store: Store, folder: Path
) -> None:
    """Lay out a flat archive of these files; apt checks each against its locked sha256."""
    folder.mkdir(parents=True)
    for pin, _ in controls:
        link(store.path(pin.sha256), folder / pin.file)
    index = control.packages_index(controls).encode()
    (folder / "Packages").write_bytes(index)
    # mmdebstrap asks apt for what is essential `in this codename`, so a Release must name it.
    release = (
        f"Suite: {codename}\nCodename: {codename}\nDate: Tue, 01 Jan 1980 00:00:00 UTC\n"
        f"SHA256:\n {digest_of(index).removeprefix('sha256:')} {len(index)} Packages\n"
    )
    (folder / "Release").write_text(release)


def _architecture(debs: Sequence[DebPin]) -> str:
    return next(pin.architecture for pin in debs if pin.architecture != "all")


def _works(command: list[str]) -> bool:
    try:
        process.run(command, timeout=60)
    except (CommandFailed, ToolMissing):
        return False
    return True


def _has_subordinate_ids() -> bool:
    import getpass

    try:
        own = {getpass.getuser(), str(os.getuid())}
    except KeyError:
        own = {str(os.getuid())}
    for path in (Path("/etc/subuid"), Path("/etc/subgid")):
        lines = path.read_text().splitlines() if path.is_file() else []
        if not any(line.split(":")[0] in own for line in lines):
            return False
    return True
