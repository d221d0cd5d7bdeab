"""The kinds of object that the operator reads or writes, and where the API server serves them.

Pure. The table is closed on purpose: a kind that is not listed here cannot be read or written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

SERVICE_LABEL = "headrace.dev/inferenceservice"


class Key(NamedTuple):
    """Which InferenceService: the only thing that the queue carries."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A served resource. `label_selector` bounds what is listed and watched of it."""

    api_version: str
    kind: str
    plural: str
    label_selector: str | None = SERVICE_LABEL

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of one object, of a namespace's collection, or of the cluster's."""
        parts = ["apis" if self.group else "api", self.api_version]
        if namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


INFERENCE_SERVICES = Kind("headrace.dev/v1alpha1", "InferenceService", "inferenceservices", None)
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
PODS = Kind("v1", "Pod", "pods")
SERVICES = Kind("v1", "Service", "services")
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
POD_DISRUPTION_BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
SERVICE_ACCOUNTS = Kind("v1", "ServiceAccount", "serviceaccounts")
NETWORK_POLICIES = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
POD_MONITORS = Kind("monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
"""Not every cluster knows them."""
AUTOSCALERS = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", None)
"""Others', seen to tell who else scales."""
REPLICA_SETS = Kind("apps/v1", "ReplicaSet", "replicasets")
EVENTS = Kind("v1", "Event", "events", None)
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases", None)

CHILDREN = (
    SERVICE_ACCOUNTS,
    NETWORK_POLICIES,
    CONFIG_MAPS,
    SERVICES,
    POD_DISRUPTION_BUDGETS,
    DEPLOYMENTS,
)
WATCHED = (INFERENCE_SERVICES, PODS, *CHILDREN, AUTOSCALERS)
OPTIONAL = frozenset({AUTOSCALERS})
"""Where they may not be seen, services are served all the same."""

_BY_NAME = {
    (kind.api_version, kind.kind): kind for kind in (*WATCHED, POD_MONITORS, REPLICA_SETS, EVENTS, LEASES)
}


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of a manifest. Raises `LookupError` for a kind that the operator has no business with."""
    name = (manifest.get("apiVersion"), manifest.get("kind"))
    try:
        return _BY_NAME[name]  # type: ignore[index]
    except (KeyError, TypeError):
        raise LookupError(f"the operator neither reads nor writes {name[1]!r} of {name[0]!r}") from None
