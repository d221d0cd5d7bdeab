"""Which pods node autoscalers are to leave alone: those that load or drain, for minutes that would be lost.

Those that serve are not spared: the PodDisruptionBudget lets them go one at a time, and they drain. Nor are
those that do not start, or a broken pod would keep its node for ever.
"""

from headrace_operator.api.names import LEFT_ALONE
from headrace_operator.decide.plan import PodAnnotations
from headrace_operator.decide.supply import Supply


def marks(supply: Supply, drained: tuple[PodAnnotations, ...]) -> tuple[PodAnnotations, ...]:
    """To set on pods that load, and to take away from the others; pods in `drained` have theirs already."""
    busy = {mark.pod_uid for mark in drained}
    return (
        *(PodAnnotations(pod.name, pod.uid, LEFT_ALONE) for pod in supply.loading if not pod.is_left_alone),
        *(
            PodAnnotations(pod.name, pod.uid, {})
            for pod in (*supply.ready, *supply.stuck)
            if pod.is_left_alone and pod.uid not in busy
        ),
    )
