"""GPU code of every shared object, against the GPUs an image is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from builder.core.audit.exceptions import EXCEPTIONS, SPECIFIC
from builder.core.audit.tree import Tree
from builder.core.fatbin import Amount, Code
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.target import Architecture, architecture

Form = Literal["exact", "a", "f", "near", "ptx"]
"""How code runs on a GPU: built for it; for it alone (`a`) or its family (`f`), which may use what
only these have; for an older one of the same major; compiled by the driver at first use."""
FORMS: tuple[Form, ...] = ("a", "f", "exact", "near", "ptx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """One shared object with GPU code."""

    package: str
    """Who owns it; empty: nobody."""
    path: str
    """Below the site directory, as it is installed."""
    size: int
    """Bytes of the file."""
    code: tuple[Amount, ...]

    def forms(self, gpu: str) -> dict[Form, int]:
        """Say in which ways it runs on a GPU, and how many entries each way; empty: not at all."""
        device = architecture(gpu)
        found: dict[Form, int] = dict.fromkeys(FORMS, 0)
        for amount in self.code:
            form = _form(amount.code, device) if device is not None else None
            if form is not None:
                found[form] += amount.count
        return {form: count for form, count in found.items() if count}

    def exception(self, gpu: str) -> str:
        """Return the stated reason why it has no code for this GPU; empty: none is stated."""
        rows = [row for row in EXCEPTIONS if fnmatchcase(gpu, row.gpus)]
        return next((row.reason for row in rows if fnmatchcase(self.path, row.path)), "")


def _form(code: Code, device: Architecture) -> Form | None:
    major, minor = divmod(code.sm, 10)
    same = (major, minor) == (device.major, device.minor)
    family = major == device.major and minor <= device.minor
    if code.suffix == "a":
        runs = same
    elif code.suffix == "f" or code.form == "elf":
        runs = family
    else:
        runs = (major, minor) <= (device.major, device.minor)
    if not runs:
        return None
    if code.form == "ptx":
        return "ptx"
    if code.suffix:
        return "a" if code.suffix == "a" else "f"
    return "exact" if same else "near"


def kernels(tree: Tree) -> tuple[Kernels, ...]:
    """List every shared object with GPU code, by package and path."""
    found = []
    for path, facts in tree.files.items():
        if facts.code:
            owner = tree.owners.get(path)
            found.append(
                Kernels(
                    package=owner.name if owner else "",
                    path=owner.spelled(path) if owner else path,
                    size=facts.size,
                    code=facts.code,
                )
            )
    return tuple(sorted(found, key=lambda row: (row.package, row.path)))


def check_kernels(rows: Sequence[Kernels], gpus: Iterable[str]) -> list[Finding]:
    """Find objects that hold code, but none that runs on a wanted GPU (C22)."""
    findings = []
    for gpu in gpus:
        findings += [
            finding(
                "fp4-kernels-not-built",
                subject=f"{row.package or 'no package'}: {row.path}",
                evidence=f"no code for {gpu}, neither native nor PTX; it has "
                f"{', '.join(amount.code.architecture for amount in row.code)}",
            )
            for row in rows
            if not row.forms(gpu) and not row.exception(gpu)
        ]
        findings += _unspecific(rows, gpu)
    return findings


def _unspecific(rows: Sequence[Kernels], gpu: str) -> list[Finding]:
    """Find extensions without `a` and `f` code, where their fastest kernels need it."""
    findings = []
    for rule in SPECIFIC:
        if not fnmatchcase(gpu, rule.gpus):
            continue
        for row in rows:
            forms = row.forms(gpu)
            if fnmatchcase(row.path, rule.path) and forms and not {"a", "f"} & forms.keys():
                findings.append(
                    finding(
                        "fp4-kernels-not-built",
                        subject=f"{row.package or 'no package'}: {row.path}",
                        evidence=f"code for {gpu} is {_spelled(forms)} alone, without `a` and `f`: "
                        + rule.reason,
                    )
                )
    return findings


def _spelled(forms: Mapping[Form, int]) -> str:
    return ", ".join(f"{form} {count}" for form, count in forms.items())


def totals(rows: Iterable[Kernels]) -> dict[str, int]:
    """Bytes of code by architecture, most first."""
    found: dict[str, int] = {}
    for row in rows:
        for amount in row.code:
            name = amount.code.architecture
            found[name] = found.get(name, 0) + amount.size
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def counted(rows: Sequence[Kernels], gpus: Iterable[str]) -> dict[str, dict[str, int]]:
    """Count objects by how they run on each GPU: `native`, `ptx` alone, `none`."""
    found = {}
    for gpu in gpus:
        forms = [row.forms(gpu).keys() for row in rows]
        found[gpu] = {
            "native": sum(bool(row - {"ptx"}) for row in forms),
            "ptx": sum(row == {"ptx"} for row in forms),
            "none": sum(not row for row in forms),
        }
    return found


def baked(rows: Iterable[Kernels], gpus: Sequence[str]) -> dict[str, object]:
    """Lay out the matrix that lies in an image as `/opt/nightlock/kernels.json`.

    `objects`: path below the site directory → architectures as `sm_120f`, `compute_80`.
    """
    return {
        "schema": "nightlock/kernels/1",
        "targets": list(gpus),
        "objects": {
            row.path: [amount.code.architecture for amount in row.code]
            for row in sorted(rows, key=lambda row: row.path)
        },
    }
