"""What the GPUs of this machine are doing, in the driver's own words."""

from __future__ import annotations

from builder.edge import process
from builder.errors import NightlockError

_SECONDS = 20.0


def gpu_state() -> str:
    """Return what `nvidia-smi` prints, or why it prints nothing; never raises for that."""
    try:
        return process.run(["nvidia-smi"], timeout=_SECONDS)
    except NightlockError as error:
        return f"{error.what}\n"
