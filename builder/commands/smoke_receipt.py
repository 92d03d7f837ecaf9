"""What `smoke` hands on: its receipts, attached to the image they are about."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from builder.commands.context import Context
from builder.commands.signer import Signer
from builder.core.candidate import Candidate
from builder.core.finding import Finding
from builder.core.keys import finding
from builder.core.smoke import SmokeReport, receipt_of
from builder.edge.receipts import attach_receipt
from builder.edge.registry import Registry
from builder.errors import Outside


@dataclass(slots=True, kw_only=True)
class Post:
    """Takes receipts to the registry, and remembers which arrived."""

    context: Context
    candidate: Candidate
    signer: Signer | None
    digests: list[str] = field(default_factory=list)
    """Of the referrers."""
    findings: list[Finding] = field(default_factory=list)
    """Why one lies here alone."""

    def take(self, report: SmokeReport) -> None:
        """Attach the receipt of a report, and sign it where there is a signer.

        A registry's no is a finding. A report without an answer has no receipt, and an image that
        names no lock and no build is not ours: nothing is pushed beside it.
        """
        candidate, output = self.candidate, self.context.output
        if report.failure or not (candidate.lock and candidate.build):
            return
        ref, receipt = candidate.ref, receipt_of(report)
        try:
            with Registry.open(ref.registry, os.environ) as registry:
                image = registry.manifest(ref)
                digest = attach_receipt(
                    registry, ref, image, receipt, self.context.places, output.note
                )
            if self.signer is not None:
                self.signer.sign([ref.with_digest(digest).pinned])
        except Outside as error:
            said = finding("receipt-not-attached", subject=ref.pinned, evidence=error.what)
            self.findings.append(said)
        else:
            self.digests.append(digest)
