"""The controller as its callers see it: an observation, a spec and the time in, a plan out. Pure.

In this order: assess what is there, choose a move, carry out what the user allows of it, work out the next
steps towards it, and say all that in the status.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status import Condition, Previous
from headrace_operator.api.status_document import tells_news
from headrace_operator.api.status_past import until
from headrace_operator.decide import children, drain, events, protection
from headrace_operator.decide.assess import assess
from headrace_operator.decide.modes import Mandate, mandate
from headrace_operator.decide.observation import Observation, PodObservation, Scrape
from headrace_operator.decide.plan import Event, Plan, SetLimits
from headrace_operator.decide.refusal import accepted, refuse_name, refuse_spec
from headrace_operator.decide.report import conditions_of, status_of
from headrace_operator.decide.revision import Revision, revision
from headrace_operator.decide.rollout import surges
from headrace_operator.decide.settings import Settings
from headrace_operator.decide.situation import Situation
from headrace_operator.decide.verdict import Verdict, verdict
from headrace_operator.render.children import children as rendered_children
from headrace_operator.render.pod_template import template_hash
from headrace_operator.runtimes.registry import adapter
from headrace_operator.runtimes.terms import contract, scheduling_policy

MIN_REFRESH_S, MAX_REFRESH_S = 5.0, 60.0
"""Of the measured numbers in a status that says nothing else new: a quarter of the window, within these."""


def decide(
    observation: Observation, spec: ServiceSpec | Invalid, *, settings: Settings, now_s: float
) -> Plan:
    """What to do for one service now. The same arguments give the same plan."""
    now_s = float(math.floor(now_s))  # as the status will give it back
    observation = replace(observation, previous=until(observation.previous, now_s))
    if isinstance(spec, Invalid):
        return refuse_spec(observation, spec, now_s=now_s)
    spec = replace(spec, paused=spec.paused or observation.is_paused)
    foreign = children.foreign_child(spec, observation.children)
    if foreign is not None:
        return refuse_name(observation, spec, foreign, now_s=now_s)
    made_of = revision(observation, spec, settings=settings, now_s=now_s)
    situation = assess(
        observation,
        made_of.spec,
        template=template_hash(made_of.template),
        scrape_interval_s=settings.scrape_interval_s,
        now_s=now_s,
    )
    allowed = mandate(made_of.spec, situation.conflict)
    decided = verdict(situation, allowed, observation.approve)
    return _planned(observation, situation, decided, allowed, made_of, settings=settings)


def recent_start_s(
    spec: ServiceSpec, previous: Previous, pods: Sequence[PodObservation], *, now_s: float
) -> float:
    """From when on samples may enter `Observation.recent`.

    None from before the last applied change, nor from before the youngest pod served: they would judge what
    is no more. A pod that restarts does not count, or it would blind the rules for as long as it does.
    """
    starts = [now_s - spec.tuning.interval_s]
    starts += [change.at_s for change in previous.history[:1]]
    starts += [pod.ready_since_s for pod in pods if pod.ready_since_s is not None and pod.restarts == 0]
    return min(now_s, max(starts))


def _planned(
    observation: Observation,
    situation: Situation,
    decided: Verdict,
    allowed: Mandate,
    made_of: Revision,
    *,
    settings: Settings,
) -> Plan:
    spec, now_s = situation.spec, situation.now_s
    steps = drain.steps(spec, situation.supply, desired=decided.setting.replicas, now_s=now_s)
    rendered = _rendered(
        observation, situation, decided, made_of, settings, replicas=steps.deployment_replicas
    )
    differing = children.changes(observation.children, rendered)
    marks = (*steps.annotate, *protection.marks(situation.supply, steps.annotate))
    is_written = not (differing.objects or marks)
    found = conditions_of(
        situation,
        observation,
        decided,
        allowed,
        accepted=accepted(observation, spec, is_written=is_written),
        memory=made_of.memory,
    )
    status = status_of(situation, observation, decided, found, memory=made_of.memory)
    refresh_s = min(MAX_REFRESH_S, max(MIN_REFRESH_S, spec.slo.window_s / 4))
    news = tells_news(situation.previous.raw, status, refresh_s=refresh_s, now_s=now_s)
    calls = _limit_calls(situation, decided)
    is_moving = bool(decided.change or steps.drain or steps.annotate or calls)
    return Plan(
        status=status if news else None,
        objects=differing.objects,
        annotate=marks,
        set_limits=calls,
        drain=steps.drain,
        events=(
            *_told(situation, decided, status, found if news else ()),
            # What was refused did not come about.
            *(() if observation.refused else (*differing.events, *steps.events)),
        ),
        wake_after_s=settings.scrape_interval_s if is_moving else None,
    )


def _rendered(
    observation: Observation,
    situation: Situation,
    decided: Verdict,
    made_of: Revision,
    settings: Settings,
    *,
    replicas: int,
) -> tuple[Mapping[str, Any], ...]:
    """The children as they are to be; `replicas` are the Deployment's."""
    spec, supply, deployment = situation.spec, situation.supply, observation.children.get("Deployment")
    return rendered_children(
        spec,
        replicas=replicas,
        limits=decided.setting.limits,
        image=spec.engine.image or settings.engine_image,
        admin_keys=settings.admin_keys,
        around=settings.surroundings,
        surge=surges(spec, supply, deployment, made_of.memory, now_s=situation.now_s),
        template=made_of.template,
        ready_replicas=len(supply.ready),
    )


def _told(
    situation: Situation, decided: Verdict, status: Mapping[str, Any], found: Sequence[Condition]
) -> Iterator[Event]:
    """What is new in the status: an answer, a change, a recommendation, conditions."""
    yield from events.of_approval(situation.previous, decided.approval)
    if decided.change is not None:
        yield events.of_change(decided.change)
    yield from events.of_recommendation(situation.previous, status.get("recommendation"))
    yield from events.of_conditions(situation.previous, found)


def _limit_calls(situation: Situation, decided: Verdict) -> tuple[SetLimits, ...]:
    """Pods whose limits, tenants' terms or policy are not those in force. While pods are replaced the old
    ones have another capacity and are left alone; a pod that starts reads limits and terms itself.
    """
    spec, supply = situation.spec, situation.supply
    if supply.is_rolling_out or not adapter(spec.engine.runtime).changes_limits_live:
        return ()
    tenants = contract(spec.tenants, ready_replicas=len(supply.ready))
    limits, policy = decided.setting.limits, scheduling_policy(spec)
    digest = tenants.digest

    def holds(scrape: Scrape) -> bool:
        is_by_policy = policy is None or scrape.policy in {None, policy}
        return scrape.limits in {None, limits} and scrape.tenants_digest in {None, digest} and is_by_policy

    return tuple(
        SetLimits(
            *(pod.name, pod.uid, pod.ip, limits),
            tenants=tenants if pod.scrape.tenants_digest is not None else None,
            policy=policy if pod.scrape.policy is not None else None,
        )
        for pod in supply.ready
        if pod.ip is not None and pod.scrape is not None and not holds(pod.scrape)
    )
