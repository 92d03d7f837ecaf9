"""The SBOM of an image, as CycloneDX 1.6 JSON, made from its lock.

The same lock gives the same bytes: no time is in it, and its serial number follows from the lock
digest. Wheels say their own licences. Those of .debs lie in the packages, not in the lock: the
document of an image has them, one that is exported from a lock alone says nothing of them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import License, LicenseAcknowledgement
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import is_supported_id

from builder.core.closure import needs
from builder.core.debs import release_of
from builder.core.distribution import of_pin
from builder.core.lock import DebPin, Lock, WheelPin, canonical_json
from builder.core.purl import deb_purl, debian_version, wheel_purl
from builder.core.target import Target

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://nightlock.org/sbom/v1")
_SUPPLIERS = {
    "general": "Python Package Index, or the index that stands in for it",
    "vllm": "vLLM project",
    "flashinfer": "FlashInfer project",
    "pytorch-cpu": "PyTorch project",
}
"""Index → who hands its files out."""


def cyclonedx(lock: Lock, platform: str, deb_licences: Mapping[str, Sequence[str]] = {}) -> bytes:
    """Write the SBOM of one platform; canonical JSON.

    `deb_licences`: package of Debian → licences that its copyright file names.
    """
    header, content = lock.header, lock.platforms[platform]
    image = Component(
        type=ComponentType.CONTAINER,
        name=header.image,
        version=header.vllm.version,
        bom_ref=f"image:{header.image}:{platform}",
        properties=_properties(
            {
                "lock-digest": lock.digest,
                "spec-digest": header.spec,
                "platform": platform,
                "channel": header.channel,
                "vllm-commit": header.vllm.commit,
                "cuda": header.target.cuda,
                "python": header.target.python,
                "base-image": header.base.image,
                "base-image-digest": header.base.images.get(platform, ""),
            }
        ),
    )
    licences = LicenseFactory()
    wheels = [_wheel(pin, _row(content.meta, pin), licences) for pin in content.wheels]
    codename = release_of(lock, platform)
    debs = [
        _deb(pin, codename, _each(deb_licences.get(pin.name, ()), licences)) for pin in content.debs
    ]
    parts = [*wheels, *debs, *_system(codename)]
    bom = Bom(
        components=parts,
        serial_number=uuid.uuid5(_NAMESPACE, f"{lock.digest} {platform}"),
        metadata=BomMetaData(
            component=image,
            tools=ToolRepository(
                components=[Component(type=ComponentType.APPLICATION, name="nightlock")]
            ),
        ),
    )
    bom.register_dependency(image, parts)
    refs = {pin.name: wheel for pin, wheel in zip(content.wheels, wheels, strict=True)}
    for name, others in _edges(lock, platform).items():
        bom.register_dependency(refs[name], [refs[other] for other in others])
    return canonical_json(_honest(json.loads(JsonV1Dot6(bom).output_as_string())))


def _edges(lock: Lock, platform: str) -> dict[str, list[str]]:
    content = lock.platforms[platform]
    target = Target(python=lock.header.target.python, platform=platform)
    packages = (of_pin(pin, _row(content.meta, pin)) for pin in content.wheels)
    return needs(packages, target.environment)


def _honest(tables: dict[str, Any]) -> dict[str, Any]:
    """Take out what the library says of itself: the time of the call, and .debs without needs."""
    del tables["metadata"]["timestamp"]
    # A row without `dependsOn` says that something needs nothing (CycloneDX 1.6, `dependencies`).
    tables["dependencies"] = [
        row for row in tables["dependencies"] if row["ref"].startswith(("pkg:pypi/", "image:"))
    ]
    return tables


def _row(meta: Mapping[str, object], pin: WheelPin) -> Mapping[str, object]:
    row = meta.get(pin.name)
    return row if isinstance(row, Mapping) else {}


def _wheel(pin: WheelPin, meta: Mapping[str, object], licences: LicenseFactory) -> Component:
    said = str(meta.get("licence", ""))
    purl = wheel_purl(pin)
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=purl,
        bom_ref=purl.to_string(),
        supplier=OrganizationalEntity(name=_SUPPLIERS.get(pin.index, f"index {pin.index}")),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=pin.sha256)],
        licenses=_licences(said, licences),
        properties=_properties(
            {
                "file": pin.file,
                "size": str(pin.size),
                "index": pin.index,
                "hash-from": str(meta.get("hash_from", "")),
            }
        ),
    )


def _licences(said: str, licences: LicenseFactory) -> Iterable[License]:
    """Say what the wheel declares: an SPDX id or expression where it is one, else its own words."""
    if not said:
        return ()
    declared = LicenseAcknowledgement.DECLARED
    return (licences.make_from_string(said, license_acknowledgement=declared),)


def _each(names: Iterable[str], licences: LicenseFactory) -> list[License]:
    """Say what a copyright file names; which of them hold for which file is in there alone."""
    declared = LicenseAcknowledgement.DECLARED
    return [
        licences.make_with_id(name, acknowledgement=declared)
        if is_supported_id(name)
        else licences.make_with_name(name, acknowledgement=declared)
        for name in names
    ]


def _deb(pin: DebPin, codename: str, licences: Iterable[License]) -> Component:
    purl = deb_purl(pin, codename)
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=purl,
        bom_ref=purl.to_string(),
        supplier=OrganizationalEntity(name="Debian"),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=pin.sha256)],
        licenses=licences,
        properties=_properties(
            {
                "file": pin.path,
                "size": str(pin.size),
                "suite": pin.suite,
                "source-package": pin.source,
            }
        ),
    )


def _system(codename: str) -> list[Component]:
    """Name the distribution: scanners choose their list of advisories by it."""
    if not codename:
        return []
    return [
        Component(
            type=ComponentType.OPERATING_SYSTEM,
            name="debian",
            version=debian_version(codename),
            bom_ref=f"debian:{codename}",
            properties=_properties({"codename": codename}),
        )
    ]


def _properties(values: Mapping[str, str]) -> list[Property]:
    return [
        Property(name=f"nightlock:{name}", value=value) for name, value in values.items() if value
    ]
