"""What is computed from the numbers in a line of log, to be quoted in a finding's texts."""

from __future__ import annotations

import math
from collections.abc import Mapping

from builder.core.signature import Signature


def groups_of(signature: Signature, groups: Mapping[str, str]) -> dict[str, str]:
    """Add what the signature derives; numbers that make no sense add question marks."""
    if signature.derive == "cuda-version":
        return {**groups, "version": cuda_version(groups.get("number", ""))}
    if signature.derive == "utilization":
        fits = fitting_utilization(groups.get("free", ""), groups.get("total", ""))
        return {**groups, "fits": fits}
    return dict(groups)


def cuda_version(number: str) -> str:
    """Decode `cuDriverGetVersion`: 1000 times the major plus 10 times the minor."""
    value = int(number) if number.isdecimal() and len(number) < 8 else 0
    return f"{value // 1000}.{value % 1000 // 10}" if value else "?"


def fitting_utilization(free: str, total: str) -> str:
    """Return the largest --gpu-memory-utilization, in hundredths, that the free memory allows."""
    try:
        share = float(free) / float(total)
    except (ValueError, ZeroDivisionError):
        return "?"
    return f"{min(math.floor(share * 100 + 1e-9) / 100, 1):.2f}"
