"""`inspect` for a person: what it is, then what is attached, then the layers."""

from __future__ import annotations

from collections.abc import Iterator

from builder.core.inspected import InspectResult, plain_labels


def text(result: InspectResult) -> str:
    """Spell a result, one fact a line; what is not known has no line."""
    rows = [*_what(result), *_sizes(result), *_attached(result)]
    lines = [result.reference, *(f"  {name:<11} {value}" for name, value in rows if value)]
    lines += [f"  {_amount(layer.size):>11} {layer.digest}" for layer in result.layers]
    return "\n".join(lines)


def _what(result: InspectResult) -> Iterator[tuple[str, str]]:
    if not result.platform:
        kind = result.artifact_type or "an index without images"
        yield "artifact", f"{kind}: this is no image"
        return
    known = result.identity
    if known.ours:
        yield "image", f"{known.image}: vLLM {known.vllm_version}, channel {known.channel}"
    else:
        yield "image", "nightlock did not build it; this is what it says of itself"
        yield from plain_labels(result.labels).items()
    yield "commit", known.vllm_commit
    yield "companions", ", ".join(f"{k} {v}" for k, v in sorted(known.companions.items()))
    yield "target", _target(result)
    yield "base", " ".join(part for part in (known.base, known.base_digest) if part)
    yield "lock", known.lock
    yield "build", known.build
    if known.ours:
        yield "created", f"{result.created} (newest date inside vLLM's wheel)"


def _target(result: InspectResult) -> str:
    known = result.identity
    parts = [
        ", ".join(known.targets),
        f"CUDA {known.cuda}" if known.cuda else "",
        f"Python {known.python}" if known.python else "",
        result.platform,
    ]
    return "; ".join(part for part in parts if part)


def _sizes(result: InspectResult) -> Iterator[tuple[str, str]]:
    others = [row for row in result.platforms if row.platform != result.platform]
    for row in others:
        yield "also", f"{row.platform} {row.digest}, {_amount(row.size)}"
    yield "pull", f"{_amount(result.size)} in {len(result.layers)} layers"


def _attached(result: InspectResult) -> Iterator[tuple[str, str]]:
    for file in result.attached:
        if file.kind != "receipt":
            yield file.kind, file.digest + _signed(file.signatures)
    signatures = {file.digest: file.signatures for file in result.attached}
    for receipt in result.receipts:
        yield (
            "receipt",
            f"{receipt.kind} {receipt.verdict}, {receipt.finished}, profile {receipt.profile}"
            + _signed(signatures.get(receipt.digest, 0)),
        )
    if result.signatures:
        yield "signatures", f"{result.signatures}, not verified here; with the public key:"
        yield "", f"cosign verify --key cosign.pub --insecure-ignore-tlog=true {result.reference}"


def _signed(count: int) -> str:
    return f", {count} signature{'s' if count > 1 else ''}" if count else ""


def _amount(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"
