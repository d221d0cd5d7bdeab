"""The objects that make a service run, each as one manifest."""

import math
from collections.abc import Mapping
from typing import Any

from headrace_operator.api.names import HTTP_PORT, engine_name, selector_labels
from headrace_operator.api.spec import Limits, RolloutStrategy, ServiceSpec
from headrace_operator.render.config_map import config_map
from headrace_operator.render.metadata import child
from headrace_operator.render.network_policy import network_policy
from headrace_operator.render.pod_monitor import pod_monitor
from headrace_operator.render.pod_template import pod_template
from headrace_operator.render.surroundings import ALONE, Surroundings
from headrace_operator.render.volumes import keeps_downloads


def children(
    spec: ServiceSpec,
    *,
    replicas: int,
    limits: Limits,
    image: str,
    admin_keys: str,
    around: Surroundings = ALONE,
    surge: bool = True,
    template: Mapping[str, Any] | None = None,
    ready_replicas: int = 0,
) -> tuple[dict[str, Any], ...]:
    """All of them, in the order in which they are to be applied: what pods need comes before the pods.
    `template` is what pods are made of where that is not what the spec asks for.
    """
    template = template or pod_template(spec, image=image, admin_keys=admin_keys)
    return (
        service_account(spec),
        # Pods of an older template, or of one that was gone back to, may have to download another model.
        network_policy(spec, around=around, downloads=spec.model.is_downloaded or keeps_downloads(template)),
        config_map(spec, limits=limits, admin_keys=admin_keys, ready_replicas=ready_replicas),
        service(spec),
        pod_disruption_budget(spec),
        deployment(spec, replicas=replicas, template=template, surge=surge),
        *((pod_monitor(spec, around=around),) if around.has_pod_monitors else ()),
    )


def service_account(spec: ServiceSpec) -> dict[str, Any]:
    """Whom the pods run as: nobody that has a right, and whose token no pod gets."""
    return child(
        spec,
        api_version="v1",
        kind="ServiceAccount",
        name=engine_name(spec.name),
        content={"automountServiceAccountToken": False},
    )


def service(spec: ServiceSpec) -> dict[str, Any]:
    """The stable address of the OpenAI routes. The admin port is not in it."""
    port = {"name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}
    content = {"spec": {"type": "ClusterIP", "selector": selector_labels(spec.name), "ports": [port]}}
    return child(spec, api_version="v1", kind="Service", name=spec.name, content=content)


def pod_disruption_budget(spec: ServiceSpec) -> dict[str, Any]:
    """Nodes are emptied one engine at a time."""
    content = {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector_labels(spec.name)}}}
    return child(
        spec,
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        name=engine_name(spec.name),
        content=content,
    )


def deployment(
    spec: ServiceSpec, *, replicas: int, template: Mapping[str, Any], surge: bool
) -> dict[str, Any]:
    """The engines. Without `surge`, one pod goes before another comes."""
    # A pod may have to drain before the one that takes its GPU can start.
    deadline_s = spec.rollout.progress_deadline_s + spec.engine.drain_timeout_s
    content = {
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector_labels(spec.name)},
            "strategy": _strategy(spec, surge=surge),
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": math.ceil(deadline_s),
            "template": template,
        }
    }
    return child(spec, api_version="apps/v1", kind="Deployment", name=engine_name(spec.name), content=content)


def _strategy(spec: ServiceSpec, *, surge: bool) -> dict[str, Any]:
    rollout = spec.rollout
    if rollout.strategy is RolloutStrategy.RECREATE:
        return {"type": "Recreate"}
    one_by_one = {"maxUnavailable": 1, "maxSurge": 0}
    declared = {"maxUnavailable": rollout.max_unavailable, "maxSurge": rollout.max_surge}
    return {"type": "RollingUpdate", "rollingUpdate": declared if surge else one_by_one}
