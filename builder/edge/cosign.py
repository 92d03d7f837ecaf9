"""cosign: signs digests in a registry with a key pair, and says whether one is signed.

Debian 13's cosign 2 is used, or a cosign 2 of this machine; cosign 3 keeps signatures in another
place by default. No transparency log is asked: nothing leaves for a public service, and it works
without a network beyond the registry. What that gives up: no proof of when a signature was made,
and nobody but the key's owner can notice that the key was misused.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builder.core.settings import DebianSettings
from builder.edge import files, process
from builder.edge.apt import AptRoot, host_sources
from builder.edge.tools import unpack
from builder.errors import BadInput, CommandFailed, Outside, ToolMissing

PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 - the variable's name
_PROGRAM = "usr/bin/cosign"
_SUITE = "trixie"
"""Debian 13: the first that has it; its program needs glibc 2.34."""
_UNSIGNED = frozenset({10, 11, 12})
"""Exit codes: no signatures, no image under that name, no signature by this key (cosign 2,
`cmd/cosign/errors`)."""
_SECONDS = 120.0


def find_cosign(folder: Path) -> Path | None:
    """Find a cosign 2: the machine's own, else what `unpack_cosign` left below `folder`."""
    own = process.find("cosign")
    if own is not None and _is_second(own):
        return own
    return next(iter(sorted(folder.glob(f"cosign-*/{_PROGRAM}"), reverse=True)), None)


def unpack_cosign(folder: Path, settings: DebianSettings) -> Path:
    """Fetch Debian's package and unpack it below `folder`; nothing is installed.

    Raises as `AptRoot.update` and `host_sources`; ToolMissing when it does not run here.
    """
    architecture = process.run(["dpkg", "--print-architecture"]).strip()
    root = AptRoot(
        folder / f"apt-{_SUITE}-{architecture}", host_sources(_SUITE, settings), architecture
    )
    root.update()
    (pin,) = root.show(["cosign"])
    program = folder / f"cosign-{pin.version}" / _PROGRAM
    with files.locked(folder / "cosign.lock"):
        if not program.is_file():
            files.require_free(folder, pin.size * 6, "unpacking cosign")
            with files.fresh_folder(folder / f"cosign-{pin.version}") as fresh:
                (deb,) = root.download([pin.name], fresh)
                unpack(deb, fresh)
                deb.unlink()
    if not _is_second(program):
        raise ToolMissing(
            "cosign from Debian's packages does not run on this machine",
            subject=str(program),
            action="install cosign 2 so that it is found on PATH",
        )
    return program


def public_key(program: Path, key: str) -> str:
    """Return the public half of a signing key, as PEM.

    `key` is a file that `cosign generate-key-pair` made, or an address that cosign knows
    (`awskms://…`, `env://…`).

    Raises BadInput when the file is not there, or its password is missing or wrong; Outside when a
    key service does not answer.
    """
    remote = "://" in key
    if not remote and not Path(key).is_file():
        raise BadInput(
            "there is no such signing key",
            subject=key,
            action="make one with `cosign generate-key-pair`, or name another",
        )
    if not remote and PASSWORD not in os.environ:
        raise BadInput(
            f"the password of the signing key is not known: {PASSWORD} is not set",
            subject=key,
            action=f"set {PASSWORD}; to nothing for a key without a password",
        )
    try:
        return process.run([program, "public-key", "--key", key], timeout=_SECONDS)
    except CommandFailed as error:
        said = _said(error)
        if remote:
            raise Outside(
                f"the signing key cannot be read: {said}",
                subject=key,
                action="check the key's address, and the credentials of its service",
            ) from None
        raise BadInput(
            f"the signing key cannot be used: {said}",
            subject=key,
            action=f"check {PASSWORD}, and that the file is a private key of cosign",
        ) from None


def is_signed(program: Path, public: str, pinned: str) -> bool:
    """Whether `registry/repository@sha256:…` has a signature by this public key (PEM).

    Raises CommandFailed when the registry cannot be asked.
    """
    with tempfile.TemporaryDirectory(prefix="nightlock-cosign-") as folder:
        file = Path(folder, "cosign.pub")
        file.write_text(public)
        command = ["verify", "--key", str(file), "--insecure-ignore-tlog=true", pinned]
        try:
            process.run([program, *command], timeout=_SECONDS)
        except CommandFailed as error:
            if error.status in _UNSIGNED:
                return False
            raise _failed(error, "a signature cannot be looked up", pinned) from None
    return True


def sign(program: Path, key: str, pinned: Sequence[str]) -> None:
    """Add a signature to each `registry/repository@sha256:…`; raises CommandFailed."""
    for reference in pinned:
        command = ["sign", "--yes", "--key", key, "--tlog-upload=false", reference]
        try:
            process.run([program, *command], timeout=_SECONDS)
        except CommandFailed as error:
            raise _failed(error, "the signature cannot be pushed", reference) from None


def _is_second(program: Path) -> bool:
    """Whether it runs and is cosign 2; Debian's own build calls itself `devel`."""
    try:
        said = json.loads(process.run([program, "version", "--json"], timeout=_SECONDS))
        return str(said["gitVersion"]).startswith(("v2.", "devel"))
    except (CommandFailed, OSError, ValueError, KeyError, TypeError):
        return False


def _failed(error: CommandFailed, what: str, subject: str) -> CommandFailed:
    return CommandFailed(
        f"{what}: {_said(error)}",
        subject=subject,
        action="check that the registry answers and that `docker login` lets cosign in",
        status=error.status,
    )


def _said(error: CommandFailed) -> str:
    """Its last words, without what it puts before them."""
    last = error.tail.splitlines()[-1] if error.tail else error.what
    return last.removeprefix("error during command execution: ")
