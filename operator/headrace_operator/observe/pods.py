"""One pod of the API, and its newest scrape, as the decision sees it. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace_engine.core.policies import PolicyName
from headrace_operator.api.names import CHILD_FIELD_MANAGER, DRAINING_ANNOTATION, LEFT_ALONE
from headrace_operator.api.spec import Limits
from headrace_operator.decide.observation import PodObservation, Scrape
from headrace_operator.observe.ownership import controller_name
from headrace_operator.observe.sample import PodSample
from headrace_operator.observe.trouble import engine_status, fetched_commit, trouble
from headrace_operator.render.pod_template import template_hash
from headrace_operator.runtimes.metric_map import Gauge

MAX_MESSAGE = 1000


def observe_pod(
    pod: Mapping[str, Any], newest: PodSample | None, told: tuple[float, Limits] | None = None
) -> PodObservation:
    """`told` are the limits that the pod confirmed by a call, and when."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    engine = engine_status(status)
    word, message = trouble(pod)
    return PodObservation(
        name=metadata["name"],
        uid=metadata["uid"],
        ip=status.get("podIP"),
        created_s=unix_s(metadata.get("creationTimestamp")) or 0.0,
        phase=status.get("phase") or "Unknown",
        ready=_is_true(status, "Ready"),
        ready_since_s=_ready_since_s(status, "True"),
        unready_since_s=_ready_since_s(status, "False"),
        deleting="deletionTimestamp" in metadata,
        restarts=int(engine.get("restartCount") or 0),
        trouble=word,
        trouble_message=message[:MAX_MESSAGE] if message else None,
        draining_since_s=unix_s(annotations.get(DRAINING_ANNOTATION)),
        replica_set=controller_name(pod),
        template=template_hash(pod),
        is_left_alone=LEFT_ALONE.items() <= annotations.items() and _has_our_marks(metadata),
        model_commit=fetched_commit(status),
        scrape=_scrape(newest, told) if newest else None,
    )


def is_scrapable(pod: Mapping[str, Any]) -> bool:
    """Whether the engine's process runs: metrics are served before it is ready, and after."""
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") == "Running" and not _on_host_network(pod)


def is_endpoint(pod: Mapping[str, Any]) -> bool:
    """Whether a Service that selects the pod sends it requests."""
    status = pod.get("status") or {}
    return _is_true(status, "Ready") and "deletionTimestamp" not in pod["metadata"]


def unix_s(timestamp: Any) -> float | None:
    """Of an RFC 3339 time; None where there is none."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _has_our_marks(metadata: Mapping[str, Any]) -> bool:
    """Whether it is we who hold the marks for autoscalers. Others' do not go when we let go."""
    return any(
        entry.get("manager") == CHILD_FIELD_MANAGER
        and {f"f:{name}" for name in LEFT_ALONE} <= _annotations_in(entry.get("fieldsV1")).keys()
        for entry in metadata.get("managedFields") or ()
    )


def _annotations_in(fields: Any) -> Mapping[str, Any]:
    for name in ("f:metadata", "f:annotations"):
        fields = fields.get(name) if isinstance(fields, Mapping) else None
    return fields if isinstance(fields, Mapping) else {}


def _on_host_network(pod: Mapping[str, Any]) -> bool:
    return (pod.get("spec") or {}).get("hostNetwork") is True


def _is_true(status: Mapping[str, Any], condition_type: str) -> bool:
    return any(
        condition.get("type") == condition_type and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _ready_since_s(status: Mapping[str, Any], value: str) -> float | None:
    """Since when the Ready condition has had this value; None where it has another."""
    transitions = (
        unix_s(condition.get("lastTransitionTime"))
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready" and condition.get("status") == value
    )
    return next(transitions, None)


def _scrape(newest: PodSample, told: tuple[float, Limits] | None) -> Scrape:
    in_flight, draining = _in_flight(newest), newest.gauges.get(Gauge.DRAINING)
    return Scrape(
        at_s=newest.at_s,
        limits=told[1] if told is not None and told[0] >= newest.at_s else _limits(newest),
        in_flight=None if in_flight is None else int(in_flight),
        draining=None if draining is None else draining > 0,
        tenants_digest=None if (digest := newest.gauges.get(Gauge.TENANTS_DIGEST)) is None else int(digest),
        policy=_policy(newest),
        is_implausible=newest.implausible > 0,
    )


def _policy(newest: PodSample) -> PolicyName | None:
    known = {Gauge.BY_SHARES: PolicyName.FAIR, Gauge.BY_CLASSES: PolicyName.SLO}
    return next((policy for gauge, policy in known.items() if newest.gauges.get(gauge)), None)


def _in_flight(newest: PodSample) -> float | None:
    """As the engine says, or else all that run and wait."""
    told = newest.gauges.get(Gauge.IN_FLIGHT)
    running, waiting = newest.gauges.get(Gauge.RUNNING), newest.gauges.get(Gauge.WAITING)
    if told is not None or running is None or waiting is None:
        return told
    return running + waiting


def _limits(newest: PodSample) -> Limits | None:
    seqs = newest.gauges.get(Gauge.MAX_NUM_SEQS)
    tokens = newest.gauges.get(Gauge.MAX_NUM_BATCHED_TOKENS)
    return Limits(int(seqs), int(tokens)) if seqs is not None and tokens is not None else None
