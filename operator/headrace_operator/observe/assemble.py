"""Puts together what is known of one service: live children, its own pods, its windows, its status. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace_operator.api.names import APPROVE_ANNOTATION, PAUSED_ANNOTATION
from headrace_operator.api.spec import Invalid, ServiceSpec
from headrace_operator.api.status_reading import read
from headrace_operator.decide.controller import recent_start_s
from headrace_operator.decide.observation import Autoscaler, Observation
from headrace_operator.kube.autoscalers import scaled_by
from headrace_operator.kube.kinds import DEPLOYMENTS
from headrace_operator.observe.pods import is_endpoint, observe_pod
from headrace_operator.observe.windows import ServiceWindows

FRESH_INTERVALS = 3
"""A pod that missed so many scrapes does not report any more."""


def assemble(
    service: Mapping[str, Any],
    spec: ServiceSpec | Invalid,
    *,
    children: Mapping[str, Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    foreign_pods: Iterable[Mapping[str, Any]],
    good_template: Mapping[str, Any] | None,
    autoscalers: tuple[Autoscaler, ...] | None,
    windows: ServiceWindows,
    scrape_interval_s: float,
    now_s: float,
) -> Observation:
    """`children` by kind; `pods` are those that the service owns, `foreign_pods` others with its label."""
    previous = read(service.get("status"))
    observed = tuple(
        observe_pod(pod, windows.latest(uid), windows.told.get(uid))
        for pod in pods
        if (uid := pod["metadata"]["uid"])
    )
    window = recent = None
    if isinstance(spec, ServiceSpec):
        ready_uids, fresh_s = [pod.uid for pod in observed if pod.ready], FRESH_INTERVALS * scrape_interval_s
        window_s, recent_s = now_s - spec.slo.window_s, recent_start_s(spec, previous, observed, now_s=now_s)
        window, recent = (
            windows.window(start_s=start_s, now_s=now_s, ready_uids=ready_uids, fresh_s=fresh_s)
            for start_s in (window_s, recent_s)
        )
    return Observation(
        children=children,
        previous=previous,
        pods=observed,
        window=window,
        recent=recent,
        observing_since_s=windows.observing_since_s,
        foreign_pods=tuple(pod["metadata"]["name"] for pod in foreign_pods if is_endpoint(pod)),
        good_template=good_template,
        autoscalers=autoscalers,
        scaled_by=scaled_by(_metadata(children.get(DEPLOYMENTS.kind)).get("managedFields")),
        approve=_annotation(service, APPROVE_ANNOTATION) or None,
        is_paused=_is_paused(service),
    )


def _is_paused(service: Mapping[str, Any]) -> bool:
    text = _annotation(service, PAUSED_ANNOTATION)
    return text is not None and text.lower() != "false"


def _annotation(service: Mapping[str, Any], name: str) -> str | None:
    annotations = _metadata(service).get("annotations")
    text = annotations.get(name) if isinstance(annotations, Mapping) else None
    return text if isinstance(text, str) else None


def _metadata(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (obj or {}).get("metadata") or {}
