"""From what was observed to what the rules look at."""

from dataclasses import replace

from headrace_operator.api.spec import ServiceSpec
from headrace_operator.decide.conflict import conflict
from headrace_operator.decide.load import measure
from headrace_operator.decide.modes import setting_in_force
from headrace_operator.decide.observation import Observation
from headrace_operator.decide.situation import Situation
from headrace_operator.decide.slo import attainment_ratio, counts_are_current
from headrace_operator.decide.stabilize import enough, overloaded_since_s
from headrace_operator.decide.supply import supply
from headrace_operator.decide.trust import blindness, sees_all_pods


def assess(
    observation: Observation,
    spec: ServiceSpec,
    *,
    template: str | None = None,
    scrape_interval_s: float,
    now_s: float,
) -> Situation:
    """The situation of one service now. `template` is the digest of what pods are to be made of."""
    previous = observation.previous
    pods = supply(observation, spec, now_s=now_s, template=template)
    rival = conflict(observation, spec, previous, now_s=now_s)
    setting = setting_in_force(spec, previous, deployed_replicas=pods.deployed_replicas)
    if rival is not None and rival.leaves_deployment and pods.deployed_replicas is not None:
        setting = replace(setting, replicas=pods.deployed_replicas - pods.counted_draining)
    blind = blindness(observation, spec, scrape_interval_s=scrape_interval_s, now_s=now_s)
    load = None
    if blind is None and observation.recent is not None:
        counts_current = counts_are_current(observation, spec)
        load = measure(
            observation.recent,
            slo=spec.slo,
            limits=setting.limits,
            attainment_ratio=attainment_ratio(observation.recent, spec.slo, counts_current=counts_current),
        )
    situation = Situation(
        spec=spec,
        now_s=now_s,
        previous=previous,
        setting=setting,
        supply=pods,
        load=load,
        blindness=blind,
        conflict=rival,
        sees_all_pods=sees_all_pods(observation, spec, now_s=now_s),
        overloaded_since_s=overloaded_since_s(
            previous.overloaded_since_s, supply=pods, load=load, now_s=now_s
        ),
    )
    return replace(situation, enough=enough(situation))
