"""What one decision says: the status document and the conditions in it."""

from typing import Any

from headrace_operator.api.names import selector_text, service_url
from headrace_operator.api.rollout_memory import RolloutMemory
from headrace_operator.api.spec import Limits
from headrace_operator.api.status import Condition, Enough
from headrace_operator.api.status_document import StatusView, status_document
from headrace_operator.decide import conditions, conflict, health, record
from headrace_operator.decide.feasibility import slo_feasible
from headrace_operator.decide.health import Finding
from headrace_operator.decide.modes import Mandate
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.situation import Situation
from headrace_operator.decide.slo import (
    attainment_ratio,
    binding_target,
    counts_are_current,
    slo_key,
    slo_targets,
)
from headrace_operator.decide.verdict import Verdict


def conditions_of(
    situation: Situation,
    observation: Observation,
    verdict: Verdict,
    mandate: Mandate,
    *,
    accepted: Finding,
    memory: RolloutMemory,
) -> tuple[Condition, ...]:
    """All conditions, timed."""
    spec = situation.spec
    found = (
        accepted,
        *health.findings(
            spec,
            situation.supply,
            desired=verdict.setting.replicas,
            deployment=observation.children.get("Deployment"),
            accepted=accepted,
            foreign_pods=observation.foreign_pods,
            memory=memory,
        ),
        conditions.metrics_available(observation, situation.blindness),
        conditions.slo_met(spec, _attainment_ratio(situation, observation)),
        slo_feasible(spec.slo, situation.load, situation.previous),
        *conditions.controllers_active(spec, mandate, situation.blindness, situation.conflict),
        conflict.finding(observation, situation.conflict),
    )
    return conditions.timed(found, situation.previous, now_s=situation.now_s)


def status_of(
    situation: Situation,
    observation: Observation,
    verdict: Verdict,
    found: tuple[Condition, ...],
    *,
    memory: RolloutMemory,
) -> dict[str, Any]:
    """The whole status document."""
    spec, previous, now_s = situation.spec, situation.previous, situation.now_s
    key = slo_key(spec.slo)
    is_same_slo = previous.slo_key == key and previous.slo_since_s is not None
    is_same_limits = previous.limits == verdict.setting.limits and previous.limits_since_s is not None
    view = StatusView(
        generation=spec.generation,
        replicas=len(situation.supply.staying) + len(situation.supply.draining),
        ready_replicas=len(situation.supply.ready),
        setting=verdict.setting,
        selector=selector_text(spec.name),
        url=service_url(spec.name, spec.namespace),
        model_commits=sorted({pod.model_commit for pod in situation.supply.ready if pod.model_commit}),
        limits_are_tuned=verdict.setting.limits != _widest(situation),
        limits_since_s=(previous.limits_since_s or now_s) if is_same_limits else now_s,
        slo_key=key,
        slo_since_s=(previous.slo_since_s or now_s) if is_same_slo else now_s,
        slo_targets=slo_targets(spec.slo),
        binding_target=_binding_target(situation),
        overloaded_since_s=None if verdict.moves_replicas else situation.overloaded_since_s,
        enough=_enough_after(situation, verdict),
        scaled_down_at_s=now_s if verdict.removes_replicas else previous.scaled_down_at_s,
        observed=record.observed_document(observation.window, _attainment_ratio(situation, observation)),
        decision=record.decision_document(
            verdict.decision,
            identity=verdict.identity,
            at_s=verdict.since_s,
            before=verdict.before,
            is_applied=verdict.is_applied,
        ),
        recommendation=(
            None if verdict.recommended is None else record.recommendation_document(verdict.recommended)
        ),
        approval=verdict.approval,
        history=record.history(previous, verdict.change, judged=verdict.outcome),
        rollout=memory,
        conditions=found,
    )
    return status_document(view)


def _attainment_ratio(situation: Situation, observation: Observation) -> float | None:
    if observation.window is None:
        return None
    counts_current = counts_are_current(observation, situation.spec)
    return attainment_ratio(observation.window, situation.spec.slo, counts_current=counts_current)


def _enough_after(situation: Situation, verdict: Verdict) -> tuple[Enough, ...]:
    """A removal leaves what was seen as it is; another change makes it void."""
    if verdict.change is not None and not verdict.removes_replicas:
        return ()
    return tuple(level for level in situation.enough if level.replicas < verdict.setting.replicas)


def _binding_target(situation: Situation) -> str | None:
    load = situation.load
    if load is None:
        return None
    return binding_target(
        situation.spec.slo, ttft_s=load.ttft_s, itl_s=load.itl_s, e2e_s=load.e2e_s, queue_s=load.queue_s
    )


def _widest(situation: Situation) -> Limits:
    capacity = situation.spec.engine.capacity
    return Limits(capacity.max_num_seqs, capacity.max_num_batched_tokens)
