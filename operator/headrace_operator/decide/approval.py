"""What a person answers to a recommendation: annotation `headrace.dev/approve`, an id or `next`.

A recommendation has an id for as long as it says the same, so that what is approved is what was read. An
answer counts once: the status remembers it until the annotation is another or gone, and the operator removes
none.

| the annotation says | then |
| --- | --- |
| the id of the recommendation in force | that is applied, once |
| `next` | the next one that changes something is applied, at once where there is one |
| anything else, or what cannot be applied | refused, with an Event |
"""

import hashlib
from dataclasses import dataclass

from headrace_operator.api.names import APPROVE_ANNOTATION
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.api.status import Approval, Previous
from headrace_operator.api.vocabulary import ApprovalOutcome
from headrace_operator.decide.decision import Decision
from headrace_operator.decide.modes import Mandate
from headrace_operator.runtimes.registry import adapter

NEXT = "next"


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation, and since when it has said the same."""

    decision: Decision
    identity: str
    since_s: float


def advice(spec: ServiceSpec, proposal: Decision, previous: Previous, *, now_s: float) -> Advice:
    """The recommendation of now, under the id that it had if it says what it said."""
    known = previous.recommended
    is_same = known is not None and (known.action, known.after) == (proposal.action, proposal.after)
    since_s = known.since_s if known is not None and is_same else now_s
    after = proposal.after
    text = "/".join(
        str(part)
        for part in (spec.uid, spec.generation, proposal.action, after.replicas, after.limits, int(since_s))
    )
    return Advice(proposal, hashlib.sha256(text.encode()).hexdigest()[:8], since_s)


def answered(
    asked: str | None, advised: Advice | None, mandate: Mandate, spec: ServiceSpec, previous: Previous
) -> Approval | None:
    """The answer to `asked` as the status is to remember it; None where nothing is asked, or `next` waits."""
    if asked is None:
        return None
    if previous.approval is not None and previous.approval.value == asked:
        return previous.approval
    obstacle = _obstacle(asked, advised, mandate, spec)
    if obstacle is not None:
        return Approval(asked, ApprovalOutcome.REFUSED, obstacle)
    if advised is None or not advised.decision.is_change or mandate.permits(advised.decision):
        return None
    return Approval(asked, ApprovalOutcome.APPLIED, f"{advised.decision.action} was applied")


def _obstacle(asked: str, advised: Advice | None, mandate: Mandate, spec: ServiceSpec) -> str | None:
    if advised is None:
        why = "no mode is Recommend, or spec.replicas pins what it is about"
        return f"{APPROVE_ANNOTATION} is {asked!r}, and nothing is recommended: {why}"
    decision, is_open = advised.decision, not mandate.permits(advised.decision)
    if asked not in {NEXT, advised.identity} or (asked != NEXT and not (decision.is_change and is_open)):
        now = f"{advised.identity}: {decision.action}" if decision.is_change and is_open else "none to apply"
        return f"{APPROVE_ANNOTATION} is {asked!r}, which is not the recommendation in force ({now})"
    runtime = spec.engine.runtime
    if decision.is_change and not decision.moves_replicas and not adapter(runtime).changes_limits_live:
        return f"{runtime} takes its limits when it starts: set engine.limits, which replaces the pods"
    return None
