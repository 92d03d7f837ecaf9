"""Receipts in a registry: attached to the image they are about, so that any host finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from builder.core.artifact import IN_TOTO, PREDICATE_TYPE, Artifact
from builder.core.manifest import Manifest
from builder.core.places import Places
from builder.core.receipt import PREDICATE, Receipt
from builder.core.reference import ImageRef
from builder.edge.referrers import attach, content, referrers
from builder.edge.registry import Registry

_KIND = "org.nightlock.receipt.kind"
_VERDICT = "org.nightlock.receipt.verdict"


def attach_receipt(
    registry: Registry,
    place: ImageRef,
    image: Manifest,
    receipt: Receipt,
    places: Places,
    waiting: Callable[[str], None],
) -> str:
    """Push a receipt as a referrer of the image; return its digest.

    Raises RegistryError, NetworkError.
    """
    artifact = Artifact(
        type=IN_TOTO,
        file="receipt.intoto.json",
        data=receipt.data(),
        annotations={
            PREDICATE_TYPE: PREDICATE,
            _KIND: receipt.predicate.kind,
            _VERDICT: receipt.predicate.verdict,
        },
    )
    return attach(registry, place, image, artifact, places, waiting)


def attached_receipts(
    registry: Registry, place: ImageRef, digest: str
) -> Iterator[tuple[str, Receipt]]:
    """Yield each receipt of a digest, with its referrer's digest.

    Other statements are left out, and what names another image as its subject.

    Raises RegistryError, NetworkError.
    """
    for one in referrers(registry, place, digest, IN_TOTO):
        # Registries may leave annotations out of the list; then the statement itself decides.
        if one.annotations.get(PREDICATE_TYPE, PREDICATE) != PREDICATE:
            continue
        receipt = Receipt.parse(content(registry, place, one))
        if receipt is not None and receipt.proves(digest):
            yield one.digest, receipt
