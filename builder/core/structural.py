"""The structural test's judge: an image from inside, beside the lock it was built from.

Each check ends as pass, fail, skip or inconclusive, with its reason; one that fails has findings.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builder.core.audit.exceptions import PUBLISHED
from builder.core.dockerfile import CACHE
from builder.core.finding import Finding
from builder.core.judge import same_version
from builder.core.keys import finding
from builder.core.lock import Lock
from builder.core.ruling import Status
from builder.core.structural_probe import PROGRAM_SECONDS, Probe, Question, Ran
from builder.core.target import best_architecture

NAME = "structural"
"""Of the test, as profile and as kind of receipt."""

_CAUSES = (
    ("cuda-toolchain-mixed", r"compiler and CUDA toolkit headers are incompatible"),
    ("wrong-nvcc", r"Unsupported gpu architecture|requires CUDA|not supported by nvcc"),
)
"""Finding key → what a compiler says when that is the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One check and how it ended."""

    name: str
    status: Status
    reason: str
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked of which image, as whom."""

    subject: str
    """Pinned reference."""
    lock: Lock
    platform: str
    targets: tuple[str, ...]
    question: Question
    user: str
    """`uid:gid` of the container."""


def judge(asked: Asked, probe: Probe) -> tuple[Judged, ...]:
    """Judge every check; their order is the report's."""
    return (
        _conditions(asked, probe),
        _caches(asked, probe),
        _companions(asked, probe),
        _packages(asked, probe),
        _files(probe),
        *_imports(asked, probe),
        _version(asked, probe),
        _extension(asked, probe),
        *_assembler(asked, probe),
        _kernel(asked, probe),
    )


def unanswered(subject: str, said: str) -> Judged:
    """Judge an image that gave no answer at all; `said` is how its container ended."""
    return _fail("answer", said, [_found("structural-not-run", subject, said)])


def _conditions(asked: Asked, probe: Probe) -> Judged:
    """Without these the other checks would prove less than they say."""
    around = probe.surroundings
    wrong = []
    if set(around.networks) - {"lo"}:
        wrong.append(f"there is a network: {', '.join(around.networks)}")
    if not around.root:
        wrong.append("the root file system can be written")
    if asked.user != f"{around.uid}:{around.gid}":
        wrong.append(f"it ran as {around.uid}:{around.gid}, not as {asked.user}")
    if wrong:
        return Judged(name="conditions", status="inconclusive", reason="; ".join(wrong))
    return _pass("conditions", f"no network, read-only root, user {asked.user}")


def _caches(asked: Asked, probe: Probe) -> Judged:
    """Any user has a home and caches to write to, and a name (C49)."""
    around = probe.surroundings
    wrong = [f"{folder} cannot be written: {why}" for folder, why in around.refused.items()]
    if around.user.startswith("unknown"):
        wrong.append(f"user {around.uid} has no name: {around.user}")
    if around.home != CACHE:
        wrong.append(f"{CACHE} cannot be written: home and caches are in {around.home}")
    if wrong:
        said = "; ".join(wrong)
        return _fail("user", said, [_found("non-root-user", asked.subject, said)])
    return _pass("user", f"{around.user}, home and caches in {around.home}")


def _companions(asked: Asked, probe: Probe) -> Judged:
    """Whatever must match vLLM is what the lock says, read from what is installed."""
    wanted = asked.lock.header.companions
    installed = _versions(probe)
    findings = []
    for name, version in wanted.items():
        found = installed.get(canonicalize_name(name), [])
        if not found:
            key, said = "companion-missing", f"the lock has {version}, none is installed"
        elif [version] != found and not _same(version, found):
            key = "flashinfer-trio-mismatch" if name.startswith("flashinfer") else "not-locked"
            said = f"the lock has {version}, installed is {', '.join(found)}"
        else:
            continue
        findings.append(_found(key, name, said))
    if findings:
        return _fail("companions", _sum(findings), findings)
    rows = ", ".join(f"{name} {version}" for name, version in wanted.items())
    return _pass("companions", f"equal to the lock: {rows or 'it names none'}")


def _packages(asked: Asked, probe: Probe) -> Judged:
    """Every locked package once, at its version, and no other."""
    pins = {pin.name: pin.version for pin in asked.lock.platforms[asked.platform].wheels}
    companions = {canonicalize_name(name) for name in asked.lock.header.companions}
    installed = _versions(probe)
    findings = []
    for name, found in sorted(installed.items()):
        if name not in pins:
            said = f"{name} {', '.join(found)} is installed; the lock does not name it"
            findings.append(_found("not-locked", name, said))
        elif len(found) > 1:
            findings.append(_found("distribution-twice", name, ", ".join(found)))
        elif name not in companions and not _same(pins[name], found):
            said = f"the lock has {pins[name]}, installed is {found[0]}"
            findings.append(_found("not-locked", name, said))
    findings += [
        _found("package-missing", name, f"the lock has {version}, none is installed")
        for name, version in sorted(pins.items())
        if name not in installed and name not in companions
    ]
    if findings:
        return _fail("packages", _sum(findings), findings)
    return _pass("packages", f"all {len(pins)} of the lock, and no other")


def _files(probe: Probe) -> Judged:
    """Every file is as its RECORD says, and nothing else is there."""
    look = probe.tree
    keys = {"edited": "file-edited", "missing": "file-edited", "stray": "file-stray"}
    findings, published = [], 0
    # Where there are more than are named, nothing is excused.
    named = sum(map(len, look.wrong.values())) == sum(look.counts.values())
    for kind, key in keys.items():
        for row in look.wrong.get(kind, []):  # type: ignore[call-overload]  # keys are its words
            if named and row.sha256 in PUBLISHED:
                published += 1
                continue
            owner = f"{row.package}: " if row.package else ""
            findings.append(_found(key, row.path, f"{owner}{row.why}"))
    said = f"{look.files} files, {look.bytes / 1e6:,.0f} MB"
    if published:
        said += f" ({published} published with a RECORD of others)"
    if findings:
        counts = ", ".join(f"{count} {kind}" for kind, count in look.counts.items())
        return _fail("files", f"{counts} of {said}: {_sum(findings)}", findings, look.seconds)
    return _pass("files", f"{said}, all as their RECORD says, and no other", look.seconds)


def _imports(asked: Asked, probe: Probe) -> Iterable[Judged]:
    """Judge each module; one that took the interpreter down is named, those after it are not."""
    ran = probe.programs.get("imports")
    rows = ran.rows() if ran else []
    done = {str(row["module"]): row for row in rows if "module" in row}
    begun = [str(row["begin"]) for row in rows if "begin" in row]
    for module in asked.question.modules:
        name = f"import-{module}"
        row = done.get(module)
        if row is not None and "error" not in row:
            seconds = row.get("seconds")
            took = float(seconds) if isinstance(seconds, int | float) else 0.0
            yield _pass(name, f"{row.get('version') or 'no version'}", took)
        elif row is not None:
            yield _failed_import(name, module, str(row["error"]))
        elif ran is not None and ran.status is None:
            yield _late(name)
        elif module in begun and ran is not None:
            yield _failed_import(name, module, f"the interpreter {_end(ran)}")
        else:
            said = f"not tried: importing {begun[-1] if begun else 'anything'} ended the program"
            yield Judged(name=name, status="inconclusive", reason=said)


def _version(asked: Asked, probe: Probe) -> Judged:
    """`vllm --version` is the lock's, and so is the version inside vLLM's own files (C67)."""
    wanted = asked.lock.header.vllm.version
    rows = probe.programs["imports"].rows() if "imports" in probe.programs else []
    done = next((r for r in rows if r.get("module") == "vllm" and "error" not in r), None)
    if done is None:
        said = "not asked: vllm was not imported"
        return Judged(name="version", status="inconclusive", reason=said)
    versions = {"vllm.__version__": str(done.get("version"))}
    ran = probe.programs.get("version")
    if ran is not None and ran.status is None:
        return _late("version")
    if ran is not None:
        if ran.status != 0:
            reason = f"`vllm --version` {_end(ran)}"
            return _fail("version", reason, [_found("import-failed", "vllm --version", reason)])
        lines = ran.out.split()
        versions["vllm --version"] = lines[-1] if lines else ""
    wrong = [f"{who} says {found}" for who, found in versions.items() if not _equal(wanted, found)]
    if wrong:
        reason = f"the lock has {wanted}; {'; '.join(wrong)}"
        return _fail("version", reason, [_found("tag-vs-content", asked.subject, reason)])
    seconds = ran.seconds if ran else 0.0
    return _pass(
        "version", ", ".join(f"{who}: {found}" for who, found in versions.items()), seconds
    )


def _extension(asked: Asked, probe: Probe) -> Judged:
    """Triton compiles a small C module at first use; so does this."""
    ran = probe.programs.get("extension")
    if ran is None or ran.status is None:
        return _late("c-extension")
    rows = ran.rows()
    if ran.status == 0 and rows and rows[-1].get("answer") == 42:
        return _pass("c-extension", f"compiled by {rows[-1].get('compiler')}, loaded", ran.seconds)
    reason = _end(ran)
    return _fail("c-extension", reason, [_found("no-c-compiler-at-runtime", asked.subject, reason)])


def _assembler(asked: Asked, probe: Probe) -> tuple[Judged, ...]:
    """Triton brings an assembler of its own, which may be older than the GPU (C23)."""
    name = "triton-ptxas"
    if "ptxas" not in asked.question.commands:
        return ()
    ran = probe.programs.get("ptxas")
    if ran is None or ran.status is None:
        return (_late(name),)
    rows = ran.rows()
    if rows and "unknown" in rows[0]:
        said = f"this Triton chooses its ptxas in another way: {rows[0]['unknown']}"
        return (Judged(name=name, status="skip", reason=said),)
    wrong = [
        f"{row.get('path')}: {str(row.get('said')).strip()}" for row in rows if row.get("status")
    ]
    if ran.status != 0 or not rows or wrong:
        reason = "; ".join(wrong) or _end(ran)
        found = _found("ptxas-too-old", "triton", reason)
        return (_fail(name, reason, [found], ran.seconds),)
    known = ", ".join(f"{row.get('gpu')} by {row.get('path')}" for row in rows)
    return (_pass(name, known, ran.seconds),)


def _kernel(asked: Asked, probe: Probe) -> Judged:
    """FlashInfer's compiler, headers and linker work, and make code that every target runs."""
    if not asked.question.architectures:
        cuda = asked.lock.header.target.cuda
        why = "the lock has no FlashInfer" if cuda else "the image is built without CUDA"
        return Judged(name="flashinfer-jit", status="skip", reason=why)
    ran = probe.programs.get("kernel")
    if ran is None or ran.status is None:
        return _late("flashinfer-jit")
    rows = ran.rows()
    code = rows[-1].get("code") if rows else None
    if ran.status != 0 or not isinstance(code, list):
        reason = _end(ran)
        found = (key for key, pattern in _CAUSES if re.search(pattern, ran.err))
        key = next(found, "jit-needs-nvcc")
        return _fail("flashinfer-jit", reason, [_found(key, "silu_and_mul", reason)], ran.seconds)
    native = [str(one) for one in code if str(one).startswith("sm_")]
    short = [gpu for gpu in asked.targets if best_architecture(gpu, native) is None]
    if short:
        reason = f"no code for {', '.join(short)}; it has {', '.join(map(str, code)) or 'none'}"
        finding_ = _found("no-kernel-image", "silu_and_mul", reason)
        return _fail("flashinfer-jit", reason, [finding_], ran.seconds)
    return _pass("flashinfer-jit", f"silu_and_mul for {', '.join(native)}", ran.seconds)


def _versions(probe: Probe) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in probe.packages:
        found.setdefault(canonicalize_name(row.name), []).append(row.version)
    return found


def _same(wanted: str, found: list[str]) -> bool:
    return len(found) == 1 and _parsed(wanted) == _parsed(found[0])


def _parsed(text: str) -> Version | str:
    try:
        return Version(text)
    except InvalidVersion:
        return text


def _equal(label: str, said: str) -> bool:
    # The lock's version may lack the variant that the file carries, or the other way round.
    return same_version(label, said) or same_version(said, label)


def _end(ran: Ran) -> str:
    """Say how a program ended, with the last of what it said."""
    status = ran.status or 0
    number = -status if status < 0 else status - 128
    names = {int(item): item.name for item in signal.Signals}
    how = f"ended by {names[number]}" if number in names else f"ended with status {status}"
    last = [line.strip() for line in ran.err.splitlines() if line.strip()][-3:]
    return f"{how}: {' | '.join(last)[-600:]}" if last else f"{how} and said nothing"


def _failed_import(name: str, module: str, said: str) -> Judged:
    return _fail(name, said, [_found("import-failed", module, said)])


def _late(name: str) -> Judged:
    said = f"not done within {PROGRAM_SECONDS:g} s: the machine is busy, or it hangs"
    return Judged(name=name, status="inconclusive", reason=said, seconds=PROGRAM_SECONDS)


def _pass(name: str, reason: str, seconds: float = 0.0) -> Judged:
    return Judged(name=name, status="pass", reason=reason, seconds=seconds)


def _fail(name: str, reason: str, findings: list[Finding], seconds: float = 0.0) -> Judged:
    return Judged(
        name=name, status="fail", reason=reason, seconds=seconds, findings=tuple(findings)
    )


def _found(key: str, subject: str, evidence: str) -> Finding:
    return finding(key, subject=subject, evidence=evidence, severity="error")


def _sum(findings: list[Finding]) -> str:
    first = "; ".join(f"{one.subject} ({one.evidence})" for one in findings[:3])
    more = len(findings) - 3
    return f"{first}; and {more} more" if more > 0 else first
