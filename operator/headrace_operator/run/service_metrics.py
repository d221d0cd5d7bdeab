"""Every service as metrics, read from its status at each scrape: what status does not say has no series.

Only the leader tells them, so that a sum over replicas counts each service once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headrace_operator.kube.kinds import Key

_LABELS = ("namespace", "name")
_TRUTH = {"True": 1.0, "False": 0.0}


def _family(name: str, documentation: str, *more_labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"headrace_{name}", documentation, labels=(*_LABELS, *more_labels))


class ServiceMetrics(Collector):
    def __init__(
        self,
        services: Callable[[], Iterator[tuple[Key, Mapping[str, Any]]]],
        *,
        is_leader: Callable[[], bool],
    ) -> None:
        self._services = services
        self._is_leader = is_leader

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing to check at registration: names are fixed, series come and go."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {
            "replicas": _family("replicas", "Pods by state: ready or not.", "state"),
            "desired": _family("desired_replicas", "Pods that there are to be."),
            "recommended": _family("recommended_replicas", "Pods that would be, were the mode Auto."),
            "seqs": _family("active_max_num_seqs", "Sequences that may run at once in a pod."),
            "tokens": _family("active_max_num_batched_tokens", "Tokens that a step may compute."),
            "attainment": _family("slo_attainment_ratio", "Share of requests that met every target."),
            "condition": _family("condition", "1 where True, 0 where False, absent where unknown.", "type"),
            "decision": _family("decision_info", "The decision in force.", "action", "reason"),
        }
        for key, service in self._services() if self._is_leader() else ():
            for family, labels, value in _samples(service.get("status") or {}):
                if value is not None:
                    families[family].add_metric((*key, *labels), value)
        yield from families.values()


def _samples(status: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], float | None]]:
    replicas, ready = _number(status, "replicas"), _number(status, "readyReplicas")
    if replicas is not None and ready is not None:
        yield "replicas", ("ready",), ready
        yield "replicas", ("not_ready",), replicas - ready
    yield "desired", (), _number(status, "desiredReplicas")
    yield "recommended", (), _number(status, "recommendation", "after", "replicas")
    yield "seqs", (), _number(status, "activeLimits", "maxNumSeqs")
    yield "tokens", (), _number(status, "activeLimits", "maxNumBatchedTokens")
    yield "attainment", (), _number(status, "observed", "attainment")
    for condition in status.get("conditions") or ():
        yield "condition", (condition["type"],), _TRUTH.get(condition["status"])
    decision = status.get("decision")
    if decision:
        yield "decision", (decision["action"], decision["reason"]), 1.0


def _number(status: Mapping[str, Any], *path: str) -> float | None:
    value: Any = status
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
