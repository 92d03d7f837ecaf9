"""Who signs: the key that an option or a setting names, ready before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.commands.context import Context
from builder.edge import cosign, files


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A key that was tried."""

    context: Context
    program: Path
    key: str
    public: str
    """Its public half, as PEM."""

    def sign(self, pinned: Sequence[str]) -> None:
        """Sign each `registry/repository@sha256:…` that this key has not signed yet.

        Raises CommandFailed, with cosign's own words.
        """
        lock = self.context.places.state / "locks" / "sign.lock"
        # cosign reads, adds to and writes back a list, as we do with referrers.
        with files.locked(lock, self.context.output.note):
            fresh = [one for one in pinned if not cosign.is_signed(self.program, self.public, one)]
            cosign.sign(self.program, self.key, fresh)


def open_signer(context: Context, key: str = "") -> Signer | None:
    """Return the signer of `key`, else of the setting `signing.key`; None when neither names one.

    A setting's relative path is one below the project.

    Raises BadInput when the key cannot be used, ToolMissing when cosign cannot be had.
    """
    setting = context.settings.signing.key
    chosen = key or setting
    if not chosen:
        return None
    if "://" not in chosen:
        path = Path(chosen).expanduser()
        chosen = str(path if key else context.project / path)
    folder = context.places.cache / "tools"
    program = cosign.find_cosign(folder)
    if program is None:
        with context.output.step("cosign", "fetching Debian's cosign"):
            program = cosign.unpack_cosign(folder, context.settings.debian)
    return Signer(
        context=context, program=program, key=chosen, public=cosign.public_key(program, chosen)
    )
