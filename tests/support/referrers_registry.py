"""A registry with the referrers API (OCI distribution-spec 1.1, "Listing Referrers")."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from builder.core.lock import digest_of
from builder.core.manifest import OCI_INDEX
from tests.support.registry import FakeRegistry


@dataclass
class ReferrersRegistry(FakeRegistry):
    """Records subjects, says so in `OCI-Subject`, lists by page and by type."""

    filters: bool = True
    """Whether `?artifactType=` is heeded; a registry may leave that to its clients."""
    referrers_page: int = 1000
    """Descriptors on one page."""

    def recorded(self, data: bytes) -> dict[str, str]:
        """Say which subject was recorded."""
        subject = json.loads(data).get("subject")
        return {"OCI-Subject": subject["digest"]} if subject else {}

    def listed(self, request: httpx.Request, name: str, digest: str) -> httpx.Response:
        """Answer with one page; an unknown subject has an empty list."""
        wanted = request.url.params.get("artifactType", "")
        rows = self._descriptors(name, digest)
        headers = {"Content-Type": OCI_INDEX}
        if wanted and self.filters:
            rows = [row for row in rows if row["artifactType"] == wanted]
            headers["OCI-Filters-Applied"] = "artifactType"
        first = int(request.url.params.get("from", "0"))
        page = rows[first : first + self.referrers_page]
        if len(rows) > first + len(page):
            more = request.url.copy_merge_params({"from": str(first + len(page))})
            headers["Link"] = f'<{more.raw_path.decode()}>; rel="next"'
        body = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": page}
        return httpx.Response(200, content=json.dumps(body).encode(), headers=headers)

    def _descriptors(self, name: str, digest: str) -> list[dict[str, Any]]:
        rows = []
        for (repository, target), (data, media_type) in sorted(self.manifests.items()):
            tables = json.loads(data)
            subject = (tables.get("subject") or {}).get("digest")
            if repository == name and target == digest_of(data) and subject == digest:
                rows.append(
                    {
                        "mediaType": media_type,
                        "digest": target,
                        "size": len(data),
                        "artifactType": tables.get("artifactType") or tables["config"]["mediaType"],
                        "annotations": tables.get("annotations", {}),
                    }
                )
        return rows
