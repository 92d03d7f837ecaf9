"""Why a resolution failed: every exact pin that no index has, named in one go (C15).

Asked only then: it reads the page of each pinned package, which a resolver has read before.
"""

from __future__ import annotations

from collections.abc import Sequence

from packaging.requirements import Requirement

from builder.commands.lock_wheels import Order
from builder.commands.lock_workshop import Workshop
from builder.core.distribution import Distribution, of_metadata
from builder.core.exact_pins import ExactPin, exact_pins, not_offered
from builder.core.finding import Finding
from builder.core.pick import best
from builder.core.simple import Candidate
from builder.core.spec import GENERAL
from builder.edge.pool import Stop, each
from builder.errors import NetworkError, Refused

_PARENT = "torch"
"""The one dependency whose own exact pins are looked at too: Triton, NVIDIA's libraries."""


def explained(workshop: Workshop, order: Order, vllm: Distribution, error: Refused) -> Refused:
    """Add to a refused resolution the pins that are on no index; as it was when all are there."""
    found = _missing(workshop, order, vllm)
    if not found:
        return error
    rows = "; ".join(f"{row.subject}: {row.evidence}" for row in found)
    refused = Refused(f"{rows} ({error.what})", subject=error.subject, action=found[0].action)
    refused.findings = (*error.findings, *found)
    return refused


def _missing(workshop: Workshop, order: Order, vllm: Distribution) -> list[Finding]:
    asked = [Requirement(text) for text in order.requirements]
    pins = [
        *exact_pins("the image", asked, order.environment),
        *exact_pins(vllm.spelled, vllm.requirements, order.environment, order.overrides),
    ]
    found = _look_up(workshop, order, pins)
    torch = next((pin for pin in pins if pin.name == _PARENT), None)
    wheel = best(
        (
            row
            for row in _offers(workshop, order, _PARENT)
            if torch and row.version in torch.specifier
        ),
        order.target,
    )
    if wheel is not None:
        about = of_metadata(workshop.reader.look(wheel).metadata, file=wheel.file)
        inner = exact_pins(about.spelled, about.requirements, order.environment, order.overrides)
        found += _look_up(workshop, order, inner)
    return found


def _look_up(workshop: Workshop, order: Order, pins: Sequence[ExactPin]) -> list[Finding]:
    def look(pin: ExactPin, _stop: Stop) -> Finding | None:
        bound = order.bound.get(pin.name)
        where = str(bound.index if bound is not None else workshop.indexes.place(GENERAL))
        try:
            return not_offered(pin, _offers(workshop, order, pin.name), where)
        except NetworkError:
            # Whoever cannot be asked has not said no.
            return None

    return [row for row in each(look, pins, threads=workshop.threads) if row is not None]


def _offers(workshop: Workshop, order: Order, name: str) -> list[Candidate]:
    if (bound := order.bound.get(name)) is not None:
        return bound.one_each
    return workshop.indexes.offers(workshop.indexes.place(GENERAL), name)
