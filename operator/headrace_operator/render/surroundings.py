"""What the cluster around a service is like, as far as its objects depend on it: the same for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Made once of the operator's configuration."""

    operator_namespace: str = "headrace-system"
    metrics_from: tuple[Mapping[str, Any], ...] = ()
    """NetworkPolicyPeers that may read metrics."""
    has_pod_monitors: bool = False
    """Whether a PodMonitor is made for each service: asked for, and known to the cluster."""
    pod_monitor_labels: Mapping[str, str] = field(default_factory=dict)
    """By which a Prometheus picks its PodMonitors."""


ALONE = Surroundings()
"""Nothing is known but what the chart does where nothing is set."""
