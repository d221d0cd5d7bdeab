"""How a Prometheus with its operator finds the engines of a service. It names no file and no credentials."""

from typing import Any

from headrace_operator.api.names import SERVICE_LABEL, engine_name, selector_labels
from headrace_operator.api.spec import ServiceSpec
from headrace_operator.render.metadata import child
from headrace_operator.render.surroundings import Surroundings


def pod_monitor(spec: ServiceSpec, *, around: Surroundings) -> dict[str, Any]:
    """The PodMonitor of a service: its pods, in its own namespace."""
    content = {
        "spec": {
            "selector": {"matchLabels": selector_labels(spec.name)},
            "podMetricsEndpoints": [{"port": "http", "path": "/metrics"}],
            "podTargetLabels": [SERVICE_LABEL],
        }
    }
    manifest = child(
        spec,
        api_version="monitoring.coreos.com/v1",
        kind="PodMonitor",
        name=engine_name(spec.name),
        content=content,
    )
    manifest["metadata"]["labels"] = {**around.pod_monitor_labels, **manifest["metadata"]["labels"]}
    return manifest
