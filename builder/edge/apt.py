"""apt in a private root: resolves for any architecture, without root rights and without Docker.

Nothing of the machine's apt leaks in but how it reaches the network (apt.conf(5), apt-get(8)).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from builder.core import control, debian
from builder.core.debian import AptSource
from builder.core.lock import DebPin
from builder.core.room import disk_full_line
from builder.core.settings import DebianSettings
from builder.edge import files, process
from builder.errors import (
    BadInput,
    CommandFailed,
    NetworkError,
    NightlockError,
    Outside,
    Refused,
    ToolMissing,
)

_FOLDERS = (
    "etc/apt/apt.conf.d",
    "etc/apt/preferences.d",
    "var/lib/apt/lists/partial",
    "var/cache/apt/archives/partial",
)
_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_SET_MIRROR = (
    "set NIGHTLOCK_DEBIAN_MIRROR, or `mirror` under `[debian]` in config.toml, "
    "to a mirror of Debian"
)
_SET_KEYRING = (
    "install Debian's package debian-archive-keyring in its newest version, or set "
    "NIGHTLOCK_DEBIAN_KEYRING to the file of that name"
)

_ROOM = 250_000_000
"""Bytes of a root with its indexes and caches, while new indexes come: 140 MB and a spare copy."""
_SILENCE = 300.0
"""Seconds without a word after which apt hangs: on a full disk it waits for ever."""
_SLOWEST = 50_000
"""Bytes a second: it says nothing while one file comes."""
_NO_ROOM = 1 << 16
"""Free bytes below which a disk counts as full, whatever apt says of it."""

_NETWORK = re.compile(
    r'Acquire::(?:https?(?:::.*)?|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date) "[^"]+";'
)
_UNSIGNED = re.compile(
    r"NO_PUBKEY|BADSIG|EXPKEYSIG|EXPSIG|REVKEYSIG|is not signed|signatures? (?:were|was) invalid"
    r"|couldn't be verified|Signed-By|Missing key|Sub-process \S*sqv|not valid (?:yet|anymore)"
    r"|is expired|Hash Sum mismatch|unexpected size"
)
_UNKNOWN = re.compile(
    r"Unable to locate package (\S+)|Package '?(\S+?)'? has no installation candidate"
    r"|Can't find a source to download version '\S+' of '(\S+?)'"
)


def host_sources(codename: str, settings: DebianSettings) -> tuple[AptSource, ...]:
    """Say where Debian's archive is: by settings, else by this machine's own apt sources.

    The suites are those of `codename`, whatever release the machine itself is.

    Raises:
        ToolMissing: neither names an archive, or the keyring is not there.

    """
    own = tuple(_machine_sources())
    archive = _source(settings.mirror) or debian.find_archive(own) or _carried()
    if archive is None:
        raise ToolMissing(
            "it is not known where Debian's archive is: this machine's apt sources do not name it",
            subject="/etc/apt/sources.list, /etc/apt/sources.list.d",
            action=_SET_MIRROR,
        )
    security = _source(settings.security) or debian.find_security(own)
    return debian.archive_for(codename, archive, security, _keyring(settings, archive))


def network_configuration() -> str:
    """How this machine's apt reaches the network: proxies, CA, retries; as apt.conf text."""
    if process.find("apt-config") is None:
        return ""
    lines = process.run(["apt-config", "dump"]).splitlines()
    return "".join(line + "\n" for line in lines if _NETWORK.fullmatch(line))


class AptRoot:
    """One private apt root, in a folder that may be used again.

    `status` is the dpkg status of what is installed already; empty: nothing is.
    """

    def __init__(
        self, folder: Path, sources: Sequence[AptSource], architecture: str, status: str = ""
    ) -> None:
        self.folder = folder.absolute()
        self.sources = tuple(sources)
        self.architecture = architecture
        """Debian's name: `amd64`, `arm64`."""
        self._status = status.encode()
        mark = hashlib.sha256(self._status).hexdigest()[:16] if status else ""
        # A name of its own: apt takes a file of the same length and second for the same file.
        self._status_file = self.folder / f"status{'-' if mark else ''}{mark}"

    def update(self) -> None:
        """Fetch the indexes and check their signatures.

        Raises:
            ToolMissing: apt is not there, or it cannot read the keyring.
            NetworkError: an archive is out of reach, or has no such suite.
            Refused: a signature or a hash is wrong.
            DiskFull: there is no room for the indexes.
            Outside: apt hangs.

        """
        files.require_free(self.folder, _ROOM, "reading Debian's indexes")
        with self._held():
            self._apt_get("update", "--error-on=any")

    def resolve(self, packages: Sequence[str], *, essential: bool) -> tuple[DebPin, ...]:
        """Resolve named packages with all they depend on, recommendations left out; sorted.

        `essential` adds what makes a system: everything essential or of priority required.

        Raises:
            BadInput: a package is unknown; every unknown name is told.
            Refused: the packages cannot be installed together.

        """
        patterns = ["?essential", "?priority(required)"] if essential else []
        with self._held():
            said = self._apt_get(
                "install",
                "--print-uris",
                "--no-remove",
                "-q",
                "--",
                *patterns,
                *sorted(packages),
            )
            return self._pins(said)

    def show(self, names: Sequence[str]) -> tuple[DebPin, ...]:
        """Pin the named packages alone, without what they depend on; sorted.

        Raises BadInput as `resolve`.
        """
        with self._held():
            return self._pins(self._apt_get("download", "--print-uris", "-qq", "--", *names))

    def download(self, names: Sequence[str], target: Path) -> tuple[Path, ...]:
        """Fetch the named packages alone into a folder, verified by apt; return their files.

        Raises BadInput as `resolve`, NetworkError and Refused as `update`.
        """
        pins = self.show(names)
        files.make_folder(target)
        longest = _SILENCE + max((pin.size for pin in pins), default=0) / _SLOWEST
        with self._held():
            self._apt_get("download", "-q", "--", *names, cwd=target, silence=longest)
        found = {path.name: path for path in target.glob("*.deb")}
        # apt escapes the colon of an epoch in the file's name; the archive leaves the epoch out.
        return tuple(
            found[f"{pin.name}_{pin.version.replace(':', '%3a')}_{pin.architecture}.deb"]
            for pin in pins
        )

    def _pins(self, print_uris: str) -> tuple[DebPin, ...]:
        wanted = control.parse_print_uris(print_uris)
        found: dict[str, DebPin] = {}
        for suite, index in self._indexes():
            pieces = process.pieces([_helper(), "cat-file", index])
            for text in control.whole_paragraphs(pieces):
                for pin in control.pins_of_index(text, suite, wanted):
                    # One file may be in several suites; the first of the sources names it.
                    found.setdefault(pin.sha256, pin)
        asked = sum(line.startswith("'") for line in print_uris.splitlines())
        if len(found) != asked:
            raise Refused(
                f"apt chose {asked} packages, but the indexes give a sha256 for {len(found)}",
                subject=", ".join(dict.fromkeys(source.uri for source in self.sources)),
                action="use a mirror whose indexes have SHA256 for every package",
            )
        return tuple(sorted(found.values()))

    def _indexes(self) -> list[tuple[str, Path]]:
        said = self._apt_get(
            "indextargets", "--format", "$(RELEASE) $(FILENAME)", "Identifier: Packages"
        )
        order = [suite for source in self.sources for suite in source.suites]
        # apt names the folder of a flat archive with its slash, sources too.
        rows = [line.split(" ", 1) for line in said.splitlines()]
        return [(suite, Path(name)) for suite in order for own, name in rows if own == suite]

    @contextmanager
    def _held(self) -> Iterator[None]:
        with files.locked(self.folder.with_name(self.folder.name + ".lock")):
            # Also before a first update: without its configuration apt would read the machine's.
            self._lay_out()
            yield

    def _lay_out(self) -> None:
        if process.find("apt-get") is None:
            raise ToolMissing(
                "apt is not there",
                subject="apt-get",
                action="resolve on a Debian-family system, or in a container of one",
            )
        for name in _FOLDERS:
            files.make_folder(self.folder / name)
        for source in self.sources:
            if source.keyring and not source.trusted and not os.access(source.keyring, os.R_OK):
                raise ToolMissing(
                    "Debian's archive keyring is not there",
                    subject=source.keyring,
                    action=_SET_KEYRING,
                )
        text = "\n".join(source.text() for source in self.sources)
        files.write(self.folder / "etc/apt/debian.sources", text.encode())
        files.write(self._status_file, self._status)
        files.write(self.folder / "apt.conf", self._configuration().encode())

    def _configuration(self) -> str:
        root = self.folder
        # Read before any other file, so `Dir` keeps the machine's own configuration out.
        # Directories with a trailing slash: apt takes them as they are.
        return f"""\
{network_configuration()}\
Dir "{root}";
Dir::Etc::sourcelist "{root}/etc/apt/debian.sources";
Dir::Etc::sourceparts "-";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::State::status "{self._status_file}";
APT::Architecture "{self.architecture}";
APT::Architectures {{ "{self.architecture}"; }};
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Get::Assume-Yes "true";
APT::Solver "internal";
APT::Sandbox::User "root";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"""

    def _apt_get(self, *arguments: str | Path, cwd: Path | None = None, silence: float = 0) -> str:
        environment = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        said: list[str] = []
        try:
            # Why packages do not go together stands in its output, all else in its errors.
            process.stream(
                ["apt-get", *arguments],
                said.append,
                cwd=cwd,
                environment=environment,
                silence=silence or _SILENCE,
            )
        except CommandFailed as error:
            raise self._unfinished(said, error, cwd or self.folder) from error
        return "\n".join(said)

    def _unfinished(self, said: list[str], error: CommandFailed, where: Path) -> NightlockError:
        full = disk_full_line("\n".join(said))
        if full or files.free_bytes(where) < _NO_ROOM:
            return files.disk_full(where, full)
        if error.status == 0:
            return Outside(
                error.what,
                subject=error.subject,
                action="try again; if it hangs again, run that with APT_CONFIG="
                f"{self.folder}/apt.conf to see where",
            )
        return self._explained(said or [error.what])

    def _explained(self, said: list[str]) -> NightlockError:
        text = "\n".join(line for line in said if line.startswith(("E:", "W: GPG"))) or said[-1]
        whole = "\n".join(said)
        where = ", ".join(dict.fromkeys(source.uri for source in self.sources))
        unknown = sorted({name for row in _UNKNOWN.findall(text) for name in row if name})
        if unknown:
            suites = " ".join(suite for source in self.sources for suite in source.suites)
            return BadInput(
                f"Debian has no package {', '.join(unknown)} in {suites} ({self.architecture})",
                subject=", ".join(unknown),
                action="correct the name under `[base] packages` of the image.toml",
            )
        if "Packages need to be removed" in whole:
            return Refused(
                "to install these packages, others of the base would have to go: "
                + _removed(whole),
                subject=where,
                action="take out of `[base] packages` what conflicts, or take another base",
            )
        if "unmet dependencies" in whole or "held broken packages" in whole:
            reasons = whole.partition("unmet dependencies:")[2] or whole
            return Refused(
                f"these packages cannot be installed together:{reasons.rstrip()}",
                subject=where,
                action="take one of them out of `[base] packages`",
            )
        if _UNSIGNED.search(text):
            return Refused(
                f"Debian's archive is not what its keyring signed:\n{text}",
                subject=where,
                action=f"{_SET_KEYRING}; if that is so already, do not use this mirror",
            )
        return NetworkError(
            f"Debian's archive did not give what was asked for:\n{text}",
            subject=where,
            action="check the network and the proxy of apt, or name another mirror: " + _SET_MIRROR,
        )


def _removed(said: str) -> str:
    match = re.search(r"will be REMOVED:\n((?:  .*\n?)+)", said)
    return " ".join(match[1].split()) if match else "apt does not say which"


def _helper() -> Path:
    return Path("/usr/lib/apt/apt-helper")


def _machine_sources() -> Iterator[AptSource]:
    folder = Path("/etc/apt")
    listed = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for path in listed:
        if path.suffix in (".list", ".sources") and path.is_file():
            text = path.read_text(errors="replace")
            for source in debian.parse_sources(text, deb822=path.suffix == ".sources"):
                yield from _reachable(source)


def _reachable(source: AptSource) -> Iterator[AptSource]:
    if source.uri.startswith("mirror+file:"):
        # Debian's cloud images: a file with one mirror a line (apt-transport-mirror(1)).
        path = Path("/" + source.uri.removeprefix("mirror+file:").lstrip("/"))
        if path.is_file():
            for line in path.read_text().splitlines():
                if line.strip() and not line.startswith("#"):
                    yield replace(source, uri=line.split()[0])
    elif source.uri.startswith(("http:", "https:", "file:", "copy:")):
        yield source


def _source(setting: str) -> AptSource | None:
    if not setting:
        return None
    uri = setting if ":/" in setting else f"file:{Path(setting).absolute()}"
    return AptSource(uri=uri, suites=())


def _carried() -> AptSource | None:
    for name in ("mmdebstrap", "debootstrap"):
        program = process.find(name)
        if program is not None:
            found = debian.carried_archive(program.read_text(errors="replace"))
            if found is not None:
                return found
    return None


def _keyring(settings: DebianSettings, archive: AptSource) -> str:
    if settings.keyring:
        return settings.keyring
    own = next((str(path) for path in _KEYRINGS if path.is_file()), "")
    return own or archive.keyring or str(_KEYRINGS[0])
