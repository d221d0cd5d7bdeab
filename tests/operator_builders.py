"""Services, windows and pods for tests of the operator's decisions: plain values with telling defaults."""

import bisect
from collections.abc import Iterable, Mapping
from typing import Any

from headrace_operator.api.parsing import parse
from headrace_operator.api.spec import Limits, ServiceSpec
from headrace_operator.api.status import Previous
from headrace_operator.api.status_reading import read
from headrace_operator.decide.histogram import Histogram
from headrace_operator.decide.observation import Observation, PodObservation, Scrape, Window
from headrace_operator.decide.settings import Settings
from headrace_operator.render.pod_template import pod_template

NOW_S = 1_800_000_000.0
SETTINGS = Settings(engine_image="registry.test/engine:1", admin_keys='{"keys": []}')
LATENCY_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SHARE_EDGES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, objects into objects."""
    result = dict(base)
    for key, value in changes.items():
        known = result.get(key)
        nested = isinstance(value, Mapping) and isinstance(known, Mapping)
        result[key] = merged(known, value) if nested else value
    return result


TUNED_CHAT: Mapping[str, Any] = {
    "model": {"uri": "pvc://models/tiny"},
    "engine": {"limits": {"maxNumSeqs": 16, "maxNumBatchedTokens": 512}, "drainTimeout": "60s"},
    "slo": {"ttft": "1s", "itl": "200ms", "window": "60s"},
    "scaling": {
        "mode": "Auto",
        "minReplicas": 1,
        "maxReplicas": 4,
        "scaleUp": {"stabilization": "20s"},
        "scaleDown": {"stabilization": "60s"},
    },
    "tuning": {
        "mode": "Auto",
        "interval": "20s",
        "bounds": {"maxNumSeqs": {"min": 2}, "maxNumBatchedTokens": {"min": 64}},
    },
}


def resource(
    spec: Mapping[str, Any] | None = None, *, name: str = "chat", generation: int = 1
) -> dict[str, Any]:
    """The object as the API server keeps it: a small CPU service in Auto, with `spec` laid over it."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "generation": generation}
    return {"metadata": metadata, "spec": merged(TUNED_CHAT, spec or {})}


def service(spec: Mapping[str, Any] | None = None, **metadata: Any) -> ServiceSpec:
    parsed = parse(resource(spec, **metadata))
    assert isinstance(parsed, ServiceSpec), parsed
    return parsed


def histogram(values: Iterable[float], edges: tuple[float, ...] = LATENCY_EDGES) -> Histogram:
    known = sorted(values)
    counts = tuple(bisect.bisect_right(known, edge) for edge in edges)
    return Histogram(edges, counts, len(known), sum(known))


def window(
    *,
    now_s: float = NOW_S,
    span_s: float = 20.0,
    queue_s: float | None = 0.01,
    ttft_s: float | None = 0.2,
    itl_s: float | None = 0.1,
    budget_used: float | None = 0.1,
    requests: int = 100,
    **fields: Any,
) -> Window:
    """A calm interval: everything within target, limits half used. All requests have the same latencies."""

    def all_of(value: float | None, edges: tuple[float, ...] = LATENCY_EDGES) -> Histogram | None:
        return (
            None
            if value is None
            else histogram([value] * requests, tuple(sorted({*edges, 0.999 * value, value})))
        )

    known: dict[str, Any] = {
        "start_s": now_s - span_s,
        "end_s": now_s,
        "longest_gap_s": 2.0,
        "pods_reporting": 1,
        "pods_expected": 1,
        "arrivals": requests,
        "rejections": 0,
        "good": requests,
        "late": 0,
        "failed": 0,
        "prompt_tokens": 20 * requests,
        "generation_tokens": 50 * requests,
        "preemptions": 0,
        "steps": 20 * requests,
        "queue_time_s": all_of(queue_s),
        "ttft_s": all_of(ttft_s),
        "itl_s": all_of(itl_s),
        "step_budget_used_ratio": all_of(budget_used, SHARE_EDGES),
        "running_per_pod": 8.0,
        "running_peak": 9.0,
        "waiting": 0.0,
        "oldest_waiting_age_s": 0.0,
        "kv_used_ratio": 0.2,
    }
    return Window(**{**known, **fields})


def pod(number: int = 0, *, ready: bool = True, **fields: Any) -> PodObservation:
    known: dict[str, Any] = {
        "name": f"chat-engine-5d9c-{number}",
        "uid": f"uid-of-pod-{number}",
        "ip": f"10.0.0.{number + 1}",
        "created_s": NOW_S - 3600.0 if ready else NOW_S - 5.0,
        "phase": "Running" if ready else "Pending",
        "ready": ready,
        "deleting": False,
        "ready_since_s": NOW_S - 3500.0 if ready else None,
        "scrape": Scrape(NOW_S, Limits(16, 512), in_flight=8, draining=False) if ready else None,
    }
    return PodObservation(**{**known, **fields})


def deployment(replicas: int, *, spec: ServiceSpec, updated: int | None = None) -> dict[str, Any]:
    """A live Deployment as far as the rules read it; what was rendered is another test's."""
    image = spec.engine.image or SETTINGS.engine_image
    template = pod_template(spec, image=image, admin_keys=SETTINGS.admin_keys)
    owner = {"controller": True, "uid": spec.uid}
    return {
        "metadata": {"name": "chat-engine", "generation": 1, "ownerReferences": [owner]},
        "spec": {"replicas": replicas, "template": template},
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "updatedReplicas": replicas if updated is None else updated,
        },
    }


def observation(
    spec: ServiceSpec,
    *,
    pods: Iterable[PodObservation] | None = None,
    recent: Window | None = None,
    previous: Previous | Mapping[str, Any] | None = None,
    deployed: int | None = None,
    **fields: Any,
) -> Observation:
    """`pods` run, as the Deployment asks, and have been watched for long."""
    running = tuple(pods) if pods is not None else (pod(),)
    seen = previous if isinstance(previous, Previous) else read(previous)
    replicas = deployed if deployed is not None else sum(not found.deleting for found in running)
    known: dict[str, Any] = {
        "children": {"Deployment": deployment(replicas, spec=spec)},
        "previous": seen,
        "pods": running,
        "window": recent,
        "recent": recent,
        "observing_since_s": NOW_S - 3600.0,
    }
    return Observation(**{**known, **fields})
