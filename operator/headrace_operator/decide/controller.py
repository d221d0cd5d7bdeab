"""The controller as its callers see it: an observation, a spec and the time in, a plan out."""

from collections.abc import Sequence

from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status import Previous
from headrace_operator.decide.observation import Observation, PodObservation
from headrace_operator.decide.plan import Plan
from headrace_operator.decide.settings import Settings


def decide(
    observation: Observation, spec: ServiceSpec | Invalid, *, settings: Settings, now_s: float
) -> Plan:
    """What to do for one service now. Pure: the same arguments give the same plan."""
    raise NotImplementedError


def recent_start_s(
    spec: ServiceSpec, previous: Previous, pods: Sequence[PodObservation], *, now_s: float
) -> float:
    """From when on samples may enter `Observation.recent`: none from before the last applied change."""
    raise NotImplementedError
